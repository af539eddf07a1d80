import { callNode } from '../node/node-client.ts'
import type { NodeFlags } from '../node/node-options.ts'
import { print } from '../output/output.ts'

interface Flags extends NodeFlags {
  readonly url: string
  readonly from: string
  readonly to?: string
  readonly docs?: boolean
}

export async function runDiff(db: string | undefined, flags: Flags): Promise<void> {
  const { from, to, docs, json } = flags
  const query = {
    from,
    ...(db === undefined ? {} : { db }),
    ...(to === undefined ? {} : { to }),
    ...(docs === true ? { docs: 'true' as const } : {}),
  }
  const reply = await callNode(flags, 'GET /api/config/diff', { query })
  const lines = reply.changes.flatMap(({ db: name, id, change, before, after }) => [
    `${change}  ${db === undefined ? `${name}/` : ''}${id}`,
    ...(before === undefined ? [] : [`- ${JSON.stringify(before)}`]),
    ...(after === undefined ? [] : [`+ ${JSON.stringify(after)}`]),
  ])
  print(json, reply, lines.length === 0 ? 'no differences' : lines.join('\n'))
}
