// Statements of the specification about the ledger's endpoints, credentials and errors, over a real socket. The name
// of a test quotes the statement.
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { issueApiToken, openTokens } from '../../src/tokens/index.ts'
import { basic } from '../support/basic.ts'
import {
  CREDENTIALS,
  freshDatabase,
  HandClock,
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

describe('Endpoints', () => {
  it('"Every endpoint below accepts an optional query parameter `token` (string)."', async () => {
    const db = await freshDatabase(node)
    const { id } = (await node.send('POST', `/api/${db}?token=t`, {})).json
    const requests = [
      ['GET', '/api/dbs?token=t'],
      ['POST', '/api/tokened?token=t'],
      ['GET', `/api/${db}?token=t`],
      ['GET', `/api/${db}/${id}?token=t`],
      ['DELETE', `/api/${db}/${id}?token=t`],
      ['GET', '/api/serverid?token=t'],
      ['GET', `/api/ledgers?serverid=${serverId}&token=t`],
    ] as const
    for (const [method, path] of requests) {
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
    const db = await freshDatabase(node)
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
    const db = await freshDatabase(node)
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
    const db = await freshDatabase(node)
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
    await freshDatabase(node)
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
      basic(CREDENTIALS.name, 'wrong'),
      basic('other', CREDENTIALS.password),
      { authorization: 'Basic' },
      { authorization: 'Basic !!!!' },
      { authorization: 'Bearer abcdefgh' },
    ]
    for (const headers of wrong) {
      const reply = await node.send('GET', '/', undefined, headers)
      expect([reply.status, reply.json.status]).toEqual([401, false])
      expect(reply.headers.get('www-authenticate')).toBe('Basic realm="daicho", charset="UTF-8"')
    }
    expect(
      (await node.send('GET', '/', undefined, basic(CREDENTIALS.name, CREDENTIALS.password)))
        .status,
    ).toBe(200)
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
  it('"When the service is started with tokens disabled, no token is needed." An invalid token is ignored', async () => {
    expect((await node.send('GET', '/api/dbs')).status).toBe(200)
    expect((await node.send('GET', '/api/dbs?token=nonsense')).status).toBe(200)
  })
})

describe('Errors', () => {
  it('"Any failure, for example reading a deleted item: JSON with `status` false."', async () => {
    const db = await freshDatabase(node)
    await node.send('POST', `/api/${db}`, { id: 'x' })
    await node.send('DELETE', `/api/${db}/x`)
    expect((await node.send('GET', `/api/${db}/x`)).json).toEqual({ status: false })
    const again = await node.send('DELETE', `/api/${db}/x`)
    expect([again.status, again.json]).toEqual([
      404,
      { status: false, code: 'ITEM_NOT_FOUND', message: `there is no item x in ${db}` },
    ])
  })

  it('"Any failure": even for a request without a Host header, which Node would reject by itself', async () => {
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
