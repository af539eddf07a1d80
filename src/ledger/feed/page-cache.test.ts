import { expect, it } from 'vitest'
import type { StoreReader } from '../../storage/index.ts'
import { PageCache } from './page-cache.ts'

it('does not cache a page or its chunks if an erasure cleared the cache while the page was read', async () => {
  let entry = '{"db":"a","item":{"id":"x","secret":1}}'
  let onRead = () => {}
  const store = {
    serverId: 1,
    blocks: async (_: number, height: number) => {
      const block = { height, entries: [entry], timestamps: [1] }
      onRead()
      return [block]
    },
  }
  // `store` has only the members that PageCache uses.
  const cache = new PageCache(store as unknown as StoreReader, 1_000_000)
  onRead = () => {
    entry = '{"db":"a","item":{"id":"x"}}'
    cache.clear()
  }
  const before = await cache.page(0, 1)
  expect(cache.chunk(before, 0, null).bytes.toString()).toContain('secret')
  onRead = () => {}
  expect(cache.cached(0)).toBeUndefined()
  const after = await cache.page(0, 1)
  expect(cache.chunk(after, 0, null).bytes.toString()).not.toContain('secret')
  expect(cache.chunk(after, 0, null)).toBe(cache.chunk(after, 0, null))
})
