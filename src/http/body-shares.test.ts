import { EventEmitter } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { expect, it } from 'vitest'
import { BodyShares, OVERDUE } from './body-shares.ts'

let nowMs = 0
const clock = { now: () => nowMs }

/** A request with the properties that shares use. `ended` lists the ended requests by number. */
function requests(shares: BodyShares) {
  const ended: number[] = []
  let count = 0
  const open = (ip: string, amount: number) => {
    const at = count++
    const socket = { bytesRead: 0 }
    const states = { socket, complete: false, paused: false, isPaused: () => states.paused }
    const raw = Object.assign(new EventEmitter(), states, { isPaused: () => states.paused })
    raw.on(OVERDUE, () => ended.push(at))
    const response = new EventEmitter()
    const request = { ip, raw: raw as unknown as IncomingMessage }
    const grow = shares.open(request, response as unknown as Parameters<BodyShares['open']>[1])
    return { raw, states, grow, isAdmitted: grow(amount), close: () => response.emit('close') }
  }
  return { open, ended }
}

it('ends a body that has arrived for 10 s with less than 32 bytes per millisecond if another body needs its share', () => {
  nowMs = 0
  const { open, ended } = requests(new BodyShares(3, clock))
  const complete = open('a', 1)
  complete.raw.complete = true
  const quick = open('a', 1)
  const slow = open('a', 1)
  nowMs = 10_000
  expect([open('a', 1).isAdmitted, ended]).toEqual([false, []])
  nowMs = 10_001
  quick.raw.socket.bytesRead = 32 * 10_001
  slow.raw.socket.bytesRead = 32 * 10_001 - 1
  // Its reader is slow, not its client.
  slow.states.paused = true
  expect(open('a', 1).isAdmitted).toBe(false)
  slow.states.paused = false
  expect([open('a', 1).isAdmitted, open('a', 1).isAdmitted, ended]).toEqual([true, false, [2]])
  expect(slow.grow(1)).toBe(false)
  complete.close()
  slow.close()
  expect([open('a', 1).isAdmitted, open('a', 1).isAdmitted]).toEqual([true, false])
})

it('ends the oldest incomplete body of a client with more than half of all shares for another client, but not for its own next body', () => {
  nowMs = 0
  const { open, ended } = requests(new BodyShares(5, clock))
  const [first] = ['a', 'b', 'a', 'a', 'b'].map((ip) => open(ip, 1))
  if (first !== undefined) first.raw.complete = true
  expect([open('a', 1).isAdmitted, ended]).toEqual([false, []])
  expect([open('c', 1).isAdmitted, ended]).toEqual([true, [2]])
  // `a` has no more than half of the shares now.
  expect([open('c', 1).isAdmitted, ended]).toEqual([false, [2]])
})
