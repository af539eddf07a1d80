import { hash } from 'node:crypto'
import type { LedgerService, UnitOfWork } from '../ledger/index.ts'
import type { SourceAttachment } from './formats/record.ts'

/** The ledger into which items are loaded: a running node, or a store that this process has opened. */
export interface LoadTarget {
  /** Creates the database unless it exists. Returns whether the database was created. */
  createDatabase(db: string): Promise<boolean>
  /**
   * Records all changes of `unit` in one block, or no change. A unit with the `key` of an earlier unit is not recorded
   * again. Errors: CodedError, with the codes of the ledger.
   */
  record(unit: UnitOfWork, key: string): Promise<void>
  exists(db: string, id: string): Promise<boolean>
  /** Attaches bytes to an item, once per `key`. Errors: those of `record`. */
  attach(db: string, id: string, attachment: SourceAttachment, key: string): Promise<void>
}

/** Returns a target for a ledger that this process has opened and locked. */
export function serviceTarget(service: LedgerService): LoadTarget {
  return {
    async createDatabase(db) {
      if ((await service.databases()).includes(db)) return false
      await service.createDatabase(db)
      return true
    },
    async record(unit, key) {
      await service.recordUnit(unit, { precondition: null, idempotency: keyOf(key) })
    },
    async exists(db, id) {
      return (await service.readItem(db, id)) !== null
    },
    async attach(db, id, { name, contentType, bytes }, key) {
      const idempotency = keyOf(key)
      await service.attachments.put(db, id, name, {
        contentType,
        announcedLength: bytes.length,
        digests: [],
        conditions: {
          precondition: null,
          keyed: { key: idempotency.key, with: () => idempotency },
        },
        chunks: (async function* () {
          yield bytes
        })(),
      })
    },
  }
}

/** Returns the idempotency key for `key`. It is also the fingerprint, as each batch and attachment has its own key. */
function keyOf(key: string) {
  const digest = hash('sha256', `daicho load ${key}`, 'hex')
  return { key: digest, fingerprint: digest }
}
