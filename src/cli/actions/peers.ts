import { EXIT } from '../exit.ts'
import { callNode } from '../node/node-client.ts'
import type { NodeFlags } from '../node/node-options.ts'
import { print } from '../output/output.ts'

interface Flags extends NodeFlags {
  readonly url: string
}

interface AddFlags extends Flags {
  readonly push?: boolean
}

export async function runPeersList(flags: Flags): Promise<void> {
  const reply = await callNode(flags, 'GET /api/config/peers', {})
  const lines = reply.peers.map(({ serverid, url, state, blocks, lag, error, evidence }) => {
    const behind = lag === 0 ? '' : `, ${lag} behind`
    const problem = evidence?.what ?? error?.message
    const suffix = problem === undefined ? '' : `: ${problem}`
    return `${serverid}  ${url ?? '(pushes)'}  ${state}, ${blocks} blocks${behind}${suffix}`
  })
  if (lines.length === 0) lines.push('there are no peers')
  if (reply.evidence !== null) lines.push(`THIS NODE  frozen: ${reply.evidence.what}`)
  print(flags.json, reply, lines.join('\n'))
  const isFine = reply.peers.every(({ state }) => state === 'current' || state === 'behind')
  if (!isFine || reply.evidence !== null) process.exitCode = EXIT.finding
}

export async function runPeersAdd(
  vkey: string,
  url: string | undefined,
  flags: AddFlags,
): Promise<void> {
  const body = { vkey, ...(url && { url }), ...(flags.push && { push: true }) }
  await callNode(flags, 'POST /api/config/peers', { body })
  print(flags.json, { status: true, peer: 'added' }, 'added')
}

export async function runPeersRemove(serverid: string, flags: Flags): Promise<void> {
  await callNode(flags, 'DELETE /api/config/peers/{serverid}', { path: { serverid } })
  print(flags.json, { status: true, peer: 'removed' }, 'removed')
}
