// Statements of the specification about the ledger's operations, data and records, over a real socket. The name of a
// test quotes the statement.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { basic } from '../support/basic.ts'
import {
  CREDENTIALS,
  freshDatabase,
  type LedgerNode,
  startLedgerNode,
} from '../support/ledger-node.ts'

let node: LedgerNode
let serverId: number
beforeAll(async () => {
  node = await startLedgerNode()
  serverId = (await node.send('GET', '/api/serverid')).json.serverid
})
afterAll(() => node.close())

interface WireBlock {
  prev_id: string | null
  body: Record<string, unknown>[]
  timestamps: number[]
  nonce: number
  id: string
}
async function ledgers(): Promise<WireBlock[]> {
  return (await node.send('GET', `/api/ledgers?serverid=${serverId}`)).json.ledgers
}
async function lastEntry(): Promise<Record<string, unknown> | undefined> {
  return (await ledgers()).at(-1)?.body.at(-1)
}
describe('What the service does', () => {
  it('"It is a database reached only through a REST API. All of its API paths start with `/api`."', async () => {
    const document = (await node.send('GET', '/doc/json')).json
    const paths = Object.keys(document.paths)
    expect(paths).toEqual(
      expect.arrayContaining([
        '/api/dbs',
        '/api/{db}',
        '/api/{db}/{id}',
        '/api/serverid',
        '/api/ledgers',
      ]),
    )
    expect(paths.filter((path) => !path.startsWith('/api/'))).toEqual(['/healthz', '/readyz'])
  })

  it('"A client creates and lists databases, and creates, reads, updates and deletes items (JSON objects) inside a database."', async () => {
    const db = await freshDatabase(node)
    expect((await node.send('GET', '/api/dbs')).json.dbs).toContain(db)
    const { id } = (await node.send('POST', `/api/${db}`, { n: 1 })).json
    expect((await node.send('GET', `/api/${db}/${id}`)).json.item).toEqual({ n: 1, id })
    await node.send('POST', `/api/${db}/${id}`, { n: 2 })
    expect((await node.send('GET', `/api/${db}/${id}`)).json.item).toEqual({ n: 2, id })
    expect((await node.send('DELETE', `/api/${db}/${id}`)).json).toEqual({ status: true })
    expect((await node.send('GET', `/api/${db}/${id}`)).json).toEqual({ status: false })
  })

  it('"Every operation that changes data (not a read) is recorded automatically as an entry in a built-in ledger. Ledger blocks are linked by hashes (`prev_id` and `id`)."', async () => {
    const before = (await ledgers()).length
    const db = await freshDatabase(node)
    const { id } = (await node.send('POST', `/api/${db}`, { n: 1 })).json
    await node.send('GET', `/api/${db}/${id}`)
    await node.send('GET', `/api/${db}`)
    await node.send('POST', `/api/${db}/${id}`, { n: 2 })
    await node.send('DELETE', `/api/${db}/${id}`)
    const blocks = await ledgers()
    expect(blocks.length).toBe(before + 4)
    for (const [at, block] of blocks.entries())
      expect(block.prev_id).toBe(blocks[at - 1]?.id ?? null)
  })

  it('"Every JSON response carries a boolean `status`: true means success, false means failure."', async () => {
    const db = await freshDatabase(node)
    const requests = [
      ['GET', '/api/dbs', 200],
      ['GET', `/api/${db}`, 200],
      ['GET', '/api/nowhere', 404],
      ['GET', `/api/${db}/none`, 404],
      ['DELETE', '/api/nowhere/none', 404],
      ['PUT', '/api/dbs', 405],
      ['GET', '/nowhere', 404],
      ['GET', '/api/ledgers', 400],
      ['POST', `/api/${db}`, 409],
      ['GET', '/healthz', 200],
      ['GET', '/readyz', 200],
    ] as const
    for (const [method, path, status] of requests) {
      const reply = await node.send(method, path)
      expect([method, path, reply.status]).toEqual([method, path, status])
      expect(reply.json.status).toBe(status === 200)
    }
  })

  it('"An interactive OpenAPI documentation UI is served at `/doc`. It can be read from any host. Calls made from it work only from the same host, because cross-origin calls are blocked."', async () => {
    const page = await node.send('GET', '/doc')
    expect(page.status).toBe(200)
    expect(page.text).toContain('swagger-ui')
    expect((await node.send('GET', '/doc/json')).json.openapi).toBe('3.1.0')
    const elsewhere = { origin: 'https://elsewhere.example', 'sec-fetch-site': 'cross-site' }
    expect((await node.send('GET', '/doc', undefined, elsewhere)).status).toBe(200)
    expect((await node.send('GET', '/doc/json', undefined, elsewhere)).status).toBe(200)
    const blocked = await node.send('POST', '/api/stolen', undefined, elsewhere)
    expect([blocked.status, blocked.json.status]).toEqual([403, false])
    expect((await node.send('GET', '/api/dbs')).json.dbs).not.toContain('stolen')
    const own = { origin: node.url, 'sec-fetch-site': 'same-origin' }
    expect((await node.send('GET', '/api/dbs', undefined, own)).status).toBe(200)
  })

  it('The documentation page loads nothing from other hosts and works over plain http', async () => {
    const policy = (await node.send('GET', '/doc')).headers.get('content-security-policy') ?? ''
    expect(policy).toContain("default-src 'none'")
    expect(policy).not.toMatch(/https?:|upgrade-insecure-requests|swagger\.io/)
  })

  it('"A simple dashboard is served at `/`." The page links to the documentation', async () => {
    const page = await node.send(
      'GET',
      '/',
      undefined,
      basic(CREDENTIALS.name, CREDENTIALS.password),
    )
    expect(page.status).toBe(200)
    expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8')
    expect(page.text).toContain('href="/doc"')
  })
})

describe('Resources', () => {
  it('"Database. It is identified by a name (string)", in any writing system', async () => {
    for (const name of ['台帳', 'a b', 'ünï', '100%', 'a.b-c_d', '🍎']) {
      const path = `/api/${encodeURIComponent(name)}`
      expect((await node.send('POST', path)).json).toEqual({ status: true })
      expect((await node.send('GET', '/api/dbs')).json.dbs).toContain(name)
      expect((await node.send('GET', path)).json.items).toEqual([])
    }
  })

  it('"The names `config` and `ledgers` cannot be created as databases"', async () => {
    for (const name of ['config', 'ledgers']) {
      const reply = await node.send('POST', `/api/${name}`)
      expect(reply.json.status).toBe(false)
      expect(reply.status).toBe(400)
      expect((await node.send('GET', '/api/dbs')).json.dbs).not.toContain(name)
    }
  })

  it('"An item is a JSON object stored as sent." Any fields, "returned as stored"', async () => {
    const db = await freshDatabase(node)
    const item = {
      text: 'ä "quoted" \\ \n \u2028 🍎',
      number: -1.5e-7,
      yes: true,
      nothing: null,
      list: [1, [2, [{}]]],
      nested: { deep: { er: '' } },
      '': 'empty name',
      status: 'mine',
      constructor: 'too',
    }
    const { id } = (await node.send('POST', `/api/${db}`, item)).json
    expect((await node.send('GET', `/api/${db}/${id}`)).json.item).toEqual({ ...item, id })
  })

  it('"id: string. Assigned by the service when an item is created without an id. Returned on create and on read."', async () => {
    const db = await freshDatabase(node)
    const { id } = (await node.send('POST', `/api/${db}`, {})).json
    expect(id).toMatch(/^[0-9a-f-]{36}$/)
    expect((await node.send('GET', `/api/${db}/${id}`)).json.item).toEqual({ id })
    expect((await node.send('POST', `/api/${db}`, { id: 'mine' })).json).toEqual({
      status: true,
      id: 'mine',
    })
    expect((await node.send('GET', `/api/${db}/mine`)).json.item).toEqual({ id: 'mine' })
  })

  it('"Ledger block": prev_id, body, timestamps ("One integer timestamp per entry"), nonce ("integer"), id ("Long hexadecimal hash text")', async () => {
    await freshDatabase(node)
    for (const block of await ledgers()) {
      expect(Object.keys(block)).toEqual(['prev_id', 'body', 'timestamps', 'nonce', 'id'])
      expect(block.timestamps.length).toBe(block.body.length)
      expect(block.timestamps.every(Number.isInteger)).toBe(true)
      expect(Number.isInteger(block.nonce)).toBe(true)
      expect(block.id).toMatch(/^[0-9a-f]{128}$/)
    }
  })

  it('"prev_id: Null for the first block. Otherwise equal to the `id` of the preceding block." "Blocks are listed in the order they were created"', async () => {
    await freshDatabase(node)
    const blocks = await ledgers()
    expect(blocks[0]?.prev_id).toBeNull()
    for (const [at, block] of blocks.entries()) {
      if (at > 0) expect(block.prev_id).toBe(blocks[at - 1]?.id)
    }
    const times = blocks.flatMap((block) => block.timestamps)
    expect(times).toEqual(times.toSorted((a, b) => a - b))
  })

  it('"Ledger entry": serverid, method, db; item for create_item and update_item; id for delete_item', async () => {
    const db = await freshDatabase(node)
    expect(await lastEntry()).toEqual({ serverid: serverId, method: 'create_db', db })
    const { id } = (await node.send('POST', `/api/${db}`, { n: 1 })).json
    expect(await lastEntry()).toEqual({
      serverid: serverId,
      method: 'create_item',
      db,
      item: { n: 1, id },
    })
    await node.send('POST', `/api/${db}/${id}`, { n: 2 })
    expect(await lastEntry()).toEqual({
      serverid: serverId,
      method: 'update_item',
      db,
      item: { n: 2, id },
    })
    await node.send('DELETE', `/api/${db}/${id}`)
    expect(await lastEntry()).toEqual({ serverid: serverId, method: 'delete_item', db, id })
  })

  it('"The server id is the value returned by `GET /api/serverid`." "serverid: integer. Always."', async () => {
    await freshDatabase(node)
    expect(Number.isSafeInteger(serverId)).toBe(true)
    for (const { body } of await ledgers())
      for (const entry of body) expect(entry.serverid).toBe(serverId)
  })
})

describe('States and transitions', () => {
  it('"database absent | `POST /api/{_db}` with no body | database present, empty | Ledger entry `create_db`"', async () => {
    const name = 'fresh'
    expect((await node.send('GET', `/api/${name}`)).json.status).toBe(false)
    // A request with a Content-Type and an empty body counts as a request without a body.
    await node.send('POST', `/api/${name}`, '', { 'content-type': 'application/json' })
    expect((await node.send('GET', `/api/${name}`)).json.items).toEqual([])
    expect(await lastEntry()).toMatchObject({ method: 'create_db', db: name })
  })

  it('The JSON text null is a body, so it creates no database', async () => {
    const reply = await node.send('POST', '/api/not-made', 'null')
    expect([reply.status, reply.json.status]).toEqual([400, false])
    expect((await node.send('GET', '/api/dbs')).json.dbs).not.toContain('not-made')
  })

  it('"item absent | `POST /api/{_db}` with a JSON body | database present | item present | Id assigned and returned; ledger entry `create_item`"', async () => {
    const db = await freshDatabase(node)
    const reply = await node.send('POST', `/api/${db}`, { a: 1 })
    expect(reply.json).toEqual({ status: true, id: reply.json.id })
    expect((await node.send('GET', `/api/${db}`)).json.items).toEqual([reply.json.id])
    expect(await lastEntry()).toMatchObject({ method: 'create_item', db })
    const absent = await node.send('POST', '/api/not-there', { a: 1 })
    expect([absent.status, absent.json.status]).toEqual([404, false])
  })

  it('"item present | `POST /api/{_db}/{_id}` with a JSON body | item present with new content | Ledger entry `update_item`"', async () => {
    const db = await freshDatabase(node)
    await node.send('POST', `/api/${db}`, { id: 'x', old: true })
    expect((await node.send('POST', `/api/${db}/x`, { new: true })).json.status).toBe(true)
    expect((await node.send('GET', `/api/${db}/x`)).json.item).toEqual({ id: 'x', new: true })
    expect(await lastEntry()).toMatchObject({ method: 'update_item', db })
  })

  it('"item present | `DELETE /api/{_db}/{_id}` | item absent | Ledger entry `delete_item`. A later `GET /api/{_db}/{_id}` returns `status` false."', async () => {
    const db = await freshDatabase(node)
    await node.send('POST', `/api/${db}`, { id: 'x' })
    expect((await node.send('DELETE', `/api/${db}/x`)).json.status).toBe(true)
    expect(await lastEntry()).toMatchObject({ method: 'delete_item', db, id: 'x' })
    const missing = await node.send('GET', `/api/${db}/x`)
    expect([missing.status, missing.text]).toEqual([404, '{"status":false}'])
    expect((await node.send('GET', `/api/${db}`)).json.items).toEqual([])
  })
})
