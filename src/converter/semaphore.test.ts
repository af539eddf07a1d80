import { expect, it } from 'vitest'
import { Semaphore } from './semaphore.ts'

const forever = () => new AbortController().signal
const LONG_MS = 60_000

it('gives permits to callers in the order of their calls', async () => {
  const semaphore = new Semaphore(1, 2, LONG_MS)
  await semaphore.acquire(forever())
  const order: string[] = []
  const first = semaphore.acquire(forever()).then(() => order.push('first'))
  const second = semaphore.acquire(forever()).then(() => order.push('second'))
  semaphore.release()
  await first
  expect(order).toEqual(['first'])
  semaphore.release()
  await second
  expect(order).toEqual(['first', 'second'])
})

it('rejects a caller if the queue is full', async () => {
  const semaphore = new Semaphore(1, 1, LONG_MS)
  await semaphore.acquire(forever())
  const waiting = semaphore.acquire(forever())
  await expect(semaphore.acquire(forever())).rejects.toMatchObject({ code: 'BUSY' })
  semaphore.release()
  await waiting
})

it('removes a caller that aborts from the queue', async () => {
  const semaphore = new Semaphore(1, 1, LONG_MS)
  await semaphore.acquire(forever())
  const leaving = new AbortController()
  const left = semaphore.acquire(leaving.signal)
  leaving.abort(new Error('left'))
  await expect(left).rejects.toThrow('left')
  const waiting = semaphore.acquire(forever())
  semaphore.release()
  await waiting
  await expect(semaphore.acquire(AbortSignal.abort(new Error('gone')))).rejects.toThrow('gone')
})

it('rejects a caller that has waited too long', async () => {
  const semaphore = new Semaphore(1, 1, 1)
  await semaphore.acquire(forever())
  await expect(semaphore.acquire(forever())).rejects.toMatchObject({ code: 'BUSY' })
  expect(semaphore.waiting).toBe(0)
})
