import { expect, it } from 'vitest'
import { turn } from './turn.ts'

/** Waits until nobody has an iteration, even after a piece that took long because the computer was busy. */
async function rest(): Promise<void> {
  for (let iteration = 0; iteration < 20; iteration += 1) await new Promise(setImmediate)
}

it('serves one caller per event-loop iteration, and every second one for the first piece of a request', async () => {
  const order: string[] = []
  const take = async (name: string, isBeginning: boolean) => {
    await turn(isBeginning)
    order.push(name)
  }
  const taken = [
    ...['long 1', 'long 2', 'long 3'].map((name) => take(name, false)),
    ...['first 1', 'first 2'].map((name) => take(name, true)),
  ]
  const counts: number[] = []
  for (let iteration = 0; iteration < 5; iteration += 1) {
    await new Promise(setImmediate)
    counts.push(order.length)
  }
  await Promise.all(taken)
  expect(order).toEqual(['first 1', 'long 1', 'first 2', 'long 2', 'long 3'])
  expect(counts.every((count, at) => count <= at + 1)).toBe(true)
})

it('serves the first piece of a request at once if no other work is waiting', async () => {
  await rest()
  const order: string[] = []
  setImmediate(() => order.push('next iteration'))
  await turn(true)
  order.push('first')
  await turn(true)
  order.push('second')
  expect(order).toEqual(['first', 'next iteration', 'second'])
})

it('gives nobody the iterations after a long piece, in which a listener accepts connections', async () => {
  await rest()
  const first = turn()
  let isNext = false
  const second = turn().then(() => {
    isNext = true
  })
  await first
  for (const until = performance.now() + 10; performance.now() < until; );
  for (let iteration = 0; iteration < 4; iteration += 1) await new Promise(setImmediate)
  expect(isNext).toBe(false)
  await second
})

function processorMs(): number {
  const { user, system } = process.threadCpuUsage?.() ?? process.cpuUsage()
  return (user + system) / 1_000
}

it('serves the first piece of a request without waiting for requests of a kind whose first piece was long', async () => {
  await rest()
  const order: string[] = []
  const take = async (kind: string, name: string) => {
    await turn(kind)
    order.push(name)
    for (const until = processorMs() + (kind === 'long' ? 30 : 0); processorMs() < until; );
  }
  const taken = [1, 2, 3].map((n) => take('long', `long ${n}`))
  await Promise.all([...taken, take('short', 'short')])
  expect(order).toEqual(['long 1', 'short', 'long 2', 'long 3'])
})
