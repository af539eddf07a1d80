import { expect, it } from 'vitest'
import {
  type FromWriter,
  packReply,
  packRequest,
  type ToWriter,
  unpackReply,
  unpackRequest,
} from './messages.ts'

const made = (id: string) =>
  ({ kind: 'create_item', db: 'd', id, text: `{"id":"${id}"}`, assigned: id === 'a' }) as const
const by = { sub: 'ann' }

it.each<ToWriter>([
  { units: [[made('a')], [made('b')]], nowMs: 5 },
  { units: [], nowMs: 5 },
  {
    units: [[made('a'), made('b')], [made('c')], [{ kind: 'delete_item', db: 'd', id: 'a' }]],
    nowMs: 5,
  },
  {
    units: [[{ ...made('a'), by }], [{ ...made('b'), reason: 'asked for' }], [made('c')]],
    nowMs: 5,
  },
  {
    units: [[made('a')]],
    nowMs: 5,
    conditions: new Map([[0, { precondition: null, idempotency: null }]]),
  },
  { seen: { height: 1, id: 'x' } },
  { close: true },
])('a request to the writer thread arrives as it was sent: %j', (message) => {
  expect(unpackRequest(structuredClone(packRequest(message)))).toEqual(message)
})

const block = { height: 3, id: 'x', entries: 2, bytes: 9, ms: 0.5 }
it.each<FromWriter>([
  { block, outcomes: [{ index: 0 }, { index: 1 }] },
  {
    block,
    outcomes: [
      { index: 0, freed: ['h'] },
      { code: 'ITEM_EXISTS', message: 'it exists' },
    ],
  },
  { block, outcomes: [{ position: 7, entries: 1 }, { index: 0 }] },
  { block: null, outcomes: [{ code: 'ITEM_EXISTS', message: 'it exists' }] },
  { refused: 'STORE_FULL', reason: 'full', stopped: false, unknown: false },
  { ready: true },
])('a reply of the writer thread arrives as it was sent: %j', (message) => {
  expect(unpackReply(structuredClone(packReply(message)))).toEqual(message)
})
