import type { ServerResponse } from 'node:http'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseEvents } from '../../src/client/changes.ts'
import { type FeedEntry, LedgerClient } from '../../src/client/index.ts'
import { type Arrived, broken, collected, fakeNode, json, noted } from './fake-node.ts'

const SERVER_ID = json(200, { status: true, serverid: 7 })
const change = (position: string) => ({
  position,
  timestamp: 1,
  entry: { serverid: 7, method: 'create_db', db: position },
})
const event = (position: string) =>
  `id: ${position}\nevent: entry\ndata: ${JSON.stringify(change(position))}\n\n`

/** Returns a reply that sends `text` as events, then disconnects, or with `open` keeps the connection open. */
const events =
  (text: string, open = false) =>
  (response: ServerResponse) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(text, () => {
      if (!open) setImmediate(() => response.destroy())
    })
  }

async function take(changes: AsyncIterable<FeedEntry>, count: number): Promise<string[]> {
  const seen: string[] = []
  for await (const { position } of changes) {
    seen.push(position)
    if (seen.length === count) break
  }
  return seen
}

it('size returns the number of blocks from the start of the change feed, 0 for an empty chain', async () => {
  const node = await fakeNode(
    SERVER_ID,
    events('id: 41.3\n\n', true),
    events('id: start\n\n', true),
    events(': only a heartbeat\n\n'),
  )
  const ledger = new LedgerClient(node.url, { retries: 0 })
  expect([await ledger.size(), await ledger.size()]).toEqual([42, 0])
  await expect(ledger.size()).rejects.toMatchObject({ name: 'ClientError' })
})

describe('changes', () => {
  it('changes arrive once each and in order, over as many connections as needed', async () => {
    const node = await fakeNode(
      SERVER_ID,
      events(
        `retry: 2000\nid: 0.0\n:\n\n${event('1.0')}${event('1.1')}${event('2.0').slice(0, -1)}`,
      ),
      broken,
      json(503, { status: false, code: 'WRITER_STOPPED', message: 'closing' }),
      events(`:\n\n${event('2.0')}`),
      events(event('2.1'), true),
    )
    const timing = noted()
    const ledger = new LedgerClient(node.url, { timing, token: 't' })
    const changes = ledger.changes({ since: 'start', databases: ['a b', 'c'] })
    expect(await take(changes, 4)).toEqual(['1.0', '1.1', '2.0', '2.1'])
    const [, ...laterRequests] = node.requests
    expect(laterRequests.map(({ headers }: Arrived) => headers['last-event-id'])).toEqual([
      ...[undefined, '1.1', '1.1', '1.1', '2.0'],
    ])
    expect(new Set(laterRequests.map(({ path }) => path))).toEqual(
      new Set(['/api/ledgers/7/changes?db=a%20b&db=c&since=start']),
    )
    expect(laterRequests[0]?.headers.authorization).toBe('Bearer t')
  })

  it('changes are requested again after each disconnect, with delays that grow to five seconds until an event arrives', async () => {
    const empty = events(':\n\n')
    const node = await fakeNode(SERVER_ID, ...Array(9).fill(empty), events(event('1.0'), true))
    const timing = noted()
    await take(new LedgerClient(node.url, { timing }).changes(), 1)
    expect(timing.waits).toEqual([100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000])
  })

  it('changes resume after the last received position, even if it came without an event', async () => {
    const node = await fakeNode(SERVER_ID, events('id: 9.3\n:\n\n'), events(event('10.0'), true))
    await take(new LedgerClient(node.url, { timing: noted() }).changes(), 1)
    expect(node.requests[2]?.headers['last-event-id']).toBe('9.3')
  })

  it('changes end when the signal aborts, even while no event arrives', async () => {
    const node = await fakeNode(SERVER_ID, events(event('1.0'), true))
    const controller = new AbortController()
    const changes = new LedgerClient(node.url).changes({ signal: controller.signal })
    expect((await changes.next()).value?.position).toBe('1.0')
    const next = changes.next()
    controller.abort(new Error('enough'))
    await expect(next).rejects.toThrow('enough')
  })

  it('changes reject with the error of the node if another attempt cannot succeed', async () => {
    const rejected = json(401, { status: false, code: 'TOKEN_INVALID', message: 'no longer' })
    const node = await fakeNode(SERVER_ID, events(event('1.0')), rejected)
    const changes = new LedgerClient(node.url, { timing: noted() }).changes()
    await changes.next()
    await expect(changes.next()).rejects.toMatchObject({ code: 'TOKEN_INVALID', status: 401 })
  })

  it('changes reject if a proxy answers with an HTML page', async () => {
    const node = await fakeNode(SERVER_ID, (response) => {
      response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Sign in</h1>')
    })
    const changes = new LedgerClient(node.url, { timing: noted() }).changes()
    await expect(changes.next()).rejects.toMatchObject({ code: 'REPLY_MALFORMED', status: 200 })
  })

  it('changes close the connection when the caller leaves the loop', async () => {
    let closed: () => void = () => {}
    const isClosed = new Promise<void>((resolve) => {
      closed = resolve
    })
    const node = await fakeNode(SERVER_ID, (response) => {
      response.once('close', closed)
      events(event('1.0'), true)(response)
    })
    await take(new LedgerClient(node.url).changes(), 1)
    await isClosed
  })
})

it('the event parser rejects an event that is longer than any entry can be', async () => {
  const line = Buffer.from(`data: ${'x'.repeat(1024 * 1024)}\n`)
  async function* endless() {
    for (;;) yield line
  }
  await expect(collected(parseEvents(endless()))).rejects.toMatchObject({ code: 'REPLY_MALFORMED' })
})

it('the event parser returns the same events for any division into chunks and any line endings', async () => {
  const text = fc.stringMatching(/^[a-z台 :]{0,12}$/)
  const sent = fc.array(
    fc.record({
      id: fc.option(fc.stringMatching(/^\d\.\d$/), { nil: undefined }),
      data: fc.array(text, { minLength: 1, maxLength: 3 }),
    }),
  )
  await fc.assert(
    fc.asyncProperty(
      sent,
      fc.array(fc.nat(40)),
      fc.constantFrom('\n', '\r\n', '\r'),
      async (list, cuts, end) => {
        const lines = list.flatMap(({ id, data }) => [
          ...(id === undefined ? [] : [`id: ${id}`]),
          ':comment',
          ...data.map((line) => `data: ${line}`),
          '',
        ])
        const bytes = Buffer.from(lines.map((line) => line + end).join(''))
        async function* pieces() {
          let at = 0
          for (const cut of cuts) {
            yield bytes.subarray(at, at + cut)
            at += cut
          }
          yield bytes.subarray(at)
          // A CR at the end could be the first half of CR LF, so the parser needs one more byte.
          yield Buffer.from(':')
        }
        let id = ''
        const expected = list.map((each) => {
          id = each.id ?? id
          return { id, data: each.data.join('\n') }
        })
        expect(await collected(parseEvents(pieces()))).toEqual(expected)
      },
    ),
  )
})
