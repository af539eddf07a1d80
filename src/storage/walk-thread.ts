import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { ChainWalk, damageAsFinding } from './chain-walk.ts'
import { openStoreReader } from './open.ts'
import type { StoreReader } from './store.ts'
import type { RangeToWalk, RangeWalked, WalkerStart } from './walk-threads.ts'

// The program of a thread that recomputes ranges of a chain for a verification.

async function walked(store: StoreReader, { from, to }: RangeToWalk): Promise<RangeWalked> {
  const start = await damageAsFinding(from, async () => ({
    walk: await ChainWalk.from(store, from),
  }))
  if ('finding' in start) return { from, holds: from, finding: start.finding }
  const { walk } = start
  for (;;) {
    const { blocks, finding } = await walk.next(to)
    const holds = walk.frontier.size
    if (finding !== null || holds === to) return { from, holds, finding }
    if (blocks.length > 0) continue
    return { from, holds, finding: { height: holds, index: null, what: 'the block is missing' } }
  }
}

function serve({ folder }: WalkerStart, port: MessagePort): void {
  const store = openStoreReader(folder, { frozen: true })
  port.on('message', (range: RangeToWalk) => {
    void walked(store, range).then((done) => port.postMessage(done))
  })
}

if (parentPort !== null) serve(workerData as WalkerStart, parentPort)
