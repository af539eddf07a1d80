// Tests that acknowledged changes survive if a thread of the node runs out of memory, and that the rest of the node
// continues.
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { expect, it } from 'vitest'
import { useRealThreads } from '../../../test/support/inline-threads.ts'
import {
  startLedgerNode,
  temporaryFolder,
  verifyFolder,
} from '../../../test/support/ledger-node.ts'
import { PEERS } from '../../../test/support/peers.ts'
import { systemClock } from '../../base/clock.ts'
import { openLedger } from '../node/open.ts'
import { type Platform, systemPlatform } from '../platform.ts'

/** V8 old-generation limits, MB, with which each thread can start, but runs out of memory in these tests. */
const OLD_MB = { 'ledger-writer': 24, 'log-signer': 10, mirrors: 12 }

/** Delay before a failed mirror thread restarts, milliseconds. */
const RESTART_MS = 30_000

useRealThreads()

const KEPT = { id: 'kept', text: '{"id":"kept"}' }

/** Returns a platform on which the thread `name` starts with little memory if `isShort` returns true. */
function shortOf(name: keyof typeof OLD_MB, isShort: () => boolean): Platform {
  return {
    ...systemPlatform,
    startThread: (program, options) => {
      if (options.name !== name || !isShort()) return systemPlatform.startThread(program, options)
      const limits = { ...options.resourceLimits, maxOldGenerationSizeMb: OLD_MB[name] }
      return new Worker(program, { ...options, resourceLimits: limits })
    },
  }
}

const large = (count: number) =>
  Array.from({ length: count }, (_, n) => ({ id: `${n}`, values: new Array(180).fill(`v${n}`) }))

it('when the writer thread runs out of memory, rejects further changes, serves reads, and loses no acknowledged change', async () => {
  const folder = temporaryFolder()
  const options = { folder, clock: systemClock }
  const short = await openLedger({ ...options, platform: shortOf('ledger-writer', () => true) })
  await short.service.write.createDatabase('d')
  await short.service.write.createItems('d', [{ id: 'kept' }])
  const expected = { code: 'WRITER_STOPPED', message: expect.stringContaining('memory') }
  await expect(short.service.write.createItems('d', large(10_000))).rejects.toMatchObject(expected)
  await expect(short.service.write.createItems('d', [{ id: 'later' }])).rejects.toMatchObject(
    expected,
  )
  expect(short.service.writer.failure).toMatchObject(expected)
  expect(await short.service.read.item('d', 'kept')).toMatchObject(KEPT)
  await short.close()

  const again = await openLedger(options)
  await again.service.write.createItems('d', [{ id: 'later' }])
  expect(await again.service.read.item('d', 'kept')).toMatchObject(KEPT)
  await again.close()
  expect(await verifyFolder(folder)).toMatchObject({ items: 2, finding: null })
})

it('when the signing thread runs out of memory, reports the failure to its callers and starts another thread for the next call', async () => {
  const folder = temporaryFolder()
  let isShort = true
  const ledger = await openLedger({
    ...{ folder, clock: systemClock },
    platform: shortOf('log-signer', () => isShort),
  })
  await ledger.service.write.createDatabase('d')
  await ledger.service.write.createItems('d', large(10_000))
  await expect(ledger.service.log.checkpoint()).rejects.toMatchObject({
    code: 'LOG_STOPPED',
    message: expect.stringContaining('memory'),
  })
  await ledger.service.write.createItems('d', [{ id: 'after' }])
  isShort = false
  expect(await ledger.service.log.checkpoint()).toMatch(/^daicho\/\d+\n3\n/)
  await ledger.close()
  expect(await verifyFolder(folder)).toMatchObject({ items: 10_001, finding: null })
})

it('when the mirror thread runs out of memory, the node reports the failure, keeps writing its own chain, and starts another thread', async () => {
  const other = await startLedgerNode()
  await other.service.write.createDatabase('d')
  await other.service.write.createItems('d', large(4_000))
  const folder = temporaryFolder()
  let isShort = true
  let startAgain = () => {}
  const ledger = await openLedger({
    ...{ folder, clock: systemClock },
    platform: {
      ...shortOf('mirrors', () => isShort),
      schedule: {
        after(ms, run) {
          if (ms < RESTART_MS) return systemPlatform.schedule.after(ms, run)
          startAgain = run
          return () => {}
        },
      },
    },
    peers: { ...PEERS, fixed: [{ vkey: other.service.log.verifierKey, url: other.url }] },
  })
  const peer = () => ledger.service.mirrors.peers()[0]
  await expect
    .poll(() => peer()?.error)
    .toMatchObject({ code: 'MIRROR_FAILED', message: expect.stringContaining('memory') })
  await ledger.service.write.createDatabase('own')
  expect(ledger.service.writer.failure).toBe(null)
  isShort = false
  startAgain()
  await expect.poll(peer).toMatchObject({ blocks: 2, ofBlocks: 2, error: null })
  await ledger.close()
  const mirrored = join(folder, 'mirrors', `${other.service.serverId}`)
  expect(await verifyFolder(mirrored)).toMatchObject({ items: 4_000, finding: null })
})
