import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import {
  type LedgerNode,
  startLedgerNode,
  temporaryFolder,
} from '../../../test/support/ledger-node.ts'
import { openStoreReader, verifyStore } from '../../storage/index.ts'

/** Node key with the server id 3035662834633832. */
const KEY = `-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f
-----END PRIVATE KEY-----
`

let node: LedgerNode
let folder: string
beforeEach(async () => {
  folder = temporaryFolder()
  writeFileSync(join(folder, 'node.key'), KEY, { mode: 0o600 })
  node = await startLedgerNode({ folder })
  onTestFinished(() => node.close())
})

const FRUIT = '/api/fruit'
async function withItems(...ids: string[]): Promise<void> {
  await node.send('POST', FRUIT)
  for (const id of ids) await node.send('POST', FRUIT, { id, n: ids.indexOf(id) })
}
const entries = async () => {
  const { serverid } = (await node.send('GET', '/api/serverid')).json
  const { ledgers } = (await node.send('GET', `/api/ledgers?serverid=${serverid}`)).json
  return ledgers.map(({ body }: { body: unknown[] }) => body)
}

it('sends each documented reply with exactly the same bytes in every release', async () => {
  const seen: string[] = []
  const ask = async (method: string, path: string, body?: unknown) => {
    const { status, headers, text } = await node.send(method, path, body)
    const named = ['content-type', 'etag', 'ledger-position']
    const shown = named.map((name) => `${name}: ${headers.get(name) ?? '-'}`).join(', ')
    const bytes = text
      .replace(/[0-9a-f]{128}/g, '<block id>')
      .replace(/[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g, '<uuid>')
    seen.push(
      `${method} ${path}${body === undefined ? '' : ` ${JSON.stringify(body)}`}\n${status} ${shown}\n${bytes}`,
    )
  }
  await ask('GET', '/api/dbs')
  await ask('POST', FRUIT)
  await ask('POST', FRUIT)
  await ask('GET', '/api/dbs')
  await ask('POST', FRUIT, { name: 'apple', price: 100 })
  await ask('POST', FRUIT, { id: 'pear', name: 'pear' })
  await ask('POST', FRUIT, { id: 'pear' })
  await ask('POST', `${FRUIT}/pear`, { name: 'Pear', ripe: true })
  await ask('POST', `${FRUIT}/plum`, {})
  await ask('GET', `${FRUIT}/pear`)
  await ask('GET', `${FRUIT}/plum`)
  await ask('GET', FRUIT)
  await ask('GET', `${FRUIT}?limit=1&offset=1`)
  await ask('DELETE', `${FRUIT}/pear`)
  await ask('DELETE', `${FRUIT}/pear`)
  await ask('GET', `${FRUIT}/pear`)
  await ask('GET', '/api/nuts/1')
  await ask('GET', '/api/serverid')
  await ask('GET', '/api/ledgers?serverid=3035662834633832')
  await ask('GET', '/api/ledgers?serverid=3035662834633832&limit=1&offset=4')
  await ask('GET', '/api/ledgers')
  await ask('POST', '/api/config')
  expect(seen.join('\n\n')).toMatchSnapshot()
})

describe('items', () => {
  it('POST with an array creates all items in one block, or none of them', async () => {
    await withItems('taken')
    const { json, headers } = await node.send('POST', FRUIT, [{ id: 'a' }, { n: 1 }, { id: 'b' }])
    expect(json).toEqual({
      status: true,
      ids: ['a', expect.stringMatching(/^[0-9a-f-]{36}$/), 'b'],
    })
    expect(headers.get('ledger-position')).toMatch(/^\d+\/2\.0$/)
    expect((await entries()).at(-1)).toHaveLength(3)

    const before = await entries()
    const refused = [
      [[{ id: 'c' }, { id: 'taken' }], 409, 'ITEM_EXISTS'],
      [[{ id: 'c' }, { id: 'c' }], 409, 'ITEM_EXISTS'],
      [[{ id: 'c' }, { id: 7 }], 400, 'ITEM_ID_INVALID'],
      [[], 400, 'UNIT_EMPTY'],
      [Array.from({ length: 10_001 }, () => ({})), 413, 'UNIT_TOO_LARGE'],
    ] as const
    for (const [items, status, code] of refused) {
      const reply = await node.send('POST', FRUIT, items)
      expect([reply.status, reply.json.code]).toEqual([status, code])
    }
    for (const body of ['[1]', '["a"]', '[[]]', '[null]', '3', '"a"', 'true']) {
      expect([body, (await node.send('POST', FRUIT, body)).status]).toEqual([body, 400])
    }
    expect(await entries()).toEqual(before)
    expect(
      (
        await node.send(
          'POST',
          FRUIT,
          Array.from({ length: 10_000 }, () => ({})),
        )
      ).json.ids,
    ).toHaveLength(10_000)
  })

  it('PATCH applies a merge patch (RFC 7396), and the ledger records the whole item', async () => {
    await node.send('POST', FRUIT)
    await node.send('POST', FRUIT, { id: 'x', a: 'b', c: { d: 'e', f: 'g' }, list: [1, 2] })
    const patch = { a: 'z', c: { f: null, new: { deep: null, kept: 1 } }, list: [3], gone: null }
    const reply = await node.send('PATCH', `${FRUIT}/x`, patch, {
      'content-type': 'application/merge-patch+json',
    })
    expect(reply.json).toEqual({ status: true, id: 'x' })
    const item = { id: 'x', a: 'z', c: { d: 'e', new: { kept: 1 } }, list: [3] }
    expect((await node.send('GET', `${FRUIT}/x`)).json.item).toEqual(item)
    expect((await entries()).at(-1)).toEqual([
      { serverid: 3035662834633832, method: 'update_item', db: 'fruit', item },
    ])
    expect((await node.send('PATCH', `${FRUIT}/y`, {})).status).toBe(404)
    expect((await node.send('PATCH', `${FRUIT}/x`, { id: 'y' })).json.code).toBe('ITEM_ID_MISMATCH')
    expect((await node.send('PATCH', `${FRUIT}/x`, { id: null })).json.code).toBe(
      'ITEM_ID_MISMATCH',
    )
    expect((await node.send('PATCH', `${FRUIT}/x`, [])).json.code).toBe('REQUEST_INVALID')
  })

  it('rejects an id that differs from the path, and an id that a path segment cannot contain', async () => {
    await withItems('x')
    expect((await node.send('POST', `${FRUIT}/x`, { id: 'x', n: 5 })).status).toBe(200)
    expect((await node.send('POST', `${FRUIT}/x`, { id: 'y' })).json.code).toBe('ITEM_ID_MISMATCH')
    const bad = ['', '.', '..', 'a/b', 'a\nb', '\u007f', 'é'.repeat(129), 'x'.repeat(257)]
    for (const id of bad) {
      expect([id, (await node.send('POST', FRUIT, { id })).json.code]).toEqual([
        id,
        'ITEM_ID_INVALID',
      ])
    }
    for (const id of ['é'.repeat(128), 'x'.repeat(256), 'a b', '%2f', '?#&', '🍎', '...']) {
      expect((await node.send('POST', FRUIT, { id })).json).toEqual({ status: true, id })
      expect((await node.send('GET', `${FRUIT}/${encodeURIComponent(id)}`)).json.item).toEqual({
        id,
      })
    }
  })

  it('`docs=true` returns the items with their ids, and `after` starts the list after an item', async () => {
    await withItems('c', 'a', 'b')
    const docs = await node.send('GET', `${FRUIT}?docs=true&limit=2`)
    expect(docs.json).toEqual({
      status: true,
      docs: [
        { id: 'c', n: 0 },
        { id: 'a', n: 1 },
      ],
      items: ['c', 'a'],
      limit: 2,
      offset: 0,
    })
    const after = await node.send('GET', `${FRUIT}?after=c&limit=1`)
    expect(after.json).toEqual({ status: true, items: ['a'], limit: 1, offset: 0 })
    expect((await node.send('GET', `${FRUIT}?after=b`)).json.items).toEqual([])
    const unknown = await node.send('GET', `${FRUIT}?after=z`)
    expect([unknown.status, unknown.json.code]).toEqual([404, 'ITEM_NOT_FOUND'])
  })

  it('returns a list of 2,500 items completely and in order', async () => {
    await node.send('POST', FRUIT)
    const ids = Array.from({ length: 2_500 }, (_, n) => `item ${n}`)
    await node.send(
      'POST',
      FRUIT,
      ids.map((id) => ({ id })),
    )
    expect((await node.send('GET', FRUIT)).json.items).toEqual(ids)
    expect((await node.send('GET', `${FRUIT}?offset=1200&limit=1100`)).json.items).toEqual(
      ids.slice(1200, 2300),
    )
    const docs = (await node.send('GET', `${FRUIT}?docs=true&offset=3`)).json
    expect(docs.items).toEqual(ids.slice(3))
    expect(docs.docs).toEqual(ids.slice(3).map((id) => ({ id })))
  })

  it('reading an item returns the Ledger-Position and ETag of its last change', async () => {
    await withItems('x')
    const changed = await node.send('POST', `${FRUIT}/x`, { n: 2 })
    const read = await node.send('GET', `${FRUIT}/x`)
    expect(changed.headers.get('ledger-position')).toBe('3035662834633832/2.0')
    expect(read.headers.get('ledger-position')).toBe('3035662834633832/2.0')
    expect([changed.headers.get('etag'), read.headers.get('etag')]).toEqual(['"2.0"', '"2.0"'])
  })
})

describe('databases', () => {
  it('DELETE removes a database with all items; the name can be reused', async () => {
    await withItems('x')
    expect((await node.send('DELETE', FRUIT)).text).toBe('{"status":true}')
    expect((await entries()).at(-1)).toEqual([
      { serverid: 3035662834633832, method: 'delete_db', db: 'fruit' },
    ])
    expect((await node.send('GET', '/api/dbs')).json.dbs).toEqual([])
    expect((await node.send('GET', `${FRUIT}/x`)).json.code).toBe('DATABASE_NOT_FOUND')
    expect((await node.send('DELETE', FRUIT)).status).toBe(404)
    await node.send('POST', FRUIT)
    expect((await node.send('GET', FRUIT)).json.items).toEqual([])
    expect((await node.send('POST', FRUIT, { id: 'x' })).json.status).toBe(true)
  })
})

describe('POST /api/ledgers', () => {
  it('patches items together with other changes, and records the whole items', async () => {
    await node.send('POST', '/api/fruit')
    await node.send('POST', '/api/fruit', { id: 'quince', price: 1, tags: ['old'] })
    const patch = (item: object) => ({ method: 'patch_item', db: 'fruit', item, reason: 'sale' })
    const patches = [patch({ id: 'quince', price: 2 }), patch({ id: 'quince', tags: null })]
    expect((await node.send('POST', '/api/ledgers', { entries: patches })).json.results).toEqual([
      { id: 'quince' },
      { id: 'quince' },
    ])
    const { history } = (await node.send('GET', '/api/fruit/quince/history')).json
    expect(history.slice(1)).toMatchObject([
      { method: 'update_item', reason: 'sale', item: { id: 'quince', price: 2, tags: ['old'] } },
      { method: 'update_item', item: { id: 'quince', price: 2 } },
    ])
    for (const [item, code] of [
      [{ id: 'none', price: 3 }, 'ITEM_NOT_FOUND'],
      [{ price: 3 }, 'ITEM_ID_INVALID'],
    ] as const) {
      const entries = [patch({ id: 'quince', price: 3 }), patch(item)]
      expect((await node.send('POST', '/api/ledgers', { entries })).json.code).toBe(code)
    }
    expect((await node.send('GET', '/api/fruit/quince')).json.item).toEqual({
      ...{ id: 'quince', price: 2 },
    })
  })

  it('records changes of several databases in one block', async () => {
    await withItems('x', 'y')
    const reply = await node.send('POST', '/api/ledgers', {
      entries: [
        { method: 'create_db', db: 'veg' },
        { method: 'create_item', db: 'veg', item: { n: 1 } },
        { method: 'create_item', db: 'veg', item: { id: 'leek' } },
        { method: 'update_item', db: 'fruit', item: { id: 'x', n: 9 } },
        { method: 'delete_item', db: 'fruit', id: 'y' },
      ],
    })
    const uuid = expect.stringMatching(/^[0-9a-f-]{36}$/)
    expect(reply.json).toEqual({
      status: true,
      block: {
        serverid: 3035662834633832,
        height: 3,
        id: expect.stringMatching(/^[0-9a-f]{128}$/),
      },
      results: [{ id: null }, { id: uuid }, { id: 'leek' }, { id: 'x' }, { id: 'y' }],
    })
    expect((await entries()).at(-1)).toHaveLength(5)
    expect((await node.send('GET', FRUIT)).json.items).toEqual(['x'])
  })

  it('records no changes if one of them is rejected', async () => {
    await withItems('x')
    const before = await entries()
    const good = { method: 'create_item', db: 'fruit', item: { id: 'new' } }
    const bad = [
      [{ method: 'create_item', db: 'fruit', item: { id: 'x' } }, 409],
      [{ method: 'update_item', db: 'fruit', item: { id: 'z' } }, 404],
      [{ method: 'update_item', db: 'fruit', item: {} }, 400],
      [{ method: 'delete_item', db: 'fruit', id: 'z' }, 404],
      [{ method: 'delete_item', db: 'fruit', id: 5 }, 400],
      [{ method: 'create_db', db: 'fruit' }, 409],
      [{ method: 'create_db', db: 'config' }, 400],
      [{ method: 'create_item', db: 'nuts', item: {} }, 404],
      [{ method: 'erase', db: 'fruit' }, 400],
      [{ method: 'create_item', db: 'fruit', item: [] }, 400],
      ['create_db', 400],
    ] as const
    for (const [change, status] of bad) {
      for (const list of [
        [good, change],
        [change, good],
      ]) {
        const reply = await node.send('POST', '/api/ledgers', { entries: list })
        expect([change, reply.status, reply.json.status]).toEqual([change, status, false])
      }
    }
    expect((await node.send('POST', '/api/ledgers', { entries: [] })).json.code).toBe('UNIT_EMPTY')
    expect((await node.send('POST', '/api/ledgers')).status).toBe(400)
    expect(await entries()).toEqual(before)
    expect((await node.send('GET', FRUIT)).json.items).toEqual(['x'])
  })

  it('applies each change in the list to the result of the previous changes', async () => {
    const reply = await node.send('POST', '/api/ledgers', {
      entries: [
        { method: 'create_db', db: 'a' },
        { method: 'create_item', db: 'a', item: { id: '1' } },
        { method: 'delete_db', db: 'a' },
        { method: 'create_db', db: 'a' },
        { method: 'create_item', db: 'a', item: { id: '1', n: 1 } },
        { method: 'update_item', db: 'a', item: { id: '1', n: 2 } },
        { method: 'delete_item', db: 'a', id: '1' },
        { method: 'create_item', db: 'a', item: { id: '1', n: 3 } },
      ],
    })
    expect(reply.json.status).toBe(true)
    expect((await node.send('GET', '/api/a?docs=true')).json.docs).toEqual([{ id: '1', n: 3 }])
  })
})

it('`proof=1` returns the blinds and the commitments of all entries', async () => {
  await withItems('x')
  const { ledgers } = (await node.send('GET', '/api/ledgers?serverid=3035662834633832&proof=1'))
    .json
  for (const [height, block] of ledgers.entries()) {
    expect(Object.keys(block)).toEqual(['prev_id', 'body', 'timestamps', 'nonce', 'id', 'proof'])
    expect(block.proof).toEqual({
      height,
      root: expect.stringMatching(/^[0-9a-f]{64}$/),
      blinds: block.body.map(() => expect.stringMatching(/^[0-9a-f]{64}$/)),
      commitments: block.body.map(() => expect.stringMatching(/^[0-9a-f]{64}$/)),
    })
  }
})

it('a node has the same content after a restart, and passes verification', async () => {
  await withItems('x', 'y')
  const before = [await entries(), (await node.send('GET', `${FRUIT}?docs=true`)).text]
  await node.close()
  node = await startLedgerNode({ folder })
  expect([await entries(), (await node.send('GET', `${FRUIT}?docs=true`)).text]).toEqual(before)
  await node.send('DELETE', `${FRUIT}/x`)
  const store = await openStoreReader(folder, { frozen: true })
  expect(await verifyStore(store)).toMatchObject({ blocks: 4, entries: 4, items: 1, finding: null })
  await store.close()
})

it('concurrent writes share blocks, and each write gets its own reply', async () => {
  await node.send('POST', FRUIT)
  const replies = await Promise.all(
    Array.from({ length: 300 }, (_, n) => node.send('POST', FRUIT, { id: `${n}` })),
  )
  expect(replies.every(({ status }) => status === 200)).toBe(true)
  const bodies: { item: { id: string } }[][] = await entries()
  expect(bodies.length).toBeLessThan(200)
  for (const reply of replies) {
    const [height = 0, index = 0] = (reply.headers.get('etag') ?? '')
      .slice(1, -1)
      .split('.')
      .map(Number)
    expect(bodies[height]?.[index]?.item.id).toBe(reply.json.id)
  }
})

it('refuses changes with a parameter that it would ignore', async () => {
  await withItems('x')
  const before = await entries()
  for (const [method, path, body] of [
    ['DELETE', `${FRUIT}?id=x`],
    ['DELETE', `${FRUIT}/x?rev=1-a&token=t`],
    ['POST', `${FRUIT}?count=1`, { id: 'y' }],
    ['PATCH', `${FRUIT}/x?toString=1`, { n: 2 }],
  ] as const) {
    const { status, json } = await node.send(method, path, body)
    expect([status, json]).toEqual([
      400,
      {
        ...{ status: false, code: 'REQUEST_INVALID' },
        message: 'nothing was changed: this path supports only these query parameters: token',
      },
    ])
  }
  expect(await entries()).toEqual(before)
  expect((await node.send('DELETE', `${FRUIT}?token=t`)).status).toBe(200)
})
