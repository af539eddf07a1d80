import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import {
  HandClock,
  type LedgerNode,
  type Reply,
  startLedgerNode,
  temporaryFolder,
  verifyFolder,
} from '../../../test/support/ledger-node.ts'
import { positionText } from '../../chain/index.ts'

const FRUIT = '/api/fruit'
const FIG = '/api/fruit/fig'
const DAY_MS = 24 * 60 * 60 * 1000

let node: LedgerNode
let clock: HandClock
let folder: string
beforeEach(async () => {
  clock = new HandClock()
  folder = temporaryFolder()
  node = await startLedgerNode({ folder, clock })
  onTestFinished(() => node.close())
  await node.send('POST', FRUIT)
  await node.send('POST', FRUIT, { id: 'fig', n: 1 })
})

const code = ({ status, json }: Reply) => [status, json?.code]
const blocks = async () =>
  (await node.send('GET', `/api/ledgers?serverid=${node.service.serverId}`)).json.ledgers.length

describe('preconditions', () => {
  const FAILED = [412, 'PRECONDITION_FAILED']

  it('If-Match accepts only the current revision', async () => {
    const send = (method: string, tag: string, body?: unknown) =>
      node.send(method, FIG, body, { 'if-match': tag })
    expect(code(await send('POST', '"0.0"', { n: 2 }))).toEqual(FAILED)
    expect(code(await send('PATCH', 'W/"1.0"', { n: 2 }))).toEqual(FAILED)
    expect(code(await send('DELETE', '"2.0"'))).toEqual(FAILED)
    expect(await blocks()).toBe(2)
    const changed = await send('POST', '"9.9", "1.0"', { n: 2 })
    expect([changed.status, changed.text, changed.headers.get('etag')]).toEqual([
      200,
      '{"status":true,"id":"fig"}',
      '"2.0"',
    ])
    expect((await send('PATCH', '*', { n: 3 })).status).toBe(200)
    expect(code(await send('DELETE', '"2.0"'))).toEqual(FAILED)
    expect((await send('DELETE', '"3.0"')).text).toBe('{"status":true}')
    // If the item does not exist, If-Match is not evaluated (RFC 9110 section 13.2.1).
    expect(code(await send('DELETE', '"3.0"'))).toEqual([404, 'ITEM_NOT_FOUND'])
    const elsewhere = await node.send('DELETE', '/api/nuts/fig', undefined, { 'if-match': '*' })
    expect(code(elsewhere)).toEqual([404, 'DATABASE_NOT_FOUND'])
  })

  it('If-None-Match: * creates an item, and fails if the item exists', async () => {
    const create = (path: string, body: unknown) =>
      node.send('POST', path, body, { 'if-none-match': '*' })
    expect(code(await create(FIG, { n: 2 }))).toEqual(FAILED)
    const made = await create(`${FRUIT}/plum`, { n: 2 })
    expect([made.status, made.text]).toEqual([200, '{"status":true,"id":"plum"}'])
    expect((await node.send('GET', `${FRUIT}/plum`)).json.item).toEqual({ id: 'plum', n: 2 })
    const { json } = await node.send('GET', `${FRUIT}/plum/history`)
    expect(json.history[0].method).toBe('create_item')
    expect(code(await create('/api/nuts/plum', {}))).toEqual([404, 'DATABASE_NOT_FOUND'])
    expect(code(await create(`${FRUIT}/kiwi`, { id: 'other' }))).toEqual([400, 'ITEM_ID_MISMATCH'])
    // Only `If-None-Match: *` creates the item.
    const listed = await node.send('POST', `${FRUIT}/kiwi`, {}, { 'if-none-match': '"1.0"' })
    expect(code(listed)).toEqual([404, 'ITEM_NOT_FOUND'])
  })

  it('of many concurrent changes with If-Match for one revision, exactly one succeeds', async () => {
    const replies = await Promise.all(
      Array.from({ length: 20 }, (_, n) => node.send('POST', FIG, { n }, { 'if-match': '"1.0"' })),
    )
    expect(replies.filter(({ status }) => status === 200)).toHaveLength(1)
    expect(replies.filter(({ status }) => status === 412)).toHaveLength(19)
    const created = await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        node.send('POST', `${FRUIT}/one`, { n }, { 'if-none-match': '*' }),
      ),
    )
    expect(created.filter(({ status }) => status === 200)).toHaveLength(1)
    expect((await verifyFolder(folder)).finding).toBeNull()
  })

  it('a precondition can require a revision that an earlier change of the same block creates', async () => {
    const { service } = node
    const on = (tag: string) => ({
      precondition: { match: [tag], noneMatch: null },
      idempotency: null,
    })
    const outcomes = await Promise.allSettled([
      service.write.updateItem('fruit', 'fig', { n: 2 }),
      service.write.updateItem('fruit', 'fig', { n: 3 }, on('1.0')),
      service.write.updateItem('fruit', 'fig', { n: 4 }, on('2.0')),
      service.write.deleteItem('fruit', 'fig', on('2.1')),
      service.write.deleteItem('fruit', 'fig', on('2.1')),
    ])
    const results = outcomes.map((outcome) =>
      outcome.status === 'fulfilled'
        ? positionText(outcome.value.position)
        : (outcome.reason as { code: string }).code,
    )
    expect(results).toEqual(['2.0', 'PRECONDITION_FAILED', '2.1', '2.2', 'ITEM_NOT_FOUND'])
  })

  it('a read with If-None-Match for the current revision returns 304 without a body, even for weak tags and lists', async () => {
    const read = (headers: Record<string, string>, query = '') =>
      node.send('GET', FIG + query, undefined, headers)
    for (const tag of ['"1.0"', 'W/"1.0"', '"7.7", "1.0"', '*']) {
      const { status, text, headers } = await read({ 'if-none-match': tag })
      expect([tag, status, text, headers.get('etag')]).toEqual([tag, 304, '', '"1.0"'])
    }
    const full = '{"status":true,"item":{"id":"fig","n":1}}'
    expect((await read({ 'if-none-match': '"0.0"' })).text).toBe(full)
    expect((await read({ 'if-match': '"1.0"' })).text).toBe(full)
    expect(code(await read({ 'if-match': '"0.0"' }))).toEqual(FAILED)
    await node.send('POST', FIG, { n: 2 })
    expect((await read({ 'if-none-match': '"1.0"' })).status).toBe(200)
    expect((await read({ 'if-none-match': '"1.0"' }, '?at=1')).status).toBe(304)
    const missing = await node.send('GET', `${FRUIT}/x`, undefined, { 'if-none-match': '*' })
    expect([missing.status, missing.text]).toEqual([404, '{"status":false}'])
    const head = await node.send('HEAD', FIG, undefined, { 'if-none-match': '"2.0"' })
    expect(head.status).toBe(304)
  })

  it('rejects a malformed If-Match or If-None-Match and changes nothing', async () => {
    for (const name of ['if-match', 'if-none-match']) {
      for (const [method, path] of [
        ...['GET', 'POST', 'PATCH', 'DELETE'].map((method) => [method, FIG] as const),
        ...['GET', 'PUT', 'DELETE'].map((method) => [method, `${FIG}/attachments/a`] as const),
      ]) {
        const body = ['POST', 'PATCH', 'PUT'].includes(method) ? {} : undefined
        const reply = await node.send(method, path, body, { [name]: '1.0' })
        expect([method, path, ...code(reply)]).toEqual([method, path, 400, 'PRECONDITION_INVALID'])
      }
    }
    expect(await blocks()).toBe(2)
  })
})

describe('Idempotency-Key', () => {
  const raw = ({ status, headers, text }: Reply) => [
    status,
    text,
    ...['content-type', 'etag', 'ledger-position'].map((name) => headers.get(name)),
  ]
  const requests: [string, string, unknown?][] = [
    ['POST', '/api/nuts'],
    ['POST', FRUIT, { name: 'assigned' }],
    ['POST', FRUIT, { id: 'plum' }],
    ['POST', FRUIT, [{ id: 'a' }, {}, { id: 'b' }]],
    ['POST', FIG, { n: 7 }],
    // Erases only revision 1.0, which was created without a key. Erasing a revision that was created with a key would
    // remove the fingerprint of its request, so the repeated request would not match.
    ['POST', `${FIG}/erase`, {}],
    ['PATCH', FIG, { ripe: true }],
    ['PUT', `${FIG}/attachments/a.json`, '{'],
    ['DELETE', `${FIG}/attachments/a.json`],
    ['DELETE', FIG],
    [
      'POST',
      '/api/ledgers',
      {
        entries: [
          { method: 'create_db', db: 'x' },
          { method: 'create_item', db: 'x', item: {} },
        ],
      },
    ],
    ['DELETE', FRUIT],
  ]

  it('executes each kind of change once and sends the same reply to a repeated request, even after a restart', async () => {
    const first: unknown[] = []
    const key = (n: number) => ({ 'idempotency-key': `"key ${n}"` })
    for (const [n, [method, path, body]] of requests.entries()) {
      const reply = await node.send(method, path, body, key(n))
      expect([method, path, reply.status]).toEqual([method, path, 200])
      first.push(raw(reply))
      expect(raw(await node.send(method, path, body, key(n)))).toEqual(first[n])
    }
    expect(await blocks()).toBe(2 + requests.length)
    await node.close()
    node = await startLedgerNode({ folder, clock })
    for (const [n, [method, path, body]] of requests.entries()) {
      expect(raw(await node.send(method, path, body, key(n)))).toEqual(first[n])
    }
    expect(await blocks()).toBe(2 + requests.length)
    expect((await verifyFolder(folder)).finding).toBeNull()
  })

  it('Idempotency-Key is documented with a pattern that accepts what the node accepts', async () => {
    const { paths } = (await node.send('GET', '/doc/json')).json
    const { schema } = paths['/api/{db}'].post.parameters.find(
      ({ name }: { name: string }) => name === 'idempotency-key',
    )
    const pattern = new RegExp(schema.pattern, 'u')
    for (const key of ['"a b"', '"a\\\\\\"b"', '8e03978e-40d5-43dd-bc93-7c3cb3a0', 'a:b/c']) {
      const headers = { 'idempotency-key': key }
      const { status } = await node.send('POST', FRUIT, { key }, headers)
      expect([key, status, pattern.test(key)]).toEqual([key, 200, true])
    }
    for (const key of ['a b', '"a"b"', '""', '"ü"']) expect(pattern.test(key)).toBe(false)
  })

  it('Idempotency-Key is documented for every request that creates an entry, and for no other request', async () => {
    const { paths } = (await node.send('GET', '/doc/json')).json
    const shown = Object.entries(paths).flatMap(([path, operations]) =>
      Object.entries(operations as Record<string, { parameters?: { in: string; name: string }[] }>)
        .filter(([, { parameters = [] }]) =>
          parameters.some((each) => each.in === 'header' && each.name === 'idempotency-key'),
        )
        .map(([method]) => `${method} ${path}`),
    )
    expect(shown.toSorted()).toEqual([
      'delete /api/{db}',
      'delete /api/{db}/{id}',
      'delete /api/{db}/{id}/attachments/{name}',
      'patch /api/{db}/{id}',
      'post /api/ledgers',
      'post /api/{db}',
      'post /api/{db}/{id}',
      'post /api/{db}/{id}/erase',
      'put /api/{db}/{id}/attachments/{name}',
    ])
  })

  it('concurrent requests with one key make one change, and all receive the same reply', async () => {
    const send = () => node.send('POST', FRUIT, { n: 1 }, { 'idempotency-key': 'k' })
    const replies = await Promise.all(Array.from({ length: 30 }, send))
    expect(new Set(replies.map((reply) => JSON.stringify(raw(reply)))).size).toBe(1)
    expect((await node.send('GET', FRUIT)).json.items).toHaveLength(2)
  })

  it('rejects a key that was already used for a different request', async () => {
    const key = { 'idempotency-key': 'k' }
    await node.send('POST', FRUIT, { id: 'x', n: 1 }, key)
    const others: [string, string, unknown?][] = [
      ['POST', FRUIT, { id: 'x', n: 2 }],
      ['POST', '/api/nuts', { id: 'x', n: 1 }],
      ['PATCH', FIG, { id: 'fig' }],
      ['DELETE', FIG],
      ['PUT', `${FIG}/attachments/x`, '{"id":"x","n":1}'],
      ['POST', FRUIT],
    ]
    for (const [method, path, body] of others) {
      expect(code(await node.send(method, path, body, key))).toEqual([
        422,
        'IDEMPOTENCY_KEY_REUSED',
      ])
    }
    expect(await blocks()).toBe(3)
    const token = await node.send('POST', `${FRUIT}?token=t`, { n: 1, id: 'x' }, key)
    expect(token.json).toEqual({ status: true, id: 'x' })
  })

  it('does not record a rejected request, so the same request may succeed later', async () => {
    const send = () => node.send('POST', `${FRUIT}/plum`, { n: 1 }, { 'idempotency-key': 'k' })
    expect((await send()).status).toBe(404)
    await node.send('POST', FRUIT, { id: 'plum' })
    const done = await send()
    expect(done.status).toBe(200)
    await node.send('DELETE', `${FRUIT}/plum`)
    expect(raw(await send())).toEqual(raw(done))
  })

  it('repeats the reply of a conditional change even if the item has changed since', async () => {
    const send = () =>
      node.send('POST', FIG, { n: 2 }, { 'idempotency-key': 'k', 'if-match': '"1.0"' })
    const done = await send()
    expect(done.status).toBe(200)
    expect(raw(await send())).toEqual(raw(done))
    const bare = await node.send('POST', FIG, { n: 2 }, { 'if-match': '"1.0"' })
    expect(bare.status).toBe(412)
  })

  it('remembers keys for 24 hours', async () => {
    const send = () => node.send('POST', FRUIT, { n: 1 }, { 'idempotency-key': 'k' })
    const first = await send()
    clock.time += DAY_MS - 1
    expect(raw(await send())).toEqual(raw(first))
    clock.time += 1
    const second = await send()
    expect(second.json.id).not.toBe(first.json.id)
    expect(raw(await send())).toEqual(raw(second))
    expect((await verifyFolder(folder)).finding).toBeNull()
  })

  it('rejects a malformed key on requests that change data, and ignores it on reads', async () => {
    for (const key of ['a b', '"', '""', 'x'.repeat(256)]) {
      const reply = await node.send('POST', FRUIT, {}, { 'idempotency-key': key })
      expect([key, ...code(reply)]).toEqual([key, 400, 'IDEMPOTENCY_KEY_INVALID'])
    }
    expect((await node.send('GET', FIG, undefined, { 'idempotency-key': '""' })).status).toBe(200)
    expect(await blocks()).toBe(2)
  })
})
