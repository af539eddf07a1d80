// The verifying client with a server that lies: every result is proven, or the call rejects.
import { generateKeyPairSync } from 'node:crypto'
import { copyFileSync, mkdirSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { rawPublicKey, witnessKeyText } from '../../src/chain/index.ts'
import { ClientError, LedgerClient, VerificationError } from '../../src/client/index.ts'
import {
  type LedgerNode,
  type Reply,
  startLedgerNode,
  temporaryFolder,
} from '../support/ledger-node.ts'
import { collected, noted } from './fake-node.ts'

type Said = Pick<Reply, 'status' | 'text'> & { headers?: Headers }
type Lie = (path: string, honest: (path: string) => Promise<Said>) => Promise<Said>

const plum = (price: number) => ({ id: 'plum', price })
const truth: Lie = (path, honest) => honest(path)

/** Starts a proxy in front of `node`. The functions `lie` and `lieAboutChange` can change the replies. */
async function lyingProxy(node: LedgerNode) {
  const proxy = { url: '', lie: truth, lieAboutChange: truth, paths: [] as string[], node }
  const server = createServer(async (request, response) => {
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part)
    const body = parts.length === 0 ? undefined : Buffer.concat(parts).toString()
    const { method = '', url = '' } = request
    proxy.paths.push(url)
    const type: Record<string, string> =
      body === undefined ? {} : { 'content-type': 'application/json' }
    const honest = (path: string): Promise<Said> => proxy.node.send(method, path, body, type)
    const reply = await (method === 'GET' ? proxy.lie : proxy.lieAboutChange)(url, honest)
    for (const name of ['ledger-position', 'etag', 'content-type']) {
      const value = reply.headers?.get(name)
      if (value) response.setHeader(name, value)
    }
    response.writeHead(reply.status).end(reply.text)
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  proxy.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return proxy
}

async function keyOf({ send, service }: LedgerNode): Promise<string> {
  return (await send('GET', `/api/ledgers/${service.serverId}/vkey`)).text.trim()
}

/**
 * Returns an in-memory store for the signed head. Applications store the signed head in browser storage or in a
 * file instead.
 */
function memory(first: string | null = null) {
  const place = {
    note: first,
    get: () => place.note,
    set: (note: string) => {
      place.note = note
    },
  }
  return place
}

async function verifying(node: LedgerNode, place = memory(), current?: true) {
  const proxy = await lyingProxy(node)
  const key = await keyOf(node)
  const make = () =>
    new LedgerClient(proxy.url, { timing: noted(), verify: { key, checkpoint: place, current } })
  const ledger = make()
  return { proxy, place, make, ledger, fruit: ledger.database<{ price: number }>('fruit') }
}

async function record(node: LedgerNode, items: readonly object[]): Promise<void> {
  await node.send('POST', '/api/fruit')
  for (const item of items) expect((await node.send('POST', '/api/fruit', item)).status).toBe(200)
}

async function startWith(items: readonly object[]): Promise<LedgerNode> {
  const node = await startLedgerNode()
  onTestFinished(() => node.close())
  await record(node, items)
  return node
}

/** Starts one node for each history. All nodes have the same key, and each has its own folder. */
async function sameKeyNodes(histories: readonly (readonly object[])[]): Promise<LedgerNode[]> {
  const first = temporaryFolder()
  const nodes: LedgerNode[] = []
  for (const items of histories) {
    const folder = nodes.length === 0 ? first : join(temporaryFolder(), 'data')
    if (nodes.length > 0) {
      mkdirSync(folder)
      copyFileSync(join(first, 'node.key'), join(folder, 'node.key'))
    }
    const node = await startLedgerNode({ folder })
    onTestFinished(() => node.close())
    await record(node, items)
    nodes.push(node)
  }
  return nodes
}

async function outcome(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => 'believed',
    (error: unknown) => {
      expect(error).toBeInstanceOf(VerificationError)
      return error instanceof ClientError ? error.code : null
    },
  )
}

const fillers = (count: number) => Array.from({ length: count }, (_, n) => ({ id: `filler-${n}` }))

it('returns the same results as without verification while the node is honest', async () => {
  const node = await startWith([])
  const { ledger, fruit, proxy } = await verifying(node)
  expect(await ledger.serverId()).toBe(node.service.serverId)
  expect(await fruit.read('plum')).toBeNull()
  const { position } = await fruit.create(plum(1))
  const first = await fruit.read('plum')
  expect(first).toEqual({ item: plum(1), position, etag: `"${position}"` })
  await fruit.patch('plum', { price: 2 }, { ifMatch: `"${position}"` })
  proxy.paths.length = 0
  expect((await fruit.read('plum'))?.item).toEqual(plum(2))
  expect(proxy.paths.length).toBe(2)
  expect((await fruit.read('plum'))?.item).toEqual(plum(2))
  expect(proxy.paths.length).toBe(3)
  expect((await fruit.read('plum', { at: 1 }))?.item).toEqual(plum(1))
  expect(await fruit.read('plum', { at: 0 })).toBeNull()
  await fruit.create({ id: 'fig', price: 9 })
  expect(await collected(fruit.query())).toEqual([plum(2), { id: 'fig', price: 9 }])
  const filter = { where: { price: 9 }, order: 'price ASC' } as const
  expect(await collected(fruit.query({ filter }))).toEqual([{ id: 'fig', price: 9 }])
  await fruit.delete('plum')
  expect(await fruit.read('plum')).toBeNull()
  await fruit.create(plum(5))
  expect((await fruit.read('plum'))?.item).toEqual(plum(5))
  expect(await collected(fruit.history('plum'))).toEqual(
    (await node.send('GET', '/api/fruit/plum/history')).json.history,
  )
  await ledger.deleteDatabase('fruit')
  expect(await fruit.read('plum')).toBeNull()
})

it('reports a deleted item as missing if the node proves the deletion', async () => {
  const node = await startWith([plum(1)])
  const { fruit, proxy } = await verifying(node)
  expect((await fruit.read('plum'))?.item).toEqual(plum(1))
  const current = await node.send('GET', '/api/fruit/plum/proof')
  const denied: Said = { status: 404, text: '{"status":false}' }
  proxy.lie = async (path, honest) => (path.endsWith('/proof') ? denied : honest(path))
  expect(await outcome(fruit.read('plum'))).toBe('ITEM_STALE')
  // The server presents an entry with another method as a deletion.
  proxy.lie = async (path, honest) => {
    if (path.endsWith('/proof')) return denied
    const reply = await honest(path)
    if (!path.includes('/history')) return reply
    return { ...reply, text: reply.text.replace('create_item', 'delete_item') }
  }
  expect(await outcome(fruit.read('plum'))).toBe('ITEM_STALE')
  proxy.lie = truth
  await node.send('DELETE', '/api/fruit/plum')
  expect(await fruit.read('plum')).toBeNull()
  expect(await fruit.read('plum')).toBeNull()
  await node.send('POST', '/api/fruit', { id: 'other' })
  expect((await fruit.read('other'))?.item).toEqual({ id: 'other' })
  proxy.lie = async () => current
  expect(await outcome(fruit.read('plum'))).toBe('LOG_ROLLED_BACK')
  proxy.lie = (path, honest) => honest(path.endsWith('/proof') ? `${path}?position=1.0` : path)
  expect(await outcome(fruit.read('plum'))).toBe('ITEM_STALE')
})

it('reports a deleted item as missing after its deletion was erased, if the signed state proves it', async () => {
  const node = await startWith([plum(1)])
  const [{ fruit }, late] = [await verifying(node), await verifying(node)]
  for (const reader of [fruit, late.fruit]) {
    expect((await reader.read('plum'))?.item).toEqual(plum(1))
  }
  await node.send('DELETE', '/api/fruit/plum', undefined, { 'ledger-reason': 'sold' })
  expect((await node.send('POST', '/api/fruit/plum/erase', {})).status).toBe(200)
  expect(await outcome(fruit.read('plum', { at: 2 }))).toBe('ITEM_ERASED')
  expect(await fruit.read('plum')).toBeNull()
  expect(await collected(fruit.history('plum'))).toHaveLength(2)
  // The server denies an item that was created again. The signed state shows it.
  await node.send('POST', '/api/fruit', plum(2))
  late.proxy.lie = async (path, honest) =>
    path.endsWith('/proof') ? { status: 404, text: '{"status":false}' } : honest(path)
  expect((await late.fruit.read('plum'))?.item).toEqual(plum(2))
})

it('believes only the last revision of an item that one request changes twice', async () => {
  const node = await startWith([])
  const { fruit, ledger, proxy } = await verifying(node)
  const set = (price: number) =>
    ({ method: 'update_item', db: 'fruit', item: plum(price) }) as const
  const lie = async (position: string) => {
    proxy.lie = (path, honest) => honest(path.replace(/proof$/, `proof?position=${position}`))
    const result = await outcome(fruit.read('plum'))
    proxy.lie = truth
    return result
  }
  await ledger.record([{ method: 'create_item', db: 'fruit', item: plum(1) }, set(2)])
  expect(await lie('1.0')).toBe('ITEM_STALE')
  expect((await fruit.read('plum'))?.item).toEqual(plum(2))
  await ledger.record([set(3), { method: 'delete_item', db: 'fruit', id: 'plum' }])
  expect(await lie('2.0')).toBe('ITEM_STALE')
  expect(await fruit.read('plum')).toBeNull()
})

it('reports an item as missing after its database was deleted, if the signed state proves it', async () => {
  for (const isCreatedAgain of [false, true]) {
    const node = await startWith([plum(1), { id: 'fig' }])
    const { fruit, proxy } = await verifying(node)
    expect((await fruit.read('plum'))?.item).toEqual(plum(1))
    expect((await fruit.read('fig'))?.item).toEqual({ id: 'fig' })
    const denied: Said = { status: 404, text: '{"status":false}' }
    proxy.lie = async (path, honest) => (path.endsWith('/proof') ? denied : honest(path))
    expect(await outcome(fruit.read('plum'))).toBe('ITEM_STALE')
    await node.send('DELETE', '/api/fruit')
    if (isCreatedAgain) await record(node, [{ id: 'other' }])
    proxy.lie = truth
    expect(await fruit.read('plum')).toBeNull()
    // The deletion is remembered for all items of the database.
    proxy.paths.length = 0
    expect(await fruit.read('fig')).toBeNull()
    expect(proxy.paths).toEqual(['/api/fruit/fig/proof'])
    await record(node, [plum(2)])
    expect((await fruit.read('plum'))?.item).toEqual(plum(2))
    expect(await collected(fruit.history('plum'))).toHaveLength(1)
    expect((await fruit.read('plum', { at: 1 }))?.item).toEqual(plum(1))
  }
})

type Client = Awaited<ReturnType<typeof verifying>>
type Method = (client: Client, node: LedgerNode, at: number) => Promise<unknown>
const [DB, ITEM] = [{ db: 'fruit' }, { db: 'fruit', id: 'plum' }]
const update = (node: LedgerNode) => node.send('POST', '/api/fruit/plum', { price: 2 })
const remove = (node: LedgerNode) => node.send('DELETE', '/api/fruit/plum')

/** Methods after which the client knows a later revision of the plum than the first one, at height `at`. */
const LATER: Record<string, Method> = {
  create: async ({ fruit }, node) => remove(node).then(() => fruit.create(plum(2))),
  createAll: async ({ fruit }, node) =>
    remove(node).then(() => fruit.createAll([{ price: 1 }, plum(2), { price: 3 }])),
  replace: ({ fruit }) => fruit.replace('plum', { price: 2 }),
  patch: ({ fruit }) => fruit.patch('plum', { price: 2 }),
  record: ({ ledger }) =>
    ledger.record([
      { method: 'update_item', db: 'fruit', item: plum(2) },
      { method: 'create_item', db: 'fruit', item: {} },
    ]),
  'request of an item': ({ ledger }) =>
    ledger.request('POST /api/{db}/{id}', { path: ITEM, body: { price: 2 } }),
  'request of a patch': ({ ledger }) =>
    ledger.request('PATCH /api/{db}/{id}', { path: ITEM, body: { price: 2 } }),
  'request of a creation': async ({ ledger }, node) =>
    remove(node).then(() => ledger.request('POST /api/{db}', { path: DB, body: plum(2) })),
  'request of creations': async ({ ledger }, node) =>
    remove(node).then(() => ledger.request('POST /api/{db}', { path: DB, body: [plum(2)] })),
  'request of changes': ({ ledger }) =>
    ledger.request('POST /api/ledgers', {
      body: { entries: [{ method: 'update_item', db: 'fruit', item: plum(2) }] },
    }),
  read: async ({ fruit }, node) => update(node).then(() => fruit.read('plum')),
  'read at': async ({ fruit }, node, at) =>
    update(node).then(() => fruit.read('plum', { at: at + 1 })),
  query: async ({ fruit }, node) => update(node).then(() => collected(fruit.query())),
  history: async ({ fruit }, node) => update(node).then(() => collected(fruit.history('plum'))),
}

/** Methods after which the client knows that the plum does not exist. */
const GONE: Record<string, Method> = {
  delete: ({ fruit }) => fruit.delete('plum'),
  record: ({ ledger }) => ledger.record([{ method: 'delete_item', ...ITEM }]),
  'request of an item': ({ ledger }) => ledger.request('DELETE /api/{db}/{id}', { path: ITEM }),
  read: async ({ fruit }, node) =>
    fruit
      .read('plum')
      .then(() => remove(node))
      .then(() => fruit.read('plum')),
  history: async ({ fruit }, node) => remove(node).then(() => collected(fruit.history('plum'))),
  deleteDatabase: ({ ledger }) => ledger.deleteDatabase('fruit'),
  'record of a database': ({ ledger }) =>
    ledger.record([
      { method: 'delete_db', db: 'fruit' },
      { method: 'create_db', db: 'fruit' },
    ]),
  'request of a database': ({ ledger }) => ledger.request('DELETE /api/{db}', { path: DB }),
  createDatabase: async ({ ledger }, node) =>
    node.send('DELETE', '/api/fruit').then(() => ledger.createDatabase('fruit')),
}

const denied: Said = { status: 404, text: '{"status":false}' }

/** Returns the reads that a client believes after `method`, if the node answers with old proofs that are valid. */
async function believedLies(node: LedgerNode, method: Method, exists: boolean) {
  await node.send('DELETE', '/api/fruit')
  await record(node, [plum(1)])
  const client = await verifying(node)
  const { fruit, proxy } = client
  const old = await node.send('GET', '/api/fruit/plum/proof')
  const said = await node.send('GET', '/api/fruit/plum')
  const first = said.headers.get('ledger-position')?.split('/')[1] ?? ''
  await method(client, node, Number.parseInt(first, 10))

  const entry = { position: first, timestamp: 1, method: 'create_item', item: plum(1) }
  const history = { status: true, history: [entry], limit: 500, cursor: null }
  const at = Number.parseInt(
    (await node.send('POST', '/api/other', {})).headers.get('etag')?.slice(1) ?? '',
    10,
  )
  const answers =
    (reply: Said, ends: RegExp): Lie =>
    (path, honest) =>
      ends.test(path) ? Promise.resolve(reply) : honest(path)
  const isRead = /\/proof$/
  const lies: [string, Lie, () => Promise<unknown>][] = [
    ['its proof', answers(old, isRead), () => fruit.read('plum')],
    [
      'its proof under the new head',
      (path, honest) => honest(isRead.test(path) ? `${path}?position=${first}` : path),
      () => fruit.read('plum'),
    ],
    ['its content at', answers(said, /\?at=/), () => fruit.read('plum', { at })],
    [
      'its history',
      answers({ status: 200, text: JSON.stringify(history) }, /\/history/),
      () => collected(fruit.history('plum')),
    ],
    ['its absence', answers(denied, isRead), () => fruit.read('plum')],
    ['its absence at', answers(denied, /\?at=/), () => fruit.read('plum', { at })],
  ]
  const believed: string[] = []
  for (const [name, lie, read] of lies) {
    proxy.lie = lie
    let result: unknown
    const isBelieved = (await outcome(read().then((value) => (result = value)))) === 'believed'
    // The absence of an item that does not exist is no lie. If an item exists, the state shows it after a false denial.
    const isTrue = exists ? name === 'its absence' && result !== null : result === null
    if (isBelieved && !isTrue) believed.push(name)
  }
  return believed
}

it('a verifying client believes no older revision and no absence after any method that shows a revision', async () => {
  const node = await startWith([])
  await node.send('POST', '/api/other')
  for (const [name, method] of Object.entries(LATER)) {
    expect([name, await believedLies(node, method, true)]).toEqual([name, []])
  }
})

it('a verifying client does not believe that an item exists after any method that shows its deletion', async () => {
  const node = await startWith([])
  await node.send('POST', '/api/other')
  for (const [name, method] of Object.entries(GONE)) {
    expect([name, await believedLies(node, method, false)]).toEqual([name, []])
  }
})

it('a verifying client cannot detect the lies of a node about an item that it has not seen', async () => {
  const node = await startWith([])
  await node.send('POST', '/api/other')
  const unseen: Method = (_, to) => update(to)
  // The first lie shows the item, so its absence is no longer believed.
  expect(await believedLies(node, unseen, true)).toEqual([
    ...['its proof', 'its proof under the new head', 'its content at', 'its history'],
  ])
})

it('detects a change that the node reports at an old position, or as recorded by another node', async () => {
  const node = await startWith([plum(1)])
  const { fruit, ledger, proxy } = await verifying(node)
  await fruit.read('plum')
  const [own, other] = [node.service.serverId, node.service.serverId - 1]
  for (const [place, code] of [
    [`${own}/1.0`, 'ITEM_STALE'],
    [`${other}/9.0`, 'ITEM_OTHER'],
  ] as const) {
    proxy.lieAboutChange = async (path, honest) => {
      const said = await honest(path)
      return { ...said, headers: new Headers({ 'ledger-position': place }) }
    }
    expect(await outcome(fruit.replace('plum', { price: 2 }))).toBe(code)
    const body = { price: 3 }
    const request = ledger.request('POST /api/{db}/{id}', { path: ITEM, body })
    expect(await outcome(request)).toBe(code)
  }
})

it('never stores an older head than another client with the same storage', async () => {
  const node = await startWith([plum(1)])
  const { proxy, place, make, fruit } = await verifying(node)
  await fruit.read('plum')
  const other = make().database('fruit')
  await other.read('plum')
  await record(node, fillers(1))
  const late = await node.send('GET', '/api/fruit/plum/proof')
  await record(node, [{ id: 'fig', price: 1 }])
  await other.read('fig')
  const newest = place.note
  // The reply of the slower client has a head between the first head and the newest head.
  proxy.lie = async (path, honest) => (path.endsWith('/plum/proof') ? late : honest(path))
  expect((await fruit.read('plum'))?.item).toEqual(plum(1))
  expect(place.note).toBe(newest)
  expect(await outcome(make().database('fruit').read('plum'))).toBe('LOG_ROLLED_BACK')
})

it('sends no change if the stored head cannot be read, and never reports a recorded change as failed', async () => {
  const node = await startWith([plum(1)])
  const { proxy, place, fruit } = await verifying(node)
  const full = () => {
    throw new Error('the storage is full')
  }
  const { get, set } = place
  place.get = full
  await expect(fruit.patch('plum', { price: 2 })).rejects.toThrow('the storage is full')
  expect(proxy.paths).toEqual([])
  place.get = get
  place.set = full
  await fruit.patch('plum', { price: 2 })
  await expect(fruit.read('plum')).rejects.toThrow('the storage is full')
  place.set = set
  expect((await fruit.read('plum'))?.item).toEqual(plum(2))
})

it('detects a changed item', async () => {
  const node = await startWith([plum(1), { id: 'fig', price: 1 }])
  const { fruit, proxy } = await verifying(node)
  const inExtra =
    (from: string, to: string): Lie =>
    async (path, honest) => {
      const said = await honest(path)
      const text = said.text.replace(/^extra (\S+)$/m, (_, encoded: string) => {
        const extra = Buffer.from(encoded, 'base64').toString().replace(from, to)
        return `extra ${Buffer.from(extra).toString('base64')}`
      })
      return { ...said, text }
    }
  proxy.lie = inExtra('"price":1', '"price":2')
  expect(await outcome(fruit.read('plum'))).toBe('PROOF_WRONG')
  proxy.lie = (_, honest) => honest('/api/fruit/fig/proof')
  expect(await outcome(fruit.read('plum'))).toBe('ITEM_OTHER')
  for (const text of ['', '{"status":true}', 'c2sp.org/tlog-proof@v1\n\n\n']) {
    proxy.lie = async () => ({ status: 200, text })
    expect(await outcome(fruit.read('plum'))).toBe('PROOF_MALFORMED')
  }
  proxy.lie = truth
  expect(await outcome(fruit.read('plum'))).toBe('believed')
})

it('detects a changed old block, a dropped block, a forked chain and another key', async () => {
  const [node, changed, dropped, forked] = await sameKeyNodes([
    [plum(1), ...fillers(6)],
    [plum(2), ...fillers(9)],
    [plum(1), ...fillers(9).slice(1)],
    [plum(1), ...fillers(6)],
  ])
  if (!node || !changed || !dropped || !forked) throw new Error('too few nodes')
  const other = await startWith([plum(1), ...fillers(9)])
  const { fruit, proxy, place, make } = await verifying(node)
  expect((await fruit.read('plum'))?.item).toEqual(plum(1))
  const storedNote = place.note
  const cases = [
    [changed, 'LOG_FORKED'],
    [dropped, 'LOG_FORKED'],
    [forked, 'LOG_FORKED'],
    [other, 'NOTE_UNSIGNED'],
    [node, 'believed'],
  ] as const
  for (const [liar, code] of cases) {
    proxy.node = liar
    expect(await outcome(fruit.read('plum'))).toBe(code)
    // A new client that knows only the stored head gets the same result.
    expect(await outcome(make().database('fruit').read('plum'))).toBe(code)
    expect(place.note).toBe(storedNote)
  }
})

it('detects a checkpoint that was rolled back, even after a restart, and an outdated proof', async () => {
  const node = await startWith([plum(1)])
  const { fruit, proxy, make } = await verifying(node)
  const before = await node.send('GET', '/api/fruit/plum/proof')
  await node.send('POST', '/api/fruit/plum', { price: 2 })
  expect((await fruit.read('plum'))?.item).toEqual(plum(2))
  proxy.lie = async () => before
  expect(await outcome(fruit.read('plum'))).toBe('LOG_ROLLED_BACK')
  expect(await outcome(make().database('fruit').read('plum'))).toBe('LOG_ROLLED_BACK')
  proxy.lie = (path, honest) => honest(path.endsWith('/proof') ? `${path}?position=1.0` : path)
  expect(await outcome(fruit.read('plum'))).toBe('ITEM_STALE')
  // Changes by this client cannot be rolled back either, even if it has not read them.
  await fruit.create({ id: 'fig', price: 1 })
  await fruit.replace('fig', { price: 2 })
  proxy.lie = async (path, honest) => {
    const { json } = await node.send('GET', '/api/fruit/fig/history')
    return honest(path.endsWith('/proof') ? `${path}?position=${json.history[0].position}` : path)
  }
  expect(await outcome(fruit.read('fig'))).toBe('ITEM_STALE')
  proxy.lie = (path, honest) => honest(path.replace('at=4', 'at=3'))
  expect(await outcome(fruit.read('fig', { at: 4 }))).toBe('ITEM_STALE')
  proxy.lie = (path, honest) => honest(path.replace('at=3', 'at=4'))
  expect(await outcome(fruit.read('fig', { at: 3 }))).toBe('ITEM_OTHER')
})

it('requires a proof that each longer log continues the previous log', async () => {
  const node = await startWith([plum(1)])
  const { fruit, proxy } = await verifying(node)
  await fruit.read('plum')
  await record(node, fillers(3))
  const answers: [Said, string][] = [
    [{ status: 200, text: '{"status":true,"proof":[]}' }, 'LOG_FORKED'],
    [{ status: 200, text: 'no' }, 'PROOF_MALFORMED'],
    [{ status: 404, text: '{"status":false,"code":"SIZE_UNKNOWN"}' }, 'SERVER_FAILED'],
  ]
  for (const [said, code] of answers) {
    proxy.lie = async (path, honest) => (path.includes('consistency') ? said : honest(path))
    expect(await outcome(fruit.read('filler-1'))).toBe(code)
  }
  // A node that is busy must not be reported as lying.
  proxy.lie = async () => ({ status: 503, text: '{"status":false,"code":"LOG_BEHIND"}' })
  await expect(fruit.read('plum')).rejects.toMatchObject({
    name: 'ClientError',
    code: 'LOG_BEHIND',
  })
})

it('accepts concurrent reads in whichever order their replies arrive', async () => {
  const node = await startWith([plum(1)])
  const { fruit, proxy, place } = await verifying(node)
  await fruit.read('plum')
  // Delays the first reply until the client has seen a longer log.
  const held = Promise.withResolvers<void>()
  const firstRequest = Promise.withResolvers<void>()
  proxy.lie = async (path, honest) => {
    const said = await honest(path)
    if (path === '/api/fruit/plum/proof') {
      firstRequest.resolve()
      await held.promise
    }
    return said
  }
  await record(node, fillers(1))
  const late = fruit.read('plum')
  await firstRequest.promise
  await record(node, [{ id: 'fig', price: 1 }])
  expect((await fruit.read('fig'))?.item).toEqual({ id: 'fig', price: 1 })
  const storedNote = place.note
  held.resolve()
  expect((await late)?.item).toEqual(plum(1))
  expect(place.note).toBe(storedNote)
  const all = await Promise.all(['plum', 'fig', 'filler-0', 'plum'].map((id) => fruit.read(id)))
  expect(all.map((read) => read?.position)).toEqual(['1.0', '3.0', '2.0', '1.0'])
})

it('returns every revision of a history with its proven content, and marks erased revisions', async () => {
  const node = await startWith([plum(1)])
  for (const price of [2, 3]) await node.send('POST', '/api/fruit/plum', { price })
  const { fruit, proxy } = await verifying(node)
  const lying = async (lie: Lie) => {
    proxy.lie = lie
    return outcome(collected(fruit.history('plum')))
  }
  const replaced =
    (from: string | RegExp, to: string): Lie =>
    async (path, honest) => {
      const said = await honest(path)
      return path.includes('/history') ? { ...said, text: said.text.replace(from, to) } : said
    }
  // The client uses only the position and the proof of each revision, so changed members have no effect.
  proxy.lie = replaced(/"price":2/, '"price":7')
  const items = (await collected(fruit.history('plum'))).map(({ item }) => item?.price)
  expect(items).toEqual([1, 2, 3])
  expect(await lying(replaced('"2.0"', '"1.0"'))).toBe('ITEM_STALE')
  expect(await lying(replaced('"2.0"', '"0.0"'))).toBe('SERVER_FAILED')
  proxy.lie = truth
  await fruit.read('plum')
  expect(await lying(replaced(/,\{"position":"3.0".*\]/, ']'))).toBe('ITEM_STALE')
  expect(await lying((path, honest) => honest(path.replace('position=2.0', 'position=1.0')))).toBe(
    'ITEM_OTHER',
  )
  proxy.lie = truth
  await node.send('POST', '/api/fruit/plum/erase', { positions: ['1.0'] })
  const [first, second] = await collected(fruit.history('plum'))
  expect(first).toMatchObject({ position: '1.0', erased: true })
  expect(first).not.toHaveProperty('item')
  expect(second).toMatchObject({ position: '2.0', item: plum(2) })
  expect(await outcome(fruit.read('plum', { at: 1 }))).toBe('ITEM_ERASED')
})

it('rejects reads that cannot be proven, and sends no request', async () => {
  const node = await startWith([plum(1)])
  const { ledger, fruit, proxy } = await verifying(node)
  proxy.paths.length = 0
  const works = [
    ledger.databases(),
    collected(ledger.changes()),
    ledger.request('GET /api/ledgers', { query: { serverid: '1' } }),
    collected(fruit.ids()),
    collected(fruit.query({ filter: { fields: ['price'] } })),
    collected(fruit.attachments('plum').list()),
    fruit.attachments('plum').get('a'),
  ]
  for (const work of works) expect(await outcome(work)).toBe('UNVERIFIABLE')
  expect(proxy.paths).toEqual([])
})

it('rejects an invalid key, a stored checkpoint that is not signed with the key, and a platform without Ed25519', async () => {
  const node = await startWith([plum(1)])
  const other = await startWith([plum(1)])
  const key = await keyOf(node)
  const clientOf = (options: {
    key?: string
    note?: string | null
    verifySignature?: () => never
  }) => {
    const { note = null, ...rest } = options
    return new LedgerClient(node.url, { verify: { key, checkpoint: memory(note), ...rest } })
  }
  for (const wrong of ['', 'x', key.slice(1), `${key}A`]) {
    expect(() => clientOf({ key: wrong })).toThrow(TypeError)
  }
  const { text } = await other.send('GET', `/api/ledgers/${other.service.serverId}/checkpoint`)
  const read = (client: LedgerClient) => outcome(client.database('fruit').read('plum'))
  expect(await read(clientOf({ note: text }))).toBe('NOTE_UNSIGNED')
  expect(await read(clientOf({ note: 'torn' }))).toBe('NOTE_MALFORMED')
  const unable = () => {
    throw new Error('none')
  }
  const failed = clientOf({ verifySignature: unable }).database('fruit').read('plum')
  await expect(failed).rejects.toMatchObject({
    name: 'ClientError',
    code: 'SIGNATURES_UNSUPPORTED',
  })
})

it('with `current`, lists all items, and refuses a list without one of them and an older list', async () => {
  const node = await startWith([plum(1), { id: 'fig', price: 2 }])
  const { proxy, fruit } = await verifying(node, memory(), true)
  const old = await node.send('GET', '/api/fruit?proof=1')
  expect(await collected(fruit.ids())).toEqual(['plum', 'fig'])
  expect(await collected(fruit.query())).toMatchObject([plum(1), { id: 'fig', price: 2 }])
  await expect(collected(fruit.ids({ limit: 1 }))).rejects.toMatchObject({ code: 'UNVERIFIABLE' })
  proxy.lie = async (path, honest) => {
    const { status, text } = await honest(path)
    return { status, text: text.replace(/\{"id":"fig"[^\n]*\n/, '') }
  }
  await expect(collected(fruit.ids())).rejects.toMatchObject({
    ...{ name: 'VerificationError', code: 'PROOF_WRONG' },
    message: expect.stringContaining('the list of 1 items is not the one of the signed state'),
  })
  proxy.lie = truth
  await node.send('POST', '/api/fruit', { id: 'pear' })
  expect(await collected(fruit.ids())).toEqual(['plum', 'fig', 'pear'])
  proxy.lie = async (path, honest) => (path.endsWith('?proof=1') ? old : honest(path))
  await expect(collected(fruit.ids())).rejects.toMatchObject({ code: 'LOG_ROLLED_BACK' })
  const absent = collected((await verifying(node, memory(), true)).ledger.database('none').ids())
  await expect(absent).rejects.toMatchObject({ code: 'DATABASE_NOT_FOUND' })
})

it('with `current`, reports an item as missing that somebody else has deleted, also with its database', async () => {
  for (const [method, path] of [
    ['DELETE', '/api/fruit/plum'],
    ['DELETE', '/api/fruit'],
  ] as const) {
    for (const isErased of [false, true]) {
      const node = await startWith([plum(1)])
      const { fruit } = await verifying(node, memory(), true)
      expect((await fruit.read('plum'))?.item).toEqual(plum(1))
      await node.send(method, path, undefined, { 'ledger-reason': 'sold' })
      if (isErased) await node.send('POST', '/api/fruit/plum/erase', {})
      expect(await fruit.read('plum')).toBeNull()
      await record(node, [plum(2)])
      expect((await fruit.read('plum'))?.item).toEqual(plum(2))
    }
  }
})

it('with `current`, refuses an older state, also after a restart', async () => {
  const node = await startWith([plum(1)])
  const { fruit, proxy, make } = await verifying(node, memory(), true)
  const old = await node.send('GET', '/api/fruit/plum/proof?current=1')
  await node.send('POST', '/api/fruit/plum', { price: 2 })
  expect((await fruit.read('plum'))?.item).toEqual(plum(2))
  proxy.lie = async (path, honest) => (path.includes('/proof') ? old : honest(path))
  expect(await outcome(make().database('fruit').read('plum'))).toBe('LOG_ROLLED_BACK')
})

it('with `current` and witnesses, believes no state whose log no witness has cosigned, however often it is read', async () => {
  const node = await startWith([plum(1)])
  const { fruit, place } = await verifying(node, memory(), true)
  expect((await fruit.read('plum'))?.item).toEqual(plum(1))
  const { publicKey } = generateKeyPairSync('ed25519')
  const witness = witnessKeyText({ name: 'witness', publicKey: rawPublicKey(publicKey) })
  const verify = { key: await keyOf(node), checkpoint: place, current: true, witnesses: [witness] }
  const strict = new LedgerClient(node.url, { timing: noted(), verify }).database('fruit')
  for (let attempt = 1; attempt < 3; attempt += 1) {
    expect(await outcome(strict.read('plum'))).toBe('QUORUM_MISSED')
    expect(await outcome(collected(strict.ids()))).toBe('QUORUM_MISSED')
  }
})
