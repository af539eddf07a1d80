import { isoTime } from '../../base/iso-time.ts'
import { isJsonObject, type JsonObject } from '../../base/json.ts'
import type { Operations } from '../../client/index.ts'
import {
  type ChainPoint,
  type EntrySearch,
  entryFilter,
  parseChainPoint,
  positionText,
  storedJson,
} from '../../ledger/core.ts'
import { callNode } from '../node/node-client.ts'
import { type FolderFlags, onStore } from '../node/node-folder.ts'
import type { NodeFlags } from '../node/node-options.ts'
import { openNodeReader } from '../node/node-reader.ts'
import { escapeControls } from '../output/output.ts'

type Change = Operations['GET /api/ledgers/{serverid}/changes']['reply']['changes'][number]

interface LogFlags extends NodeFlags, FolderFlags {
  readonly by?: string
  readonly iss?: string
  readonly db?: string
  readonly from: string
  readonly to?: string
}

export async function runLog(flags: LogFlags): Promise<void> {
  await onStore(async () => {
    for await (const changes of flags.url === undefined ? readFolder(flags) : readNode(flags)) {
      const format = flags.json === true ? formatJson : formatChange
      process.stdout.write(changes.map((change) => `${format(change)}\n`).join(''))
    }
  })
}

const formatJson = (change: Change) => escapeControls(JSON.stringify(change))

/** Yields the changes of a running node. Errors: Exit. */
async function* readNode({ url = '', token, ...flags }: LogFlags): AsyncGenerator<Change[]> {
  const node = { url, token }
  const { serverid } = await callNode(node, 'GET /api/serverid', {})
  const { by, iss, db, to } = flags
  const filter = {
    ...(by === undefined ? {} : { by }),
    ...(iss === undefined ? {} : { iss }),
    ...(db === undefined ? {} : { db: [db] }),
    ...(to === undefined ? {} : { to }),
  }
  for (let from = flags.from; ; ) {
    const input = { path: { serverid: `${serverid}` }, query: { ...filter, from } }
    const { changes, next } = await callNode(node, 'GET /api/ledgers/{serverid}/changes', input)
    yield [...changes]
    if (next === null) return
    from = `${next}`
  }
}

/** Yields the changes in the folder of a node, in its state now. Errors: Exit, LedgerError. */
async function* readFolder(flags: LogFlags): AsyncGenerator<Change[]> {
  const { by, iss, db, from, to } = flags
  const filter = entryFilter({ by, iss, db: db === undefined ? [] : [db] })
  const end = to === undefined ? null : parseChainPoint(to)
  const reader = await openNodeReader(flags)
  try {
    let point: ChainPoint | null = parseChainPoint(from)
    while (point !== null) {
      const search: EntrySearch = { filter, from: point, to: end }
      point = null
      for await (const { entries, next } of reader.searchEntries(search)) {
        yield entries.map(({ position, timestamp, text }) => {
          return { position: positionText(position), timestamp, entry: storedJson(text) }
        })
        if (next !== null) point = { height: next }
      }
    }
  } finally {
    await reader.close()
  }
}

/** Returns e.g. `2026-03-01T09:00:00.000Z  12.0  update_item  fruit/plum  by alice: corrected`. */
function formatChange({ position, timestamp, entry }: Change): string {
  const { method, db, by, reason, id, item } = entry as Change['entry'] & JsonObject
  const itemId = isJsonObject(item) ? item.id : id
  const target = itemId === undefined ? db : `${db}/${itemId}`
  const author =
    by === undefined ? '' : `  by ${by.sub}${by.iss === undefined ? '' : ` (${by.iss})`}`
  const why = reason === undefined ? '' : `: ${reason}`
  const line = `${isoTime(timestamp)}  ${position}  ${method}  ${target}${author}${why}`
  return escapeControls(line).replaceAll('\n', '\\u000a')
}
