import { EventEmitter } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { afterEach, expect, it, vi } from 'vitest'
import { arrivingBody, isUnhurried } from './arriving-body.ts'

afterEach(() => vi.useRealTimers())

/** A request of which the test plays the client. */
class PlayedRequest extends EventEmitter {
  readonly socket = new EventEmitter()
  isFlowing = true
  readableEnded = false
  destroyed = false

  pause(): this {
    this.isFlowing = false
    return this
  }

  resume(): this {
    this.isFlowing = true
    return this
  }
}

const PACE = { windowMs: 1_000, bytesMin: 10 }
function reading(request = new PlayedRequest()) {
  const body = arrivingBody(request as unknown as IncomingMessage, PACE)
  return { request, body }
}
const BROKEN = { code: 'BODY_INCOMPLETE' }

it('a body comes piece by piece as it is asked for, and stands still in between', async () => {
  const { request, body } = reading()
  const first = body.next()
  expect(request.isFlowing).toBe(true)
  expect(isUnhurried(request.socket as never)).toBe(true)
  request.emit('data', Buffer.from('one'))
  expect(await first).toEqual({ done: false, value: Buffer.from('one') })
  expect(request.isFlowing).toBe(false)
  const second = body.next()
  expect(request.isFlowing).toBe(true)
  request.emit('end')
  request.emit('close')
  expect(await second).toEqual({ done: true, value: undefined })
  expect(isUnhurried(request.socket as never)).toBe(false)
})

it.each(['close', 'error'])(
  'a reader who waits is told when the body breaks off by %s',
  async (how) => {
    const { request, body } = reading()
    const piece = body.next()
    request.emit(how, new Error('reset'))
    await expect(piece).rejects.toMatchObject(BROKEN)
    expect(isUnhurried(request.socket as never)).toBe(false)
  },
)

it('of what is over already the reader is told at once', async () => {
  const ended = Object.assign(new PlayedRequest(), { readableEnded: true })
  expect(await reading(ended).body.next()).toEqual({ done: true, value: undefined })
  const gone = Object.assign(new PlayedRequest(), { destroyed: true })
  await expect(reading(gone).body.next()).rejects.toMatchObject(BROKEN)
})

it('a client that is waited for and sends too little is given up; one that waits for the reader is not', async () => {
  vi.useFakeTimers()
  const { request, body } = reading()
  const first = body.next()
  request.emit('data', Buffer.alloc(10))
  await first
  // The reader takes its time: nobody asks for more.
  vi.advanceTimersByTime(10_000)
  const second = body.next()
  vi.advanceTimersByTime(1_000)
  request.emit('data', Buffer.alloc(10))
  expect((await second).value?.length).toBe(10)
  const third = body.next()
  vi.advanceTimersByTime(1_000)
  request.emit('data', Buffer.alloc(9))
  expect((await third).value?.length).toBe(9)
  const last = body.next()
  const told = expect(last).rejects.toMatchObject({ code: 'REQUEST_TIMEOUT' })
  vi.advanceTimersByTime(1_000)
  await told
})

it('who stops reading leaves the rest where it is', async () => {
  const { request, body } = reading()
  const piece = body.next()
  request.emit('data', Buffer.from('one'))
  await piece
  request.resume()
  await body.return(undefined)
  expect([request.isFlowing, request.listenerCount('data')]).toEqual([false, 0])
})
