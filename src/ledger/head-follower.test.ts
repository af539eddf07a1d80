import { expect, it } from 'vitest'
import { packPosition } from '../chain/index.ts'
import type { StoreReader } from '../storage/index.ts'
import { HeadFollower, type NewBlocks } from './head-follower.ts'

const turn = () => new Promise((resolve) => setImmediate(resolve))

/** A HeadFollower of a chain with two blocks of two entries each. */
function following() {
  const chain = { height: 1, isUnavailable: false }
  const reader = {
    serverId: 7,
    refresh() {},
    async head() {
      if (chain.isUnavailable) throw new Error('no connection')
      return { height: chain.height, id: 'x', timestamp: 1 }
    },
    countEntries: async () => 2,
  }
  const reported: NewBlocks[] = []
  // Only the members that HeadFollower uses.
  const store = reader as unknown as StoreReader
  const follower = new HeadFollower(store, 2, (blocks) => reported.push(blocks))
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
    await turn()
  }
  return { chain, reported, follower, poll }
}

it('reports blocks of other processes once, in order', async () => {
  const { chain, reported, poll } = following()
  await poll()
  expect(reported).toEqual([])
  chain.height = 4
  await poll()
  await poll()
  expect(reported).toEqual([{ from: 2, last: packPosition(4, 1), isOwn: false }])
})

it('reports blocks of this process when they are committed, after earlier blocks of other processes', async () => {
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

it('does not report a block of this process again after a poll has reported it', async () => {
  const { chain, reported, follower, poll } = following()
  chain.height = 2
  await poll()
  follower.committed(packPosition(2, 1))
  expect(reported).toEqual([{ from: 2, last: packPosition(2, 1), isOwn: false }])
})

it('continues after the store could not be read, and reports nothing after it was closed', async () => {
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
