import type { Clock } from '../../base/clock.ts'
import { CodedError, unlessCode } from '../../base/coded-error.ts'
import { isJsonObject, type Json } from '../../base/json.ts'
import { positionText } from '../../chain/index.ts'
import type { HttpComponent } from '../../http/index.ts'
import { outboundGet } from '../../http/outbound.ts'
import type { LedgerService, ListedId } from '../../ledger/index.ts'
import {
  parseSourceList,
  parseVectorRecord,
  RATES_DATABASE,
  type RateFeedDeps,
  type RateLedger,
  type RecordedVector,
  rateFeedComponent,
} from '../../rate-feed/index.ts'
import type { ComponentContext } from './context.ts'
import type { Settings } from './settings.ts'

/** Timeout of a request to a source, including name resolution and the last byte. */
const SOURCE_TIMEOUT_MS = 5_000
/** Maximum bytes of a decompressed reply of a source. */
const SOURCE_BYTES_MAX = 1_048_576

/** Creates the rate feed, which records accepted rates in `ledger` unless `ledger` is null. */
export async function createRates(
  { settings, version, clock, logger }: ComponentContext,
  ledger: LedgerService | null,
): Promise<HttpComponent> {
  return rateFeedComponent({
    ...rateFeedDeps(settings, version, clock),
    log: logger.child({ component: 'rates' }),
    ledger: ledger === null ? null : createRateLedger(ledger),
    version,
  })
}

/**
 * Returns the dependencies of a rate feed. Sources are read over https only, and not from private networks. Errors: SourceListError for an invalid RATES_SOURCES.
 */
export function rateFeedDeps(
  settings: Settings,
  version: string,
  clock: Clock,
): Omit<RateFeedDeps, 'log' | 'ledger'> {
  return {
    settings: {
      sources: parseSourceList(settings.RATES_SOURCES),
      strict: settings.RATES_STRICT,
      staleAfterMs: settings.RATES_STALE_AFTER,
      folder: settings.SYSTEM_FOLDER,
    },
    clock,
    random: Math.random,
    get: (url, headers) =>
      outboundGet(
        url,
        { ...headers, 'user-agent': `daicho/${version}` },
        {
          schemes: ['https:'],
          allowPrivate: false,
          timeoutMs: SOURCE_TIMEOUT_MS,
          bodyBytesMax: SOURCE_BYTES_MAX,
        },
      ),
  }
}

/** The author of recorded rates, if the node requires tokens. */
const RECORDER = { sub: 'daicho:rates' }

/** Returns a rate ledger that records rates in the database `rates` of `ledger`. */
export function createRateLedger(ledger: LedgerService): RateLedger {
  return {
    async record({ id, source, asOf, acceptedAt, perEur, rate }) {
      const item = { id, source, asOf, acceptedAt, perEur: { ...perEur }, rate: { ...rate } }
      const made = ledger.writer.isAuthorRequired ? { by: RECORDER } : {}
      const conditions = { ...made, precondition: null, idempotency: null }
      const create = () => ledger.write.createItem(RATES_DATABASE, item, conditions)
      const createAll = async () => {
        if (await unlessCode('DATABASE_NOT_FOUND', create())) return
        const database = ledger.write.createDatabase(RATES_DATABASE, conditions)
        await unlessCode('DATABASE_EXISTS', database)
        await create()
      }
      // An item with the same id has the same rates, so they are already recorded, for example before a restart.
      await unlessCode('ITEM_EXISTS', createAll())
    },
    async history({ from, to, limit, offset }) {
      const found: RecordedVector[] = []
      let skip = offset
      for await (const ids of await listRecordIds(ledger)) {
        for (const { id } of ids) {
          // An id starts with the date of the rates, so items outside the range need not be read.
          const date = /^\d{4}-\d\d-\d\d/.exec(id)?.[0]
          const isInRange =
            date !== undefined && (from === null || date >= from) && (to === null || date <= to)
          if (!isInRange) continue
          if (skip > 0) {
            skip -= 1
            continue
          }
          const vector = await readRecord(ledger, id)
          if (vector !== null) found.push(vector)
          if (found.length >= limit) return found
        }
      }
      return found
    },
  }
}

/** Returns the ids of all records, in pages. Returns no pages if the database does not exist. */
async function listRecordIds(
  ledger: LedgerService,
): Promise<AsyncIterable<ListedId[]> | ListedId[][]> {
  try {
    return await ledger.read.ids(RATES_DATABASE, { limit: 0, offset: 0, after: null })
  } catch (error) {
    if (error instanceof CodedError && error.code === 'DATABASE_NOT_FOUND') return []
    throw error
  }
}

async function readRecord(ledger: LedgerService, id: string): Promise<RecordedVector | null> {
  // If the database was deleted after the ids were listed, `reader.readItem` returns null; `ledger.readItem` throws.
  const item = await ledger.reader.readItem(RATES_DATABASE, id)
  if (item === null) return null
  const value: Json = JSON.parse(item.text)
  const record = isJsonObject(value) ? parseVectorRecord(value) : null
  const position = `${ledger.serverId}/${positionText(item.revision)}`
  return record === null ? null : { record, position }
}
