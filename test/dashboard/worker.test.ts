// Messages that the verification worker sends to the page, for different replies of the node.
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import type { Remembered } from '../../src/dashboard/browser/verification/known-chain.ts'
import type { WorkerMessage } from '../../src/dashboard/browser/verification/messages.ts'
import { basic } from '../support/basic.ts'
import {
  CREDENTIALS,
  type LedgerNode,
  startLedgerNode,
  temporaryFolder,
} from '../support/ledger-node.ts'

const WORKER = new URL('../../src/dashboard/browser/verification/worker.ts', import.meta.url).href

let node: LedgerNode
let onReport: (report: WorkerMessage) => void
let order: (event: { readonly data: object }) => void
/** Replies that replace the replies of the node, by the last segment of the path. */
let instead: Readonly<Record<string, Response>> = {}
beforeAll(async () => {
  node = await startLedgerNode({ folder: temporaryFolder(afterAll) })
  await node.send('POST', '/api/fruit')
  await node.send('POST', '/api/fruit', [{ id: 'fig' }, { id: 'plum' }])
  const toNode = globalThis.fetch
  vi.stubGlobal('fetch', async (input: string, init: RequestInit) => {
    const name = /([^/]*?)(?:\?.*)?$/.exec(input)?.[1] ?? ''
    // A browser adds the credentials of the page to requests for a session.
    const headers =
      name === 'session' ? basic(CREDENTIALS.name, CREDENTIALS.password) : init.headers
    return (
      instead[name] ?? toNode(input, { ...init, ...(headers === undefined ? {} : { headers }) })
    )
  })
  // The globals of a browser worker that the code uses.
  vi.stubGlobal('addEventListener', (_kind: string, listener: typeof order) => {
    order = listener
  })
  vi.stubGlobal('postMessage', (report: WorkerMessage) => onReport(report))
  await import(/* @vite-ignore */ WORKER)
})
afterAll(() => node.close())

/** Returns the last message of the worker while `answers` replaces replies of the node. */
async function verdict(
  answers: typeof instead = {},
  remembered: Remembered | null = null,
): Promise<WorkerMessage> {
  instead = answers
  const report = new Promise<WorkerMessage>((resolve) => {
    onReport = (one) => one.kind !== 'progress' && resolve(one)
  })
  order({ data: { base: `${node.url}/`, remembered } })
  return report
}

it('reports a valid chain with the state to store, and compares later chains with this state', async () => {
  expect(await verdict()).toMatchObject({
    kind: 'verdict',
    verdict: { fault: null, blocks: 2, entries: 3, remember: { size: 2 } },
  })
  const chain = { verifierKey: node.service.log.verifierKey, size: 2, root: 'other' }
  expect(await verdict({}, chain)).toMatchObject({ verdict: { fault: { code: 'forked' } } })
  const otherNode = { ...chain, verifierKey: `daicho/1+${chain.verifierKey.split('+', 3)[1]}` }
  expect(await verdict({}, otherNode)).toMatchObject({ verdict: { fault: { code: 'keyChanged' } } })
})

it('reports whether a revision is proven', async () => {
  const shown = { db: 'fruit', id: 'fig', position: '1.0', item: { id: 'fig' } }
  const report = new Promise<WorkerMessage>((resolve) => {
    onReport = resolve
  })
  instead = {}
  order({ data: { base: `${node.url}/`, remembered: null, shown } })
  expect(await report).toMatchObject({
    ...{ kind: 'proof', serverId: node.service.serverId },
    verdict: { refused: null, size: 2 },
  })
})

it.each<[string, Record<string, Response>, string]>([
  ['no checkpoint', { checkpoint: new Response('', { status: 503 }) }, 'unsigned'],
  ['another key', { vkey: new Response('none') }, 'key'],
  [
    'an error reply instead of blocks',
    { ledgers: new Response('', { status: 500 }) },
    'unreadable',
  ],
  ['blocks that are not JSON', { ledgers: new Response('{"ledgers":[') }, 'unreadable'],
  ['blocks that are not a list', { ledgers: new Response('{"ledgers":{}}') }, 'unreadable'],
  ['a string instead of blocks', { ledgers: new Response('"ledgers"') }, 'unreadable'],
])('reports an invalid chain for a node with %s', async (_, answers, code) => {
  // A Response can be read only once, but the worker also requests the blocks one by one.
  const again = Object.entries(answers).map(([name, reply]) => {
    const { status } = reply
    const text = reply.text()
    const each = { ok: status === 200, status, headers: reply.headers, text: () => text }
    return [name, each as unknown as Response]
  })
  expect(await verdict(Object.fromEntries(again))).toMatchObject({
    ...{ kind: 'verdict', verdict: { fault: { code }, remember: null } },
  })
})

it.each<[string, Record<string, Response>, string]>([
  ['does not serve its key', { vkey: new Response('may not', { status: 403 }) }, 'may not'],
  ['does not serve its checkpoint', { checkpoint: new Response('gone', { status: 404 }) }, 'gone'],
  ['has no server id', { serverid: new Response('{"serverid":"5"}') }, 'no server id'],
  ['does not create a session', { session: new Response('', { status: 502 }) }, 'no session: 502'],
])('reports an error and no result for a node that %s', async (_, answers, message) => {
  expect(await verdict(answers)).toEqual({ kind: 'failed', message })
})
