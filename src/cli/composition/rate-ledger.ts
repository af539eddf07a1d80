import { isJsonObject, type Json } from '../../base/json.ts'
import { positionText } from '../../chain/index.ts'
import { LedgerError, type LedgerErrorCode } from '../../ledger/core.ts'
import type { LedgerService } from '../../ledger/index.ts'
import {
  type HistoryQuery,
  RATES_DATABASE,
  type RateLedger,
  type RecordedVector,
  type VectorRecord,
  vectorRecordOf,
} from '../../rate-feed/index.ts'

/** All ids of the database, from its first one. */
const ALL = { limit: 0, offset: 0, after: null } as const

/** The ledger of this process, as the rate feed needs it. */
export function ledgerOfRates(ledger: LedgerService): RateLedger {
  return {
    record: (record) => recordIn(ledger, record),
    history: (query) => historyIn(ledger, query),
  }
}

async function recordIn(ledger: LedgerService, record: VectorRecord): Promise<void> {
  const { id, source, asOf, acceptedAt, perEur, rate } = record
  const item = { id, source, asOf, acceptedAt, perEur: { ...perEur }, rate: { ...rate } }
  const create = () => ledger.createItem(RATES_DATABASE, item)
  try {
    await create().catch(async (error: unknown) => {
      if (!isLedgerError(error, 'DATABASE_NOT_FOUND')) throw error
      await ledger.createDatabase(RATES_DATABASE).catch(unless('DATABASE_EXISTS'))
      await create()
    })
  } catch (error) {
    // Equal ids are equal vectors: it is recorded already, as after a restart.
    unless('ITEM_EXISTS')(error)
  }
}

async function historyIn(
  ledger: LedgerService,
  { from, to, limit, offset }: HistoryQuery,
): Promise<RecordedVector[]> {
  const found: RecordedVector[] = []
  let skip = offset
  for await (const ids of await idsIn(ledger)) {
    for (const id of ids) {
      // An id starts with its date, so items outside the range are never read.
      const date = /^\d{4}-\d\d-\d\d/.exec(id)?.[0]
      if (date === undefined || (from !== null && date < from) || (to !== null && date > to))
        continue
      if (skip > 0) {
        skip -= 1
        continue
      }
      const vector = await readIn(ledger, id)
      if (vector !== null) found.push(vector)
      if (found.length >= limit) return found
    }
  }
  return found
}

/** The ids of all records; none while the database does not exist. */
async function idsIn(ledger: LedgerService): Promise<AsyncIterable<string[]> | string[][]> {
  try {
    return await ledger.listIds(RATES_DATABASE, ALL)
  } catch (error) {
    unless('DATABASE_NOT_FOUND')(error)
    return []
  }
}

async function readIn(ledger: LedgerService, id: string): Promise<RecordedVector | null> {
  const item = await ledger.readItem(RATES_DATABASE, id)
  if (item === null) return null
  const value: Json = JSON.parse(item.text)
  const record = isJsonObject(value) ? vectorRecordOf(value) : null
  const position = `${ledger.serverId}/${positionText(item.revision)}`
  return record === null ? null : { record, position }
}

function isLedgerError(error: unknown, code: LedgerErrorCode): boolean {
  return error instanceof LedgerError && error.code === code
}

/** Rethrows everything but the refusal `code`. */
function unless(code: LedgerErrorCode): (error: unknown) => void {
  return (error) => {
    if (!isLedgerError(error, code)) throw error
  }
}
