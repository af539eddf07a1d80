import { isJsonObject, type JsonObject } from '../../base/json.ts'
import type { ErasedItems } from '../../client/index.ts'
import { EXIT, Exit } from '../exit.ts'
import { connectNode, nodeExit } from '../node/node-client.ts'
import type { NodeFlags } from '../node/node-options.ts'
import { count, print, withProgress } from '../output/output.ts'
import { parseWhereFlag } from './count.ts'

/** Maximum ids of one request. */
const IDS_PER_REQUEST = 1_000
/** Much longer than a request takes, also on a busy node. */
const TIMEOUT_MS = 300_000

interface Flags extends NodeFlags {
  readonly url: string
  readonly ids?: readonly string[]
  readonly where?: string
  readonly deleted?: true
  readonly reason?: string
  readonly dryRun?: true
}

export async function runErase(db: string, flags: Flags): Promise<void> {
  const { ids, where, deleted, dryRun, reason, json } = flags
  if ((ids !== undefined) === (where !== undefined || deleted !== undefined)) {
    throw new Exit(EXIT.usage, 'give either --ids, or --where or --deleted')
  }
  const chosen = {
    ...(where === undefined ? {} : { where: parsePredicate(where) }),
    ...(deleted === undefined ? {} : { deleted }),
    ...(dryRun === undefined ? {} : { dryRun }),
    ...(reason === undefined ? {} : { reason }),
  }
  const database = connectNode(flags, { timeoutMs: TIMEOUT_MS }).database(db)
  const done = dryRun === true ? 'would be erased' : 'erased'
  let total: ErasedItems = { items: 0, revisions: 0 }
  await withProgress('erasing', async (line) => {
    for (const some of splitIds(ids)) {
      const before = total
      const progress = ({ items, revisions }: ErasedItems) => {
        total = { items: before.items + items, revisions: before.revisions + revisions }
        line.update(null, formatAmounts(total))
      }
      const selection = some === null ? chosen : { ...chosen, ids: some }
      const erased = await database.erase({ ...selection, progress }).catch((error: unknown) => {
        const exit = nodeExit(error, flags)
        if (!(exit instanceof Exit) || total.revisions === 0) throw exit
        const message = `${exit.message}; ${formatAmounts(total)} ${done} before`
        throw new Exit(exit.code, message, { cause: error })
      })
      progress(erased)
    }
  })
  print(json, { status: true, ...total }, `${formatAmounts(total)} ${done}`)
}

function formatAmounts({ items, revisions }: ErasedItems): string {
  return `${count(revisions, 'revision')} of ${count(items, 'item')}`
}

/** Returns pages of `ids`, or one null without ids. */
function splitIds(ids: readonly string[] | undefined): (readonly string[] | null)[] {
  if (ids === undefined) return [null]
  const starts = Array.from({ length: Math.ceil(ids.length / IDS_PER_REQUEST) }, (_, n) => n)
  return starts.map((n) => ids.slice(n * IDS_PER_REQUEST, (n + 1) * IDS_PER_REQUEST))
}

function parsePredicate(text: string): JsonObject {
  const value = parseWhereFlag(text)
  if (isJsonObject(value)) return value
  throw new Exit(EXIT.usage, `--where must be a JSON object, such as {"name":"Aiko"}, not ${text}`)
}
