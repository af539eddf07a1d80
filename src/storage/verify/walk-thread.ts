import { serveThread, type ThreadPort } from '../../base/worker/worker.ts'
import type { StoreLocation } from '../location/location.ts'
import { openStoreReader } from '../open.ts'
import type { StoreReader } from '../port/store.ts'
import {
  ChainWalk,
  damageAsFinding,
  findDamage,
  type PlainBlock,
  undamagedPlainBlock,
} from './chain-walk.ts'
import type { FileResult, FileTask, RangeResult, RangeTask } from './walk-threads.ts'

// Thread that recomputes ranges of a chain for a verification, and compares the rows of plain blocks.

async function walkRange(store: StoreReader, { from, to }: RangeTask): Promise<RangeResult> {
  const plain: (PlainBlock | null)[] = []
  const { finding } = await damageAsFinding(
    () => from + plain.length,
    async () => {
      const walk = await ChainWalk.from(store, from)
      for (;;) {
        const { blocks, finding } = await walk.next(to)
        for (const block of blocks) plain.push(await undamagedPlainBlock(block, store))
        const { size } = walk.frontier
        if (finding !== null || size === to) return { finding }
        if (blocks.length > 0) continue
        return { finding: { height: size, index: null, what: 'the block is missing' } }
      }
    },
  )
  return { from, plain, finding }
}

async function serve(
  location: StoreLocation,
  port: ThreadPort<RangeTask | FileTask, RangeResult | FileResult>,
): Promise<void> {
  const store = await openStoreReader(location, { frozen: true })
  port.on('message', (task) => {
    const result = 'ofBlocks' in task ? findDamage(store, task.ofBlocks) : walkRange(store, task)
    void result.then((message) => port.postMessage(message))
  })
}

await serveThread(serve)
