import { expect, it } from 'vitest'
import { Semaphore } from './semaphore.ts'

it('gives permits to callers in the order of their calls', async () => {
  const semaphore = new Semaphore(1, 2)
  expect(await semaphore.acquire()).toBe(true)
  const order: string[] = []
  const first = semaphore.acquire().then(() => order.push('first'))
  const second = semaphore.acquire().then(() => order.push('second'))
  semaphore.release()
  await first
  expect(order).toEqual(['first'])
  semaphore.release()
  await second
  expect(order).toEqual(['first', 'second'])
})

it('rejects a caller if the queue is full', async () => {
  const semaphore = new Semaphore(1, 1)
  await semaphore.acquire()
  const waiting = semaphore.acquire()
  expect(await semaphore.acquire()).toBe(false)
  semaphore.release()
  expect(await waiting).toBe(true)
})

it('removes a caller that aborts from the queue', async () => {
  const semaphore = new Semaphore(1, 1)
  await semaphore.acquire()
  const leaving = new AbortController()
  const left = semaphore.acquire(leaving.signal)
  leaving.abort(new Error('left'))
  await expect(left).rejects.toThrow('left')
  const waiting = semaphore.acquire()
  semaphore.release()
  await waiting
  await expect(semaphore.acquire(AbortSignal.abort(new Error('gone')))).rejects.toThrow('gone')
})

it('gives a permit to a caller with another key first, and bounds the callers of each key', async () => {
  const semaphore = new Semaphore(1, 2)
  await semaphore.acquire(undefined, 'many')
  const order: string[] = []
  const take = async (key: string) => {
    if (!(await semaphore.acquire(undefined, key))) return false
    order.push(key)
    semaphore.release()
    return true
  }
  const taken = [take('many'), take('many'), take('one')]
  expect(await take('many')).toBe(false)
  semaphore.release()
  await Promise.all(taken)
  expect(order).toEqual(['one', 'many', 'many'])
})
