// Every statement of the specification about L, the ledger database, as a test over a real socket.
// A test's name quotes its statement.
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { issueApiToken, openTokens } from '../../src/tokens/index.ts'
import { CREDENTIALS, HandClock, type LedgerNode, startLedgerNode } from '../support/ledger-node.ts'

let node: LedgerNode
let serverId: number
beforeAll(async () => {
  node = await startLedgerNode()
  serverId = (await node.send('GET', '/api/serverid')).json.serverid
})
afterAll(() => node.close())

/** Databases of this file are used once each. */
let used = 0
async function freshDatabase(): Promise<string> {
  used += 1
  const name = `db${used}`
  expect((await node.send('POST', `/api/${name}`)).text).toBe('{"status":true}')
  return name
}

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
const basic = ({ name, password }: { name: string; password: string }) => ({
  authorization: `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`,
})

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
    const db = await freshDatabase()
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
    const db = await freshDatabase()
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
    const db = await freshDatabase()
    const asked = [
      ['GET', '/api/dbs', 200],
      ['GET', `/api/${db}`, 200],
      ['GET', '/api/nowhere', 404],
      ['GET', `/api/${db}/none`, 404],
      ['DELETE', '/api/nowhere/none', 404],
      ['PUT', '/api/dbs', 404],
      ['GET', '/nowhere', 404],
      ['GET', '/api/ledgers', 400],
      ['POST', `/api/${db}`, 409],
      ['GET', '/healthz', 200],
      ['GET', '/readyz', 200],
    ] as const
    for (const [method, path, status] of asked) {
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

  it('The documentation page loads nothing from elsewhere and works over plain http', async () => {
    const policy = (await node.send('GET', '/doc')).headers.get('content-security-policy') ?? ''
    expect(policy).toContain("default-src 'none'")
    expect(policy).not.toMatch(/https?:|upgrade-insecure-requests|swagger\.io/)
  })

  it('"A simple dashboard is served at `/`." The page links to the documentation', async () => {
    const page = await node.send('GET', '/', undefined, basic(CREDENTIALS))
    expect(page.status).toBe(200)
    expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8')
    expect(page.text).toContain('href="/doc"')
  })
})

describe('Resources', () => {
  it('"Database. It is identified by a name (string)", in any script', async () => {
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
    const db = await freshDatabase()
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
    const db = await freshDatabase()
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
    await freshDatabase()
    for (const block of await ledgers()) {
      expect(Object.keys(block)).toEqual(['prev_id', 'body', 'timestamps', 'nonce', 'id'])
      expect(block.timestamps.length).toBe(block.body.length)
      expect(block.timestamps.every(Number.isInteger)).toBe(true)
      expect(Number.isInteger(block.nonce)).toBe(true)
      expect(block.id).toMatch(/^[0-9a-f]{128}$/)
    }
  })

  it('"prev_id: Null for the first block. Otherwise equal to the `id` of the preceding block." "Blocks are listed in the order they were created"', async () => {
    await freshDatabase()
    const blocks = await ledgers()
    expect(blocks[0]?.prev_id).toBeNull()
    for (const [at, block] of blocks.entries()) {
      if (at > 0) expect(block.prev_id).toBe(blocks[at - 1]?.id)
    }
    const times = blocks.flatMap((block) => block.timestamps)
    expect(times).toEqual(times.toSorted((a, b) => a - b))
  })

  it('"Ledger entry": serverid, method, db; item for create_item and update_item; id for delete_item', async () => {
    const db = await freshDatabase()
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
    await freshDatabase()
    expect(Number.isSafeInteger(serverId)).toBe(true)
    for (const { body } of await ledgers())
      for (const entry of body) expect(entry.serverid).toBe(serverId)
  })
})

describe('States and transitions', () => {
  it('"database absent | `POST /api/{_db}` with no body | database present, empty | Ledger entry `create_db`"', async () => {
    const name = 'fresh'
    expect((await node.send('GET', `/api/${name}`)).json.status).toBe(false)
    // Also with a Content-Type: no bytes are no body.
    await node.send('POST', `/api/${name}`, '', { 'content-type': 'application/json' })
    expect((await node.send('GET', `/api/${name}`)).json.items).toEqual([])
    expect(await lastEntry()).toMatchObject({ method: 'create_db', db: name })
  })

  it('A body of the JSON text null is a body: it creates no database', async () => {
    const reply = await node.send('POST', '/api/not-made', 'null')
    expect([reply.status, reply.json.status]).toEqual([400, false])
    expect((await node.send('GET', '/api/dbs')).json.dbs).not.toContain('not-made')
  })

  it('"item absent | `POST /api/{_db}` with a JSON body | database present | item present | Id assigned and returned; ledger entry `create_item`"', async () => {
    const db = await freshDatabase()
    const reply = await node.send('POST', `/api/${db}`, { a: 1 })
    expect(reply.json).toEqual({ status: true, id: reply.json.id })
    expect((await node.send('GET', `/api/${db}`)).json.items).toEqual([reply.json.id])
    expect(await lastEntry()).toMatchObject({ method: 'create_item', db })
    const absent = await node.send('POST', '/api/not-there', { a: 1 })
    expect([absent.status, absent.json.status]).toEqual([404, false])
  })

  it('"item present | `POST /api/{_db}/{_id}` with a JSON body | item present with new content | Ledger entry `update_item`"', async () => {
    const db = await freshDatabase()
    await node.send('POST', `/api/${db}`, { id: 'x', old: true })
    expect((await node.send('POST', `/api/${db}/x`, { new: true })).json.status).toBe(true)
    expect((await node.send('GET', `/api/${db}/x`)).json.item).toEqual({ id: 'x', new: true })
    expect(await lastEntry()).toMatchObject({ method: 'update_item', db })
  })

  it('"item present | `DELETE /api/{_db}/{_id}` | item absent | Ledger entry `delete_item`. A later `GET /api/{_db}/{_id}` returns `status` false."', async () => {
    const db = await freshDatabase()
    await node.send('POST', `/api/${db}`, { id: 'x' })
    expect((await node.send('DELETE', `/api/${db}/x`)).json.status).toBe(true)
    expect(await lastEntry()).toMatchObject({ method: 'delete_item', db, id: 'x' })
    const gone = await node.send('GET', `/api/${db}/x`)
    expect([gone.status, gone.text]).toEqual([404, '{"status":false}'])
    expect((await node.send('GET', `/api/${db}`)).json.items).toEqual([])
  })
})

describe('Endpoints', () => {
  it('"Every endpoint below accepts an optional query parameter `token` (string)."', async () => {
    const db = await freshDatabase()
    const { id } = (await node.send('POST', `/api/${db}?token=t`, {})).json
    const asked = [
      ['GET', '/api/dbs?token=t'],
      ['POST', '/api/tokened?token=t'],
      ['GET', `/api/${db}?token=t`],
      ['GET', `/api/${db}/${id}?token=t`],
      ['DELETE', `/api/${db}/${id}?token=t`],
      ['GET', '/api/serverid?token=t'],
      ['GET', `/api/ledgers?serverid=${serverId}&token=t`],
    ] as const
    for (const [method, path] of asked) {
      expect((await node.send(method, path)).json.status, path).toBe(true)
    }
    await node.send('POST', `/api/${db}`, { id: 'x' })
    expect((await node.send('POST', `/api/${db}/x?token=t`, {})).json.status).toBe(true)
  })

  it('"GET `/api/dbs`: `{status: boolean, dbs: [string]}`, the database names"', async () => {
    const own = await startLedgerNode()
    expect((await own.send('GET', '/api/dbs')).text).toBe('{"status":true,"dbs":[]}')
    await own.send('POST', '/api/zoo')
    await own.send('POST', '/api/ark')
    expect((await own.send('GET', '/api/dbs')).text).toBe('{"status":true,"dbs":["zoo","ark"]}')
    await own.close()
  })

  it('"GET `/api/{_db}`: optional query `limit` (integer), `offset` (integer). `items` are item ids. When both parameters are omitted, all ids are returned and `limit` and `offset` are 0."', async () => {
    const db = await freshDatabase()
    for (const id of ['c', 'a', 'b']) await node.send('POST', `/api/${db}`, { id })
    const list = async (query: string) => (await node.send('GET', `/api/${db}${query}`)).text
    expect(await list('')).toBe('{"status":true,"items":["c","a","b"],"limit":0,"offset":0}')
    expect(await list('?limit=2')).toBe('{"status":true,"items":["c","a"],"limit":2,"offset":0}')
    expect(await list('?offset=1')).toBe('{"status":true,"items":["a","b"],"limit":0,"offset":1}')
    expect(await list('?limit=1&offset=1')).toBe(
      '{"status":true,"items":["a"],"limit":1,"offset":1}',
    )
    expect(await list('?limit=9&offset=9')).toBe('{"status":true,"items":[],"limit":9,"offset":9}')
    for (const query of ['?limit=-1', '?limit=x', '?offset=1.5', '?limit=', '?limit=1e400']) {
      const reply = await node.send('GET', `/api/${db}${query}`)
      expect([query, reply.status, reply.json.status]).toEqual([query, 400, false])
    }
  })

  it('`docs` and `proof` are switched by `true` or `1`', async () => {
    const db = await freshDatabase()
    await node.send('POST', `/api/${db}`, { id: 'a' })
    const chain = `/api/ledgers?serverid=${serverId}&limit=1`
    for (const on of ['true', '1']) {
      const list = await node.send('GET', `/api/${db}?docs=${on}`)
      expect(list.json.docs).toEqual([{ id: 'a' }])
      const { ledgers } = (await node.send('GET', `${chain}&proof=${on}`)).json
      expect(Object.keys(ledgers[0].proof)).toEqual(['height', 'root', 'blinds', 'commitments'])
    }
    expect((await node.send('GET', `/api/${db}?docs=0`)).json.docs).toBeUndefined()
    expect((await node.send('GET', `/api/${db}?docs=maybe`)).status).toBe(400)
  })

  it('"GET `/api/{_db}/{_id}`: `{status: true, item: object}`, where the item includes `id`. When the item does not exist, `{status: false}`."', async () => {
    const db = await freshDatabase()
    await node.send('POST', `/api/${db}`, { id: 'x', n: 1 })
    expect((await node.send('GET', `/api/${db}/x`)).text).toBe(
      '{"status":true,"item":{"id":"x","n":1}}',
    )
    expect((await node.send('GET', `/api/${db}/y`)).text).toBe('{"status":false}')
  })

  it('"GET `/api/serverid`: `{status: boolean, serverid: value}`"', async () => {
    expect((await node.send('GET', '/api/serverid')).text).toBe(
      `{"status":true,"serverid":${serverId}}`,
    )
  })

  it('"GET `/api/ledgers`: required query `serverid`: `{status: boolean, ledgers: [block], limit: integer, offset: integer}`"', async () => {
    await freshDatabase()
    const all = await node.send('GET', `/api/ledgers?serverid=${serverId}`)
    expect(Object.keys(all.json)).toEqual(['status', 'ledgers', 'limit', 'offset'])
    expect([all.json.status, all.json.limit, all.json.offset]).toEqual([true, 0, 0])
    const one = await node.send('GET', `/api/ledgers?serverid=${serverId}&limit=1&offset=1`)
    expect(one.json).toEqual({ status: true, ledgers: [all.json.ledgers[1]], limit: 1, offset: 1 })
    for (const query of [
      '',
      '?serverid=',
      '?serverid=x',
      '?serverid=1',
      '?serverid=0',
      '?serverid=99999999999999999999',
    ]) {
      const reply = await node.send('GET', `/api/ledgers${query}`)
      expect([query, reply.json.status]).toEqual([query, false])
      expect(reply.status).toBe(query === '?serverid=1' ? 404 : 400)
    }
  })
})

describe('Authentication', () => {
  it('"The dashboard at `/` requires HTTP Basic credentials."', async () => {
    const wrong = [
      {},
      basic({ name: CREDENTIALS.name, password: 'wrong' }),
      basic({ name: 'other', password: CREDENTIALS.password }),
      { authorization: 'Basic' },
      { authorization: 'Basic !!!!' },
      { authorization: 'Bearer abcdefgh' },
    ]
    for (const headers of wrong) {
      const reply = await node.send('GET', '/', undefined, headers)
      expect([reply.status, reply.json.status]).toEqual([401, false])
      expect(reply.headers.get('www-authenticate')).toBe('Basic realm="daicho", charset="UTF-8"')
    }
    expect((await node.send('GET', '/', undefined, basic(CREDENTIALS))).status).toBe(200)
  })

  it('"Tokens can be required." Then each endpoint takes one as the query parameter `token`', async () => {
    const clock = new HandClock()
    const tokens = await openTokens({ clock, folder: null, secret: null })
    const gated = await startLedgerNode({ clock, tokens })
    const scopes = ['db:*:admin', 'ledger:read']
    const { token } = await issueApiToken(tokens, { subject: 'x', scopes, lifeSeconds: 60 })
    const { serverid } = (await gated.send('GET', `/api/serverid?token=${token}`)).json
    const calls: [string, string, object?][] = [
      ['GET', '/api/dbs?'],
      ['GET', '/api/serverid?'],
      ['POST', '/api/a?'],
      ['POST', '/api/a?', { id: 'x' }],
      ['POST', '/api/a/x?', { n: 1 }],
      ['GET', '/api/a?'],
      ['GET', '/api/a/x?'],
      ['DELETE', '/api/a/x?'],
      ['GET', `/api/ledgers?serverid=${serverid}&`],
    ]
    for (const [method, path, body] of calls) {
      const without = await gated.send(method, path, body)
      expect([path, without.status, without.json.status]).toEqual([path, 401, false])
      const reply = await gated.send(method, `${path}token=${token}`, body)
      expect([path, reply.status, reply.json.status]).toEqual([path, 200, true])
    }
    await gated.close()
  })
  it('"When the service is started with tokens disabled, no token is needed." A token that means nothing does no harm', async () => {
    expect((await node.send('GET', '/api/dbs')).status).toBe(200)
    expect((await node.send('GET', '/api/dbs?token=nonsense')).status).toBe(200)
  })
})

describe('Errors', () => {
  it('"Any failure, for example reading a deleted item: JSON with `status` false."', async () => {
    const db = await freshDatabase()
    await node.send('POST', `/api/${db}`, { id: 'x' })
    await node.send('DELETE', `/api/${db}/x`)
    expect((await node.send('GET', `/api/${db}/x`)).json).toEqual({ status: false })
    const again = await node.send('DELETE', `/api/${db}/x`)
    expect([again.status, again.json]).toEqual([
      404,
      { status: false, code: 'ITEM_NOT_FOUND', message: `there is no item x in ${db}` },
    ])
  })

  it('"Any failure": also of a request without a Host header, which Node would refuse by itself', async () => {
    const { hostname, port } = new URL(node.url)
    const socket = connect(Number(port), hostname)
    socket.end('GET /api/dbs HTTP/1.1\r\n\r\n')
    const reply = await text(socket)
    expect(reply).toMatch(/^HTTP\/1\.1 400 /)
    expect(JSON.parse(reply.slice(reply.indexOf('{')))).toMatchObject({
      status: false,
      code: 'HOST_NOT_ONE',
    })
  })
})
