import { expect, it } from 'vitest'
import { canonicalJson } from '../../base/canonical-json.ts'
import type { LedgerReader } from '../../ledger/core.ts'
import { systemType } from '../model/system.ts'
import {
  formatItemId,
  type ResourceChange,
  ResourceDatabase,
  toWrite,
} from '../resources/database.ts'
import { NO_RESOURCES } from '../resources/overlay.ts'
import { type EmittedEvents, EventFeed } from './event-feed.ts'

const event = (n: number) => ({ $class: 'org.test.Moved', eventId: `e${n}`, n })
const record = (kind: 'create' | 'update', type: string, ...numbers: number[]): ResourceChange =>
  toWrite(kind, { type, id: 'x' }, { eventsEmitted: numbers.map(event) })
const HISTORIAN = systemType('HistorianRecord')

/** Returns the text of the entry that records `change`. */
function entryOf(change: ResourceChange, db = 'net'): string {
  const id = formatItemId(change.target)
  const about =
    change.kind === 'delete'
      ? { id, method: 'delete_item' }
      : { item: { id, resource: change.resource }, method: `${change.kind}_item` }
  return canonicalJson({ by: { sub: 'ann' }, db, ...about, serverid: 1 })
}

/** Returns the event feed of a chain; `changes` has one list per block. Each read returns at most two blocks. */
function feedOf(...changes: ResourceChange[][]): EventFeed {
  const ledger = {
    databaseCreated: async () => -1,
    async *blocks(from: number) {
      const others = entryOf(record('create', HISTORIAN, 9), 'network')
      const page = changes.slice(from, from + 2).map((list, at) => ({
        height: from + at,
        entries: [others, ...list.map((change) => entryOf(change))],
      }))
      if (page.length > 0) yield page
    },
  }
  // The feed calls only these functions.
  return new EventFeed(new ResourceDatabase('net', ledger as unknown as LedgerReader, NO_RESOURCES))
}

/** Returns the ids of all events recorded at `height` or later, with the height of their block. */
async function since(feed: EventFeed, height: number): Promise<[number, string[]][]> {
  const { emitted, next } = await feed.readRecorded(height)
  const found = emitted.map(({ height, events }): [number, string[]] => [
    height,
    events.map(({ id }) => id),
  ])
  return next === height ? [] : [...found, ...(await since(feed, next))]
}

it('reads past events only from entries that create a historian record', async () => {
  const feed = feedOf(
    [record('create', HISTORIAN, 1)],
    [record('create', 'org.test.Diary', 7), record('update', HISTORIAN, 8)],
    [{ kind: 'delete', target: { type: HISTORIAN, id: 'x' } }, record('create', HISTORIAN)],
    [record('create', HISTORIAN, 2, 3), record('create', HISTORIAN, 4)],
  )
  expect(await since(feed, 0)).toEqual([
    [0, ['e1']],
    [3, ['e2', 'e3', 'e4']],
  ])
  expect(await since(feed, 1)).toEqual([[3, ['e2', 'e3', 'e4']]])
})

it('passes the events of each block to each listener until the listener stops', () => {
  const feed = feedOf()
  const received: EmittedEvents[] = []
  const stop = feed.listen((emitted) => received.push(emitted))
  feed.publish(4, [])
  const text = '{"$class":"org.test.Moved","eventId":"e1","n":1}'
  feed.publish(5, [{ type: 'org.test.Moved', id: 'e1', text }])
  stop()
  feed.publish(6, [{ type: 'org.test.Moved', id: 'e2', text }])
  const bytes = Buffer.from(text)
  expect(received).toEqual([{ height: 5, events: [{ type: 'org.test.Moved', id: 'e1', bytes }] }])
})

it('sends the events of a block once, even if `follow` receives the block again after a failure', async () => {
  const blocks = [1, 2, 3, 4].map((n) => [record('create', HISTORIAN, n)])
  const feed = feedOf(...blocks)
  const heights: number[] = []
  feed.listen(({ height }) => heights.push(height))
  await feed.follow(0, 2)
  await feed.follow(0, 3)
  expect(heights).toEqual([0, 1, 2, 3])
})
