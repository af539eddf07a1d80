import { expect, it } from 'vitest'
import { Seats } from './seats.ts'

const forever = () => new AbortController().signal
const LONG_MS = 60_000

it('seats come in the order they were asked for', async () => {
  const seats = new Seats(1, 2, LONG_MS)
  await seats.take(forever())
  const order: string[] = []
  const first = seats.take(forever()).then(() => order.push('first'))
  const second = seats.take(forever()).then(() => order.push('second'))
  seats.release()
  await first
  expect(order).toEqual(['first'])
  seats.release()
  await second
  expect(order).toEqual(['first', 'second'])
})

it('one more than the queue holds is refused at once', async () => {
  const seats = new Seats(1, 1, LONG_MS)
  await seats.take(forever())
  const waiting = seats.take(forever())
  await expect(seats.take(forever())).rejects.toMatchObject({ code: 'BUSY' })
  seats.release()
  await waiting
})

it('whoever leaves the queue makes room in it, and gets no seat', async () => {
  const seats = new Seats(1, 1, LONG_MS)
  await seats.take(forever())
  const leaving = new AbortController()
  const left = seats.take(leaving.signal)
  leaving.abort(new Error('left'))
  await expect(left).rejects.toThrow('left')
  const waiting = seats.take(forever())
  seats.release()
  await waiting
  await expect(seats.take(AbortSignal.abort(new Error('gone')))).rejects.toThrow('gone')
})

it('a queue that does not move is left', async () => {
  const seats = new Seats(1, 1, 1)
  await seats.take(forever())
  await expect(seats.take(forever())).rejects.toMatchObject({ code: 'BUSY' })
  expect(seats.waiting).toBe(0)
})
