import { availableParallelism } from 'node:os'
import { type Copied, copyStore } from '../../ledger/core.ts'
import { displayName, isDatabaseUrl } from '../../storage/index.ts'
import { onStore, requireSourceFolder } from '../node/node-folder.ts'
import { count, formatFields, paceText, print, shareDone, withProgress } from '../output/output.ts'

export async function runCopy(
  from: string,
  to: string,
  { json }: { json?: boolean },
): Promise<void> {
  if (!isDatabaseUrl(from)) requireSourceFolder(from)
  const { result, seconds } = await withProgress('copying', (line) =>
    onStore(() =>
      copyStore({
        ...{ from, to, threads: availableParallelism() },
        progress: (done) => line.update(shareDone(done), `${done.entries} entries`),
      }),
    ),
  )
  const { serverId, blocks, entries, databases, items, contents, headId } = result
  const shown = { serverId, blocks, entries, databases, items, contents, headId }
  print(json, { status: true, to: displayName(to), ...shown }, copiedText(result, to, seconds))
}

function copiedText(copied: Copied, to: string, seconds: number): string {
  const { serverId, blocks, entries, contents, contentBytes, headId } = copied
  const done = `Copied: ${count(blocks, 'block')}, ${count(entries, 'entry', 'entries')}; everything is valid.`
  const fields = {
    to: displayName(to),
    'server id': serverId,
    attached:
      contents === 0 ? null : `${count(contents, 'blob')} of ${count(contentBytes, 'byte')}`,
    head: headId ?? '(none)',
    time: paceText(entries, seconds),
  }
  return `${done}\n${formatFields(fields)}`
}
