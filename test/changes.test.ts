// The change feed over real sockets: every entry once and in order, even if connections break.
import fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import { type Schedule, systemSchedule } from '../src/base/clock.ts'
import { FeedClient } from './support/feed-client.ts'
import { entriesOf } from './support/feed-entries.ts'
import {
  type LedgerNode,
  type LedgerNodeOptions,
  startLedgerNode,
  temporaryFolder,
} from './support/ledger-node.ts'
import { timeFor } from './support/rounds.ts'

/** A schedule whose timers of 10 seconds or more, such as heartbeats, fire only when a test calls `beat`. */
class HandBeats implements Schedule {
  #waiting: (() => void)[] = []

  after(ms: number, run: () => void): () => void {
    if (ms < 10_000) return systemSchedule.after(ms, run)
    this.#waiting.push(run)
    return () => {
      this.#waiting = this.#waiting.filter((other) => other !== run)
    }
  }

  beat(): void {
    const due = this.#waiting
    this.#waiting = []
    for (const run of due) run()
  }
}

const opened: { close(): unknown }[] = []
afterEach(async () => {
  for (const each of opened.splice(0).reverse()) await each.close()
})

async function start(options: LedgerNodeOptions = {}): Promise<LedgerNode & { path: string }> {
  const node = await startLedgerNode(options)
  opened.push(node)
  return { ...node, path: `/api/ledgers/${node.service.serverId}/changes` }
}

async function follow(
  node: LedgerNode & { path: string },
  query = '',
  lastEventId: string | null = null,
): Promise<FeedClient> {
  const client = new FeedClient(node.url, node.path + query, lastEventId)
  opened.push({ close: () => client.leave() })
  await client.until(({ head, signs }) => head !== '' && signs > 0)
  return client
}

/** Returns every entry of the chain in the form of a change-feed event. */
async function chainOf(node: LedgerNode) {
  const { json } = await node.send('GET', `/api/ledgers?serverid=${node.service.serverId}`)
  // biome-ignore lint/suspicious/noExplicitAny: blocks as received
  return json.ledgers.flatMap((block: any, height: number) =>
    block.body.map((entry: unknown, index: number) => ({
      position: `${height}.${index}`,
      timestamp: block.timestamps[index],
      entry,
    })),
  )
}

describe('GET /api/ledgers/{serverid}/changes', () => {
  it('sends each entry in the form of GET /api/ledgers, with position and time, without blinds', async () => {
    const node = await start()
    await node.send('POST', '/api/a')
    const client = await follow(node, '?since=start')
    await node.send('POST', '/api/a', [{ id: 'x', text: 'a\nb\u2028' }, { id: 'y' }])
    await node.send('DELETE', '/api/a/x')
    await client.until(({ entries }) => entries.length === 4)
    expect(client.entries).toEqual(await chainOf(node))
    expect(Object.keys(client.entries[0] ?? {})).toEqual(['position', 'timestamp', 'entry'])
    expect(client.lastEventId).toBe('2.0')
    expect(client.head).toContain('HTTP/1.1 200 OK\r\ncontent-type: text/event-stream')
  })

  it('starts with new entries, after a given position, or at the first entry, and prefers the Last-Event-ID header to the query', async () => {
    const node = await start()
    await node.send('POST', '/api/a')
    await node.send('POST', '/api/a', [{ id: '0' }, { id: '1' }, { id: '2' }])
    const clients = {
      now: await follow(node),
      replies: await follow(node, '?since=now'),
      after: await follow(node, '?since=1.0'),
      start: await follow(node, '?since=start'),
      header: await follow(node, '?since=start', '1.1'),
      parameter: await follow(node, '?since=start&lastEventId=1.1'),
    }
    expect(clients.now.lastEventId).toBe('1.2')
    await node.send('DELETE', '/api/a/0')
    for (const client of Object.values(clients)) {
      await client.until(({ lastEventId }) => lastEventId === '2.0')
    }
    const seen = (client: FeedClient) => client.entries.map(({ position }) => position)
    expect(seen(clients.now)).toEqual(['2.0'])
    expect(seen(clients.replies)).toEqual(['2.0'])
    expect(seen(clients.after)).toEqual(['1.1', '1.2', '2.0'])
    expect(seen(clients.start)).toEqual(['0.0', '1.0', '1.1', '1.2', '2.0'])
    expect(seen(clients.header)).toEqual(['1.2', '2.0'])
  })

  it('sends an id before the first event, so that a reconnecting client misses nothing', async () => {
    const node = await start()
    const client = await follow(node)
    expect(client.lastEventId).toBe('start')
    client.leave()
    await node.send('POST', '/api/a')
    const again = await follow(node, '', client.lastEventId)
    await again.until(({ entries }) => entries.length === 1)
  })

  it('sends only entries of the requested databases, even if their names need escaping', async () => {
    const node = await start()
    const odd = 'q"\\台帳'
    const client = await follow(node, `?db=b&db=${encodeURIComponent(odd)}`)
    for (const db of ['a', 'b', odd]) {
      await node.send('POST', `/api/${encodeURIComponent(db)}`)
      await node.send('POST', `/api/${encodeURIComponent(db)}`, { id: 'x' })
    }
    await client.until(({ entries }) => entries.length === 4)
    expect(client.entries.map(({ entry }) => entry.db)).toEqual(['b', 'b', odd, odd])
  })

  it('sends heartbeats with the current position when there are no entries', async () => {
    const schedule = new HandBeats()
    const node = await start({ schedule })
    const client = await follow(node, '?db=b')
    await node.send('POST', '/api/a')
    const other = await follow(node, '?since=start')
    await other.until(({ entries }) => entries.length === 1)
    schedule.beat()
    schedule.beat()
    await client.until(({ signs }) => signs > 1)
    expect([client.lastEventId, client.entries]).toEqual(['0.0', []])
  })

  it('rejects invalid requests, even HEAD, with the error format of the ledger', async () => {
    const node = await start({ feedBounds: { subscribersMax: 1 } })
    await node.send('POST', '/api/a')
    const own = node.service.serverId
    const cases: [string, number, string][] = [
      [`/api/ledgers/${own + 1}/changes`, 404, 'SERVERID_UNKNOWN'],
      ['/api/ledgers/x/changes', 400, 'SERVERID_INVALID'],
      ...['0.1', '1.0', '7.7', '549755813887.16383'].map((since): [string, number, string] => [
        `${node.path}?since=${since}`,
        404,
        'POSITION_UNKNOWN',
      ]),
      ...['0', '-1.0', '0.16384', '01.0', '1e3.0', '9'.repeat(40), 'Now'].map(
        (since): [string, number, string] => [
          `${node.path}?since=${since}`,
          400,
          'POSITION_INVALID',
        ],
      ),
      [`${node.path}?db=config`, 400, 'DATABASE_NAME_RESERVED'],
      [`${node.path}?db=a%0Ab`, 400, 'DATABASE_NAME_INVALID'],
      [`${node.path}?${'db=a&'.repeat(101)}`, 400, 'REQUEST_INVALID'],
    ]
    for (const [path, status, code] of cases) {
      const reply = await node.send('GET', path)
      expect([path, reply.status, reply.json.status, reply.json.code]).toEqual([
        path,
        status,
        false,
        code,
      ])
      expect((await node.send('HEAD', path)).status).toBe(status)
    }
    const head = await node.send('HEAD', `${node.path}?since=0.0`)
    expect([head.status, head.headers.get('content-type')]).toEqual([
      200,
      'text/event-stream; charset=utf-8',
    ])
    await follow(node)
    expect((await node.send('GET', node.path)).json.code).toBe('FEED_UNAVAILABLE')
  })

  it('ends all connections when the node stops, even those of clients that do not read, and all clients resume afterwards', async () => {
    const folder = temporaryFolder()
    const node = await start({ folder })
    await node.send('POST', '/api/a')
    const client = await follow(node)
    const stalled = await follow(node)
    stalled.stall()
    // The items exceed the socket buffers of the operating system, so the node cannot send all of them to `stalled`.
    const item = { text: 'x'.repeat(1_000_000) }
    for (let count = 0; count < 16; count += 1) await node.send('POST', '/api/a', item)
    await client.until(({ entries }) => entries.length === 16)
    opened.splice(0, 1)
    await node.close()
    await client.end()
    stalled.resume()
    await stalled.end()

    const next = await start({ folder })
    await next.send('DELETE', '/api/a')
    const chain = await chainOf(next)
    for (const { entries, lastEventId } of [client, stalled]) {
      const again = await follow(next, '', lastEventId)
      await again.until((now) => entries.length + now.entries.length >= chain.length - 1)
      expect([...entries, ...again.entries]).toEqual(chain.slice(1))
    }
  })

  it('closes connections that read nothing for two heartbeats, and no others', async () => {
    const schedule = new HandBeats()
    const node = await start({ schedule })
    await node.send('POST', '/api/a')
    const client = await follow(node)
    const stalled = await follow(node)
    stalled.stall()
    const item = { text: 'x'.repeat(1_000_000) }
    for (let count = 0; count < 16; count += 1) await node.send('POST', '/api/a', item)
    await client.until(({ entries }) => entries.length === 16)
    expect(node.service.feed.heldBytes).toBeLessThan(1_100_000)
    for (let beats = 0; beats < 7; beats += 1) schedule.beat()
    expect(node.service.feed.ended).toMatchObject({ stalled: 1, left: 0 })
    expect([node.service.feed.subscribers, node.service.feed.heldBytes]).toEqual([1, 0])
    await node.send('DELETE', '/api/a')
    await client.until(({ entries }) => entries.length === 17)
    stalled.resume()
    await stalled.end()
  })

  it('closes the connection with the most buffered data when all connections together buffer too much', async () => {
    const node = await start({ feedBounds: { heldBytesMax: 2_500_000 } })
    await node.send('POST', '/api/a')
    await node.send('POST', '/api/b')
    const stalled = [await follow(node, '?db=a'), await follow(node, '?db=b')]
    const client = await follow(node)
    for (const each of stalled) each.stall()
    const item = { text: 'x'.repeat(1_000_000) }
    for (let count = 0; count < 32; count += 1) {
      await node.send('POST', count % 2 === 0 ? '/api/a' : '/api/b', item)
      // `client` reads each entry before the next one is written, so the connection with the most buffered data is
      // always a stalled one.
      await client.until(({ entries }) => entries.length === count + 1)
    }
    expect(node.service.feed.ended.crowded).toBeGreaterThan(0)
    expect(node.service.feed.heldBytes).toBeLessThan(1_500_000)
    expect(client.closed).toBe(false)
  })

  it('sends each subscriber every entry once and in order, however often connections break', async () => {
    const node = await start()
    for (const db of ['a', 'b', 'c']) await node.send('POST', `/api/${db}`)
    const step = fc.oneof(
      fc.record({
        kind: fc.constant('write' as const),
        db: fc.constantFrom('a', 'b', 'c'),
        count: fc.integer({ min: 1, max: 40 }),
        length: fc.constantFrom(1, 100, 20_000),
      }),
      fc.record({
        kind: fc.constantFrom('break' as const, 'stall' as const, 'resume' as const),
        at: fc.nat(3),
      }),
    )
    const goesOn = timeFor(10_000)
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 30 }), async (steps) => {
        if (!goesOn()) return
        const from = (await chainOf(node)).length
        const filters = ['', '', '?db=a', '?db=b&db=c']
        const had: FeedClient[][] = []
        for (const filter of filters) had.push([await follow(node, filter)])
        const latest = (at: number) => had[at]?.at(-1)
        const writes: Promise<unknown>[] = []
        for (const each of steps) {
          if (each.kind === 'write') {
            const items = Array.from({ length: each.count }, () => ({ t: 'x'.repeat(each.length) }))
            writes.push(node.send('POST', `/api/${each.db}`, items))
          } else if (each.kind === 'stall') latest(each.at)?.stall()
          else if (each.kind === 'resume') latest(each.at)?.resume()
          else {
            latest(each.at)?.leave()
            const { lastEventId = null } = latest(each.at) ?? {}
            had[each.at]?.push(await follow(node, filters[each.at], lastEventId))
          }
        }
        await Promise.all(writes)
        const chain = (await chainOf(node)).slice(from)
        const wanted = [
          chain,
          chain,
          // biome-ignore lint/suspicious/noExplicitAny: entries as received
          chain.filter(({ entry }: any) => entry.db === 'a'),
          // biome-ignore lint/suspicious/noExplicitAny: entries as received
          chain.filter(({ entry }: any) => entry.db !== 'a'),
        ]
        for (const [at, clients] of had.entries()) {
          const seen = () => clients.flatMap(({ entries }) => entries)
          latest(at)?.resume()
          await latest(at)?.until(() => seen().length >= wanted[at].length)
          expect(seen()).toEqual(wanted[at])
          for (const client of clients) client.leave()
        }
      }),
      { numRuns: 25 },
    )
  })
})

describe('an in-process subscription', () => {
  it('yields entries after a position until the signal aborts or the node closes', async () => {
    const node = await start()
    await node.service.write.createDatabase('a')
    await node.service.write.createDatabase('b')
    const stop = new AbortController()
    const all = await entriesOf(node.service, { after: 'start', signal: stop.signal })
    const some = await entriesOf(node.service, { db: ['b'] })
    await node.service.write.createItem('a', { id: 'x' })
    await node.service.write.createItem('b', { id: 'y' })
    const methods: string[] = []
    for await (const { entry } of all) {
      methods.push(`${entry.method} ${entry.db}`)
      if (methods.length === 4) stop.abort()
    }
    expect(methods).toEqual(['create_db a', 'create_db b', 'create_item a', 'create_item b'])
    const { value } = await some.next()
    expect(value).toMatchObject({ entry: { db: 'b', item: { id: 'y' } } })
    expect(node.service.feed.subscribers).toBe(1)
    node.service.feed.close()
    expect(await some.next()).toEqual({ done: true, value: undefined })
    await expect(entriesOf(node.service)).rejects.toMatchObject({ code: 'FEED_UNAVAILABLE' })
  })

  it('waits for a slow consumer, and ends when the consumer leaves the loop', async () => {
    const node = await start()
    await node.service.write.createDatabase('a')
    const entries = await entriesOf(node.service)
    for (let count = 0; count < 50; count += 1) {
      await node.service.write.createItem('a', { text: 'x'.repeat(50_000), n: count })
    }
    const seen: unknown[] = []
    for await (const { entry } of entries) {
      if ('item' in entry) seen.push(entry.item.n)
      await new Promise((resolve) => setImmediate(resolve))
      if (seen.length === 50) break
    }
    expect(seen).toEqual(Array.from({ length: 50 }, (_, n) => n))
    expect(node.service.feed.subscribers).toBe(0)
  })
})
