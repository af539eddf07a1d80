import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { storePathIn } from '../folder.ts'
import { openSqliteReader } from '../sqlite/reader.ts'
import type { StoreReader } from '../store.ts'
import { ChainWalk, damageAsFinding, damageOf, metAsPlain } from './chain-walk.ts'
import type { PlainBlock } from './plain-block.ts'
import type { FileToCheck, RangeToWalk, RangeWalked, WalkerStart } from './walk-threads.ts'

// The program of a thread that recomputes ranges of a chain for a verification, and meets the rows of
// plain blocks while it has them at hand.

async function walked(store: StoreReader, { from, to }: RangeToWalk): Promise<RangeWalked> {
  const plain: (PlainBlock | null)[] = []
  const start = await damageAsFinding(from, async () => ({
    walk: await ChainWalk.from(store, from),
  }))
  if ('finding' in start) return { from, plain, finding: start.finding }
  const { walk } = start
  for (;;) {
    const { blocks, finding } = await walk.next(to)
    for (const block of blocks) plain.push(await metAsPlain(block, store))
    const holds = walk.frontier.size
    if (finding !== null || holds === to) return { from, plain, finding }
    if (blocks.length > 0) continue
    return { from, plain, finding: { height: holds, index: null, what: 'the block is missing' } }
  }
}

function serve({ folder }: WalkerStart, port: MessagePort): void {
  const store = openSqliteReader(storePathIn(folder), true)
  port.on('message', (task: RangeToWalk | FileToCheck) => {
    const done = 'ofBlocks' in task ? damageOf(store, task.ofBlocks) : walked(store, task)
    void done.then((result) => port.postMessage(result))
  })
}

if (parentPort !== null) serve(workerData as WalkerStart, parentPort)
