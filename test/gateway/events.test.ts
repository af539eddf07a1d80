// Events over real WebSocket connections.
import { expect, it, onTestFinished, vi } from 'vitest'
import { WebSocket } from 'ws'
import { type GatewayNode, type GatewayOptions, gateway, networkOf } from '../support/gateway.ts'
import { exchange } from '../support/raw-socket.ts'

const MODEL = `namespace org.test
asset Thing identified by id { o String id }
participant Person identified by name { o String name }
transaction Say { o String[] texts o String fails optional }
abstract event Said { o String text }
event Loud extends Said { }
event Soft extends Said { }`
const LIB = `
/** @param {org.test.Say} tx the transaction
 *  @transaction */
async function say(tx) {
  for (const text of tx.texts) {
    const event = getFactory().newEvent('org.test', text === text.toUpperCase() ? 'Loud' : 'Soft')
    event.text = text
    emit(event)
  }
  if (tx.fails) throw new Error(tx.fails)
}`
const RULES = `
rule Soft { description: "-" participant: "org.test.Person" operation: READ resource(e): "org.test.Soft"
  condition: (e.text !== "secret") action: ALLOW }
rule System { description: "-" participant: "ANY" operation: ALL
  resource: "org.hyperledger.composer.system.**" action: ALLOW }
rule Admin { description: "-" participant: "org.hyperledger.composer.system.NetworkAdmin" operation: ALL
  resource: "**" action: ALLOW }`
const definition = networkOf(MODEL, { 'lib/say.js': LIB, 'permissions.acl': RULES })

const started = (options: GatewayOptions = {}) => gateway({ deploy: [definition], ...options })
const say = (node: GatewayNode, texts: string[], rest = {}) =>
  node.send('POST', '/api/Say', { texts, ...rest })

/** A client that records the frames it receives. */
class Client {
  readonly socket: WebSocket
  readonly texts: string[] = []
  readonly frames: Record<string, unknown>[] = []
  readonly closed: Promise<number>
  #waiting: (() => void) | null = null

  constructor(node: GatewayNode, path = '/', headers: Record<string, string> = {}) {
    this.socket = new WebSocket(node.url.replace('http', 'ws') + path, { headers })
    this.socket.on('message', (data, isBinary) => {
      expect(isBinary).toBe(false)
      const frame = JSON.parse(String(data))
      this.frames.push(frame)
      this.texts.push(frame.text)
      this.#waiting?.()
    })
    this.closed = new Promise((resolve) => {
      this.socket.on('close', resolve)
    })
    onTestFinished(() => this.socket.terminate())
  }

  async opened(): Promise<this> {
    await new Promise<void>((resolve, reject) => {
      this.socket.once('open', resolve)
      this.socket.once('error', reject)
    })
    return this
  }

  /** Resolves to the texts of all frames when `count` frames have arrived. */
  async has(count: number): Promise<string[]> {
    while (this.texts.length < count) {
      await new Promise<void>((resolve) => {
        this.#waiting = resolve
      })
    }
    return this.texts
  }
}

it('sends each event as JSON after the commit, in ledger order', async () => {
  const node = await started()
  const client = await new Client(node, '/any/path').opened()
  const first = await say(node, ['a', 'B'])
  await say(node, ['never'], { fails: 'no' })
  await say(node, ['c'])
  expect(await client.has(3)).toEqual(['a', 'B', 'c'])
  const { transactionId, timestamp } = first.json
  expect(client.frames[1]).toEqual({
    $class: 'org.test.Loud',
    text: 'B',
    eventId: `${transactionId}#1`,
    timestamp,
  })
})

it('replays events from any height, then sends new events, without duplicates or gaps', async () => {
  const node = await started()
  for (let n = 0; n < 10; n += 1) await say(node, [`${n}`, `x${n}`])
  const blocks = 10 + 1
  const more = Array.from({ length: 30 }, (_, n) => say(node, [`${n + 10}`, `x${n + 10}`]))
  const clients = await Promise.all(
    Array.from({ length: blocks }, (_, since) => new Client(node, `/?since=${since}`).opened()),
  )
  await Promise.all(more)
  await say(node, ['END'])
  const all = Array.from({ length: 40 }, (_, n) => [`${n}`, `x${n}`]).flat()
  const sets = await Promise.all(
    clients.map(async (client) => {
      while (client.texts.at(-1) !== 'END') await client.has(client.texts.length + 1)
      return client.texts.slice(0, -1)
    }),
  )
  for (const [since, texts] of sets.entries()) {
    expect(texts.toSorted()).toEqual(all.slice(2 * Math.max(0, since - 1)).toSorted())
  }
  const late = await new Client(node, '/?since=999999').opened()
  await say(node, ['later'])
  expect(await late.has(1)).toEqual(['later'])
})

it('sends only events of the requested types and their subtypes', async () => {
  const node = await started()
  const loud = await new Client(node, '/?types=Loud').opened()
  const both = await new Client(node, '/test-network?types=org.test.Said').opened()
  await say(node, ['a', 'B'])
  expect(await both.has(2)).toEqual(['a', 'B'])
  expect(await loud.has(1)).toEqual(['B'])
})

it('sends only events that the identity may read, and closes the connection when the identity is revoked', async () => {
  const node = await started({ apiKey: 'key' })
  const key = { 'x-api-key': 'key' }
  await node.send('POST', '/api/Person', { name: 'ann' }, key)
  const body = { participant: 'org.test.Person#ann', userID: 'ann' }
  const { json } = await node.send('POST', '/api/system/identities/issue', body, key)
  const authorization = `Bearer ${json.userSecret}`
  const ann = await new Client(node, '/', { authorization }).opened()
  const byQuery = await new Client(node, `/?access_token=${json.userSecret}&since=0`).opened()
  await node.send('POST', '/api/Say', { texts: ['a', 'B', 'secret', 'c'] }, key)
  expect(await ann.has(2)).toEqual(['a', 'c'])
  expect(await byQuery.has(2)).toEqual(['a', 'c'])
  const [identity] = (await node.send('GET', '/api/system/identities', undefined, key)).json
  await node.send('POST', `/api/system/identities/${identity.identityId}/revoke`, {}, key)
  await node.send('POST', '/api/Say', { texts: ['d'] }, key)
  expect(await Promise.all([ann.closed, byQuery.closed])).toEqual([1008, 1008])
  expect(ann.texts).toEqual(['a', 'c'])
})

const identityOfAnn = async (node: GatewayNode, key: Record<string, string>) => {
  await node.send('POST', '/api/Person', { name: 'ann' }, key)
  const body = { participant: 'org.test.Person#ann', userID: 'ann' }
  const { json } = await node.send('POST', '/api/system/identities/issue', body, key)
  return { authorization: `Bearer ${json.userSecret}` }
}

it('sends no event to an identity whose participant was deleted, and closes the connection', async () => {
  const node = await started({ apiKey: 'key' })
  const key = { 'x-api-key': 'key' }
  const ann = await new Client(node, '/', await identityOfAnn(node, key)).opened()
  await node.send('DELETE', '/api/Person/ann', undefined, key)
  await node.send('POST', '/api/Say', { texts: ['a'] }, key)
  expect([await ann.closed, ann.texts]).toEqual([1008, []])
})

it('stops a replay when the identity is revoked', async () => {
  const node = await started({ apiKey: 'key' })
  const key = { 'x-api-key': 'key' }
  const headers = await identityOfAnn(node, key)
  await node.send('POST', '/api/Say', { texts: ['a'] }, key)
  const network = node.networks.require('test-network')
  const read = network.events.readRecorded.bind(network.events)
  vi.spyOn(network.events, 'readRecorded').mockImplementationOnce(async (height) => {
    const [identity] = (await node.send('GET', '/api/system/identities', undefined, key)).json
    await node.send('POST', `/api/system/identities/${identity.identityId}/revoke`, {}, key)
    return read(height)
  })
  const ann = await new Client(node, '/?since=0', headers).opened()
  expect(await ann.closed).toBe(1008)
})

it('closes a connection for which an event cannot be read, so that no event is missed unnoticed', async () => {
  const node = await started({ apiKey: 'key' })
  const key = { 'x-api-key': 'key' }
  await node.send('POST', '/api/Person', { name: 'ann' }, key)
  const body = { participant: 'org.test.Person#ann', userID: 'ann' }
  const { json } = await node.send('POST', '/api/system/identities/issue', body, key)
  const authorization = `Bearer ${json.userSecret}`
  const ann = await new Client(node, '/', { authorization }).opened()
  const network = node.networks.require('test-network')
  vi.spyOn(network, 'isRevoked').mockRejectedValueOnce(new Error('the disk failed'))
  await node.send('POST', '/api/Say', { texts: ['a'] }, key)
  expect(await ann.closed).toBe(1011)
  const again = await new Client(node, '/?since=0', { authorization }).opened()
  expect(await again.has(1)).toEqual(['a'])
})

it.each([
  ['/?since=x', {}, 400],
  ['/?types=Nothing', {}, 404],
  ['/', { authorization: 'Bearer wrong' }, 401],
  ['/', { origin: 'http://evil.example' }, 403],
  ['/doc?since=0', { origin: 'http://evil.example' }, 403],
  ['/doc', { host: 'evil.example' }, 421],
  ['/', { host: 'evil.example' }, 421],
])('rejects a WebSocket request to %s with the headers %o', async (path, headers, status) => {
  const node = await started()
  await expect(new Client(node, path, headers).opened()).rejects.toThrow(String(status))
  const open = await node.send('GET', '/status')
  expect(open.status).toBe(200)
})

it.each([
  [
    'POST',
    'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
    'Invalid HTTP method',
  ],
  [
    'GET',
    'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x',
    'Missing or invalid Sec-WebSocket-Key header',
  ],
  [
    'GET',
    'Sec-WebSocket-Version: 7\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
    'Missing or invalid Sec-WebSocket-Version header',
  ],
])(
  'rejects an invalid WebSocket handshake with the error format of the gateway: %s with %j',
  async (method, lines, message) => {
    const node = await started()
    const head = `${method} / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket`
    const { replies, closed } = await exchange(node.url, [`${head}\r\n${lines}\r\n\r\n`])
    expect([replies.length, replies[0]?.status, closed]).toEqual([1, 400, true])
    expect(replies[0]?.headers.get('sec-websocket-version')).toBe('13')
    expect(JSON.parse(replies[0]?.body ?? '').error).toMatchObject({
      code: 'HANDSHAKE_INVALID',
      message,
    })
  },
)

it.each(['//', '//name:99999/', '//[/'])(
  'reads the query of a WebSocket handshake on the path %s',
  async (path) => {
    const node = await started()
    const head = `GET ${path}?since=-1 HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket`
    const { replies } = await exchange(node.url, [`${head}\r\n\r\n`])
    expect(replies[0]?.status).toBe(400)
    expect(JSON.parse(replies[0]?.body ?? '').error).toMatchObject({ code: 'REQUEST_INVALID' })
  },
)

it('pings clients every 30 seconds, and disconnects clients that do not answer', async () => {
  let tick = () => {}
  const node = await started({
    onPing: (given) => {
      tick = given
    },
  })
  const alive = await new Client(node).opened()
  const gone = await new Client(node).opened()
  gone.socket.pause()
  const ping = new Promise((resolve) => alive.socket.once('ping', resolve))
  tick()
  await ping
  // When this event arrives, `alive` has sent its pong, so the next tick must not disconnect it.
  await say(node, ['a'])
  await alive.has(1)
  tick()
  gone.socket.resume()
  await gone.closed
  await say(node, ['b'])
  expect(await alive.has(2)).toEqual(['a', 'b'])
})

it('closes slow connections, and no others', async () => {
  const node = await started()
  const slow = await new Client(node).opened()
  const fast = await new Client(node).opened()
  slow.socket.pause()
  const text = 'x'.repeat(100_000)
  const texts = Array.from({ length: 20 }, () => text)
  for (let n = 0; n < 8; n += 1) expect((await say(node, texts)).status).toBe(200)
  await fast.has(160)
  slow.socket.resume()
  expect(await slow.closed).not.toBe(1000)
  expect(slow.texts.length).toBeLessThan(160)
})

it('sends events of several megabytes to clients that read, without a new connection', async () => {
  const node = await started()
  const clients = await Promise.all([new Client(node).opened(), new Client(node).opened()])
  const text = 'x'.repeat(6_000_000)
  for (let n = 0; n < 2; n += 1) expect((await say(node, [text])).status).toBe(200)
  for (const client of clients) expect(await client.has(2)).toEqual([text, text])
})

it('closes the connections of a caller for whom too many events wait for the access rules', async () => {
  const node = await started()
  const client = await new Client(node).opened()
  const network = node.networks.require('test-network')
  vi.spyOn(network, 'receivableEvents').mockReturnValue(new Promise(() => {}))
  const text = 'x'.repeat(6_000_000)
  for (let n = 0; n < 4; n += 1) expect((await say(node, [text])).status).toBe(200)
  expect(await client.closed).not.toBe(1000)
  expect(client.texts).toEqual([])
})

it('delivers every event to a thousand subscribers', async () => {
  const node = await started()
  const clients = await Promise.all(Array.from({ length: 1_000 }, () => new Client(node).opened()))
  for (const text of ['a', 'B', 'c']) await say(node, [text])
  for (const client of clients) expect(await client.has(3)).toEqual(['a', 'B', 'c'])
})

it('serves other requests while it sends a block with many events to many subscribers', async () => {
  const node = await started()
  const clients = await Promise.all(Array.from({ length: 20 }, () => new Client(node).opened()))
  const sent = vi.spyOn(WebSocket.prototype, 'send')
  onTestFinished(() => sent.mockRestore())
  let iteration = 0
  const iterations: number[] = []
  const count = () => {
    iteration += 1
    if (iterations.length < 20) setImmediate(count)
  }
  sent.mockImplementation(() => iterations.push(iteration))
  let nowMs = 0
  // Each piece of work takes 20 ms.
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => {
    nowMs += 20
    return nowMs
  })
  onTestFinished(() => clock.mockRestore())
  await say(node, ['a'])
  count()
  await vi.waitFor(() => expect(iterations).toHaveLength(20))
  expect(new Set(iterations).size).toBeGreaterThan(10)
  for (const { socket } of clients) socket.terminate()
})

it('closes all connections on shutdown', async () => {
  const node = await started()
  const client = await new Client(node).opened()
  await node.close()
  expect(await client.closed).toBe(1001)
})

it('closes the connections to a network that is removed, and rejects new connections', async () => {
  const node = await started()
  const { name } = node.networks.list()[0] ?? { name: '' }
  const client = await new Client(node, `/${name}`).opened()
  expect((await node.send('DELETE', `/networks/${name}`)).status).toBe(204)
  expect(await client.closed).toBe(1001)
  await expect(new Client(node, `/${name}`).opened()).rejects.toThrow('410')
})

it('closes the connection of an account whose token is no longer valid, at the next ping', async () => {
  let tick = () => {}
  const account: { iss: string; sub: string } = { iss: 'https://idp.example', sub: 'ann' }
  const valid = new Set(['eyJh.e30.AA', 'eyJi.e30.AA'])
  const node = await started({
    findAccount: async (token) => (valid.has(token) ? account : null),
    onPing: (ping) => {
      tick = ping
    },
  })
  await node.send('POST', '/api/Person', { name: 'ann' })
  const binding = {
    participant: 'resource:org.test.Person#ann',
    certificate: `oidc:${account.iss} ${account.sub}`,
  }
  expect((await node.send('POST', '/api/system/identities/bind', binding)).status).toBe(204)
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
  const client = new Client(node, '/', bearer('eyJh.e30.AA'))
  const other = new Client(node, '/?access_token=eyJi.e30.AA')
  await client.opened()
  await other.opened()
  valid.delete('eyJh.e30.AA')
  tick()
  expect(await client.closed).toBe(1008)
  expect(other.socket.readyState).toBe(other.socket.OPEN)
  const refused = await node.send('GET', '/api/Person', undefined, bearer('eyJh.e30.AA'))
  expect([refused.status, refused.json.error.code]).toEqual([401, 'UNAUTHORIZED'])
})
