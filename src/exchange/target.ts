import { hash } from 'node:crypto'
import type { Author } from '../base/author.ts'
import { CodedError, unlessCode } from '../base/coded-error.ts'
import type { LedgerService, UnitOfWork } from '../ledger/index.ts'
import type { SourceAttachment } from './formats/record.ts'

/** The ledger into which items are loaded: a running node, or a store that this process has opened. */
export interface LoadTarget {
  /**
   * Returns the position of the entry that created the database, in any form, or null if there is none. A database that
   * was deleted and created again has another position. Errors: those of `record`.
   */
  findCreation(db: string): Promise<string | null>
  /** Creates the database, once per `key`. Returns false if the database exists. Errors: those of `record`. */
  createDatabase(db: string, key: string): Promise<boolean>
  /**
   * Records all changes of `unit` in one block, or no change. A unit with the `key` of an earlier unit is not recorded
   * again. Errors: CodedError, with the codes of the ledger. Nothing was recorded unless `isOutcomeUnknown`.
   */
  record(unit: UnitOfWork, key: string): Promise<void>
  /** Returns the canonical text of an item, or null if the item does not exist. */
  read(db: string, id: string): Promise<string | null>
  /**
   * Attaches bytes to an item, once per `key`, unless the item has an attachment with this name and these bytes.
   * Errors: those of `record`.
   */
  attach(db: string, id: string, attachment: SourceAttachment, key: string): Promise<void>
}

/** Returns whether a request that failed with `error` may have been recorded. */
export function isOutcomeUnknown(error: unknown): boolean {
  return (
    error instanceof CodedError && ['OUTCOME_UNKNOWN', 'WRITER_STOPPED'].includes(`${error.code}`)
  )
}

/** Number of recorded units after which the log is signed while the load continues, so that its end need not wait. */
const UNITS_PER_SIGNATURE = 32

/** Returns a target for a ledger that this process has opened and locked. `by`: the author of the changes, or null. */
export function serviceTarget(service: LedgerService, by: Author | null = null): LoadTarget {
  const made = by === null ? {} : { by }
  const conditionsFor = (key: string) => ({
    ...{ ...made, precondition: null, idempotency: idempotencyFor(key) },
  })
  let unsigned = 0
  return {
    async findCreation(db) {
      const created = (await service.read.storedDatabases()).find(({ name }) => name === db)
      return created === undefined ? null : `${created.created}`
    },
    async createDatabase(db, key) {
      const creation = service.write.createDatabase(db, conditionsFor(key))
      return unlessCode('DATABASE_EXISTS', creation)
    },
    async record(unit, key) {
      await service.write.recordUnit(unit, conditionsFor(key))
      unsigned += 1
      if (unsigned % UNITS_PER_SIGNATURE !== 0) return
      // A failure does not concern the load, and the end of the load signs again.
      service.log.checkpoint().catch(() => {})
    },
    async read(db, id) {
      return (await service.read.item(db, id))?.text ?? null
    },
    async attach(db, id, { name, contentType, bytes }, key) {
      const idempotency = idempotencyFor(key)
      const upload = service.attachments.put(db, id, name, {
        contentType,
        announcedLength: bytes.length,
        digests: [],
        conditions: {
          ...made,
          precondition: { match: null, noneMatch: [hash('sha256', bytes, 'hex')] },
          keyed: { key: idempotency.key, with: () => idempotency },
        },
        chunks: (async function* () {
          yield bytes
        })(),
      })
      await unlessCode('PRECONDITION_FAILED', upload)
    },
  }
}

/** Returns the idempotency key for `key`. It is also the fingerprint, as each request has its own key. */
function idempotencyFor(key: string) {
  const digest = hash('sha256', `daicho load ${key}`, 'hex')
  return { key: digest, fingerprint: digest }
}
