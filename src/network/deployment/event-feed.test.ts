import { expect, it } from 'vitest'
import { systemType } from '../model/system.ts'
import type { RecordedChanges, ResourceChange, ResourceDatabase } from '../resources/database.ts'
import { type EmittedEvents, EventFeed } from './event-feed.ts'

const event = (n: number) => ({ $class: 'org.test.Moved', eventId: `e${n}`, n })
const record = (kind: 'create' | 'update', type: string, ...numbers: number[]): ResourceChange => ({
  kind,
  target: { type, id: 'x' },
  resource: { eventsEmitted: numbers.map(event) },
})
const HISTORIAN = systemType('HistorianRecord')

/** A feed of blocks with `changes`, read two at a time. */
function feedOf(...changes: ResourceChange[][]): EventFeed {
  const database = {
    async changesAt(from: number): Promise<{ blocks: RecordedChanges[]; next: number }> {
      const page = changes.slice(from, from + 2)
      const none = { deployed: null, removed: false }
      const blocks = page.map((list, at) => ({ height: from + at, changes: list, ...none }))
      return { blocks, next: from + page.length }
    },
  }
  // The feed reads nothing else of it.
  return new EventFeed(database as ResourceDatabase)
}

/** All recorded events from `height` on. */
async function since(feed: EventFeed, height: number): Promise<[number, string[]][]> {
  const { emitted, next } = await feed.recordedAt(height)
  const found = emitted.map(({ height, events }): [number, string[]] => [
    height,
    events.map(({ id }) => id),
  ])
  return next === height ? [] : [...found, ...(await since(feed, next))]
}

it('events of the past are those of new historian records, and nothing that only looks like one', async () => {
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

it('listeners receive the events of each block until they leave, and no empty block', () => {
  const feed = feedOf()
  const told: EmittedEvents[] = []
  const leave = feed.listen((emitted) => told.push(emitted))
  feed.publish(4, [])
  feed.publish(5, [event(1)])
  leave()
  feed.publish(6, [event(2)])
  const text = '{"$class":"org.test.Moved","eventId":"e1","n":1}'
  const emitted = { type: 'org.test.Moved', id: 'e1', content: event(1), text }
  expect(told).toEqual([{ height: 5, events: [emitted] }])
})
