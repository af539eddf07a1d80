// Tests results that combine several reads of a store if another process commits between two of these reads. On a
// database server, each read is a statement of its own and sees the newest commit.
import { text } from 'node:stream/consumers'
import { expect, it, onTestFinished } from 'vitest'
import {
  HandClock,
  type LedgerNode,
  startLedgerNode,
  temporaryFolder,
} from '../../../test/support/ledger-node.ts'
import { packPosition } from '../../chain/index.ts'
import { openStoreReader, type StoreReader } from '../../storage/index.ts'
import { idListReply } from '../api/replies.ts'
import { ItemHistory } from './item-history.ts'
import { LedgerReads } from './reads.ts'

type Change = (send: LedgerNode['send']) => Promise<unknown>

const createAgain: Change = async (send) => {
  await send('DELETE', '/api/fruit')
  await send('POST', '/api/fruit')
  await send('POST', '/api/fruit', { id: 'fig' })
}

/** A ledger with the items `fig` and `plum` of database `fruit`, to which `change` is made after the first read. */
async function ledgerWithCommit(change: Change = createAgain) {
  const folder = temporaryFolder()
  const node = await startLedgerNode({ folder })
  await node.send('POST', '/api/fruit')
  await node.send('POST', '/api/fruit', [{ id: 'fig' }, { id: 'plum' }])
  const reader = await openStoreReader(folder, { frozen: false })
  onTestFinished(async () => {
    await reader.close()
    await node.close()
  })
  const commit = async () => {
    await change(node.send)
    reader.refresh()
  }
  let isCommitted = false
  const shared = new Proxy(reader, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name)
      if (typeof member !== 'function') return member
      return async (...args: unknown[]) => {
        const result: unknown = await member.apply(target, args)
        if (!isCommitted) {
          isCommitted = true
          await commit()
        }
        return result
      }
    },
  })
  const store = shared as StoreReader
  return { read: new LedgerReads(store, new HandClock()), history: new ItemHistory(store) }
}

const { signal } = new AbortController()

it('returns an item as of a block even if its database is deleted and created again during the read', async () => {
  const { history } = await ledgerWithCommit()
  const asOf = { height: 1, before: packPosition(2, 0) }
  expect((await history.itemAt('fruit', 'fig', asOf))?.text).toBe('{"id":"fig"}')
})

it('returns `consistent: false` if the database is deleted and created again during an aggregation', async () => {
  const { read } = await ledgerWithCommit()
  const query = { where: null, group: [], functions: [] }
  expect(await read.aggregate('fruit', query, signal)).toMatchObject({
    height: 1,
    consistent: false,
  })
})

it('returns `consistent: false` if a block was added during an aggregation', async () => {
  const { read } = await ledgerWithCommit((send) => send('POST', '/api/nuts'))
  const query = { where: null, group: [], functions: [] }
  const groups = [{ group: {}, count: 2 }]
  const result = { groups, height: 1, consistent: false }
  expect(await read.aggregate('fruit', query, signal)).toEqual(result)
  const next = { groups, height: 2, consistent: true }
  expect(await read.aggregate('fruit', query, signal)).toEqual(next)
})

it('rejects a list that starts after an item of an earlier database of the same name', async () => {
  const { read } = await ledgerWithCommit()
  const range = { limit: 0, offset: 0, after: 'fig' }
  await expect(read.ids('fruit', range)).rejects.toMatchObject({ code: 'ITEM_NOT_FOUND' })
})

it('returns no count lower than the number of listed and skipped items, even if items were deleted after the list was read', async () => {
  async function* pages() {
    yield [
      { id: 'a', created: 1 },
      { id: 'b', created: 16_384 },
    ]
  }
  const shown = (count: number, offset: number) =>
    text(idListReply(pages(), { limit: 2, offset, count }))
  expect(await shown(1, 0)).toBe('{"status":true,"items":["a","b"],"limit":2,"offset":0,"count":2}')
  expect(await shown(3, 4)).toContain('"count":6}')
  expect(await shown(9, 4)).toContain('"count":9}')
})
