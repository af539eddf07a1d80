// Tests the delays between two syncs with a peer. The tests control the timers.

import { generateKeyPairSync } from 'node:crypto'
import { EventEmitter } from 'node:events'
import { expect, it, onTestFinished } from 'vitest'
import {
  type LedgerNode,
  startLedgerNode,
  temporaryFolder,
} from '../../../test/support/ledger-node.ts'
import type { ThreadPort } from '../../base/worker/worker.ts'
import { systemPlatform } from '../platform.ts'
import { serveMirrors } from './thread.ts'

const INTERVAL_MS = 500

async function signed({ service }: LedgerNode): Promise<void> {
  const { blocks } = await service.read.chainSize()
  await service.log.consistency(0, blocks)
}

/**
 * Starts to mirror `source`. Returns `first`, the delay after the first sync, and `round`, which runs one sync and
 * returns the delay after it.
 */
async function startMirroring(source: LedgerNode) {
  const folder = temporaryFolder()
  const own = await startLedgerNode({ folder })
  onTestFinished(() => own.close())
  await own.send('POST', '/api/own')
  const urls: string[] = []
  let next: () => void = () => {}
  let onScheduled: (ms: number) => void = () => {}
  const platform = {
    ...systemPlatform,
    schedule: {
      after(ms: number, work: () => void) {
        next = work
        onScheduled(ms)
        return () => {}
      },
    },
    outbound: {
      ...systemPlatform.outbound,
      get: (...parameters: Parameters<typeof systemPlatform.outbound.get>) => {
        urls.push(parameters[0].pathname)
        return systemPlatform.outbound.get(...parameters)
      },
    },
  }
  const inner = new EventEmitter()
  const port = { postMessage: () => {}, on: inner.on.bind(inner), close: () => {} }
  const start = {
    folder,
    location: folder,
    durable: false,
    ownKey: own.service.log.verifierKey,
    privateKey: generateKeyPairSync('ed25519').privateKey,
    allowPrivate: true,
    intervalMs: INTERVAL_MS,
    blobBytesMax: 1_024,
  }
  let ended: () => void = () => {}
  // `port` has only the members that `serveMirrors` uses.
  await serveMirrors(start, port as unknown as ThreadPort, platform, () => ended())
  const round = (trigger: () => void): Promise<number> =>
    new Promise((resolve) => {
      onScheduled = resolve
      trigger()
    })
  const { verifierKey: vkey } = source.service.log
  const first = await round(() =>
    inner.emit('message', { kind: 'peers', peers: [{ vkey, url: source.url }] }),
  )
  return {
    first,
    round: () => round(() => next()),
    ownRequests: () => urls.filter((path) => path.includes(`/${own.service.serverId}/`)).length,
    close: () =>
      new Promise<void>((resolve) => {
        ended = resolve
        inner.emit('message', { kind: 'close' })
      }),
  }
}

it('synchronizes again 100 ms after a sync that received blocks, otherwise after the interval', async () => {
  const source = await startLedgerNode({})
  onTestFinished(() => source.close())
  await source.send('POST', '/api/fruit')
  await signed(source)
  const mirror = await startMirroring(source)
  expect(mirror.first).toBe(100)
  expect(await mirror.round()).toBe(INTERVAL_MS)
  expect(await mirror.round()).toBe(INTERVAL_MS)
  await source.send('POST', '/api/fruit', { id: 'plum' })
  await signed(source)
  expect(await mirror.round()).toBe(100)
  expect(await mirror.round()).toBe(INTERVAL_MS)
  await mirror.close()
})

it('requests this node’s own chain from a peer once per interval while blocks keep arriving', async () => {
  const source = await startLedgerNode({})
  onTestFinished(() => source.close())
  await source.send('POST', '/api/fruit')
  await signed(source)
  const mirror = await startMirroring(source)
  const before = mirror.ownRequests()
  for (let n = 0; n < 10; n += 1) {
    await source.send('POST', '/api/fruit', { id: `${n}` })
    await signed(source)
    expect(await mirror.round()).toBe(100)
  }
  expect(mirror.ownRequests() - before).toBe(2)
  await mirror.close()
})
