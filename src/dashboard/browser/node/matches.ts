import { isJsonObject, type JsonObject } from '../../../base/json.ts'
import { parseForeignJsonOrNull } from '../../../base/strict-json.ts'
import { ClientError } from '../../../client/index.ts'
import type { ListedItem } from '../text/table.ts'
import { ledger } from './ledger.ts'

/** The items of a database that match. */
export interface Matches {
  readonly db: string
  /** Conditions as JSON, or null for all items. */
  readonly where: string | null
  readonly signal: AbortSignal
  /** Height of the state that is read; absent for the current state. */
  readonly at?: number
}

const PAGE = 1_000

/** Returns the options of a query with conditions as JSON. */
function toOptions({ where, signal, at }: Matches) {
  return { ...toFilter(where), pageSize: PAGE, signal, at }
}

/** Returns the filter of conditions as JSON, or nothing for null. Errors: ClientError, so that nothing is read unfiltered. */
export function toFilter(where: string | null): { filter?: { where: JsonObject } } {
  if (where === null) return {}
  const parsed = parseForeignJsonOrNull(where)
  if (isJsonObject(parsed)) return { filter: { where: parsed } }
  throw new ClientError('FILTER_MALFORMED', 400, 'the conditions are not a JSON object')
}

export async function* readMatches(matches: Matches): AsyncGenerator<ListedItem> {
  const items = ledger.database(matches.db).query(toOptions(matches))
  for await (const item of items) yield { ...item, id: String(item.id) }
}

/** Yields the ids of at most `limit` matching items. */
export function readMatchingIds({
  limit,
  ...matches
}: Matches & { readonly limit: number }): AsyncGenerator<string> {
  return ledger.database(matches.db).ids({ ...toOptions(matches), limit })
}
