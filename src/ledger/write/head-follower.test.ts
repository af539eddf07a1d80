import { expect, it } from 'vitest'
import { packPosition } from '../../chain/index.ts'
import type { StoreReader } from '../../storage/index.ts'
import { HeadFollower, type NewBlocks } from './head-follower.ts'

const nextIteration = () => new Promise((resolve) => setImmediate(resolve))

/** Creates a HeadFollower of a chain with two blocks of two entries each. */
function following() {
  const chain = {
    height: 1,
    entries: 2,
    isUnavailable: false,
    ids: (height: number) => `id ${height}`,
  }
  const reader = {
    serverId: 7,
    refresh() {},
    async head() {
      if (chain.isUnavailable) throw new Error('no connection')
      return { height: chain.height, id: chain.ids(chain.height), timestamp: 1 }
    },
    headers: async (_: number, from: number) => [{ prevId: chain.ids(from - 1) }],
    countEntries: async () => chain.entries,
  }
  const reported: NewBlocks[] = []
  // `reader` has only the members that HeadFollower uses.
  const store = reader as unknown as StoreReader
  const lost: string[] = []
  const follower = new HeadFollower(store, 2, {
    seen() {},
    lost: (message) => lost.push(message),
  })
  follower.listen((blocks) => reported.push(blocks))
  let next = () => {}
  follower.poll({
    after(_, run) {
      next = run
      return () => {
        next = () => {}
      }
    },
  })
  const poll = async () => {
    next()
    await nextIteration()
  }
  return { chain, reported, lost, follower, poll }
}

it('reports each block of another process once, in order', async () => {
  const { chain, reported, poll } = following()
  await poll()
  expect(reported).toEqual([])
  chain.height = 4
  await poll()
  await poll()
  expect(reported).toEqual([{ from: 2, last: packPosition(4, 1), isOwn: false }])
})

it('reports a block of this process when it is committed, after all earlier blocks of other processes', async () => {
  const { chain, reported, follower, poll } = following()
  follower.committed(packPosition(2, 0))
  chain.height = 4
  follower.committed(packPosition(4, 0))
  await poll()
  expect(reported).toEqual([
    { from: 2, last: packPosition(2, 0), isOwn: true },
    { from: 3, last: packPosition(4, 0), isOwn: false },
  ])
})

it('does not report a block of this process twice when a poll finds it first', async () => {
  const { chain, reported, follower, poll } = following()
  chain.height = 2
  await poll()
  follower.committed(packPosition(2, 1))
  expect(reported).toEqual([{ from: 2, last: packPosition(2, 1), isOwn: false }])
})

it('continues after a failed poll, and reports nothing after `close`', async () => {
  const { chain, reported, follower, poll } = following()
  Object.assign(chain, { height: 2, isUnavailable: true })
  await poll()
  chain.isUnavailable = false
  await poll()
  expect(reported).toHaveLength(1)
  await follower.close()
  chain.height = 3
  await poll()
  follower.committed(packPosition(3, 0))
  expect(reported).toHaveLength(1)
})

it.each([
  ['2 was stored, but is missing', 1, (height: number) => `id ${height}`],
  ['2 (id 2…) was stored, but differs', 2, (height: number) => `other ${height}`],
  ['2 (id 2…) was stored, but differs', 5, (height: number) => `other ${height}`],
])(
  'reports once, after 50 polls, that block %s, and reports no later blocks',
  async (what, height, ids) => {
    const { chain, reported, lost, poll } = following()
    chain.height = 2
    await poll()
    Object.assign(chain, { height, ids })
    for (let n = 0; n < 49; n += 1) await poll()
    expect(lost).toEqual([])
    for (let n = 0; n < 9; n += 1) await poll()
    expect(lost).toEqual([`block ${what} in the database`])
    expect(reported).toHaveLength(1)
  },
)

it('reports a missing block of this process even if no poll has read it before', async () => {
  const { chain, lost, follower, poll } = following()
  chain.height = 2
  follower.committed(packPosition(2, 1))
  chain.height = 1
  for (let n = 0; n < 50; n += 1) await poll()
  expect(lost).toEqual(['block 2 was stored, but is missing in the database'])
})

it('continues after a block was missing only briefly', async () => {
  const { chain, reported, lost, poll } = following()
  for (let height = 2; height < 5; height += 1) {
    chain.height = height
    await poll()
    chain.height = 1
    for (let n = 0; n < 49; n += 1) await poll()
  }
  expect([lost, reported.length]).toEqual([[], 3])
})

it('reports no block that was lost between the reads of the head and of its entries', async () => {
  const { chain, reported, poll } = following()
  chain.height = 3
  chain.entries = 0
  await poll()
  expect(reported).toEqual([])
  chain.entries = 2
  await poll()
  expect(reported).toEqual([{ from: 2, last: packPosition(3, 1), isOwn: false }])
})
