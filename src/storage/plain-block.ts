import { canonicalJson } from '../base/canonical-json.ts'
import { canonicalMember } from '../base/canonical-scan.ts'
import { isJsonObject, type Json } from '../base/json.ts'
import { parseJson } from '../base/parse-json.ts'
import { type Block, entryText, erasedIn, packPosition } from '../chain/index.ts'
import { parsedEntry } from './erased-entry.ts'
import type { RowCursor } from './row-cursor.ts'
import type { PlacedItem } from './store.ts'

/** Entries, next to each other, that created items in one database. */
export interface Creations {
  readonly db: string
  /** Where the rows say that the database was created, packed. */
  readonly database: number
  readonly count: number
}

/**
 * A block that does nothing but create items, each of which stands in the databases as it was created.
 * Most blocks are like that. Whether its databases are those of the chain is for the comparison.
 */
export interface PlainBlock {
  readonly height: number
  readonly id: string
  /** How many entries it has. */
  readonly count: number
  readonly creations: readonly Creations[]
}

/**
 * `block`, whose hashes hold, as a plain block, or null when it is none. `rows` goes on to the rows
 * behind those of the block, or stays before where a block ceases to be plain.
 */
export async function plainBlock(block: Block, rows: RowCursor): Promise<PlainBlock | null> {
  const { height, id, serverId, entries } = block
  rows.skipTo(packPosition(height, 0))
  if (erasedIn(block).size > 0) return null
  const creations: Creations[] = []
  let db: string | null = null
  let [database, count] = [-1, 0]
  const end = () => {
    if (db !== null && count > 0) creations.push({ db, database, count })
    count = 0
  }
  for (const [index, text] of entries.entries()) {
    const position = packPosition(height, index)
    const row = rows.read ?? (await rows.peek())
    if (row?.created !== position || row.revision !== position) return null
    if (row.database !== database || db === null || !isCreation(text, serverId, db, row)) {
      end()
      database = row.database
      db = parsedEntry(text)?.db ?? null
      if (db === null || !isCreation(text, serverId, db, row)) return null
    }
    if (!isCanonicalItem(row)) return null
    count += 1
    rows.pass()
  }
  end()
  if (await rows.isBefore(packPosition(height + 1, 0))) return null
  return { height, id, count: entries.length, creations }
}

function isCreation(text: string, serverId: number, db: string, row: PlacedItem): boolean {
  return entryText.item('create_item', serverId, db, row.text) === text
}

/** Whether the text of the row is the canonical one of an item with the row's id. */
function isCanonicalItem({ id, text }: PlacedItem): boolean {
  if (canonicalMember(text, 'id') === `"${id}"`) return true
  try {
    const item: Json = parseJson(text)
    return isJsonObject(item) && item.id === id && canonicalJson(item) === text
  } catch {
    return false
  }
}
