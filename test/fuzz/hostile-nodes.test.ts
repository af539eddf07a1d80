// A short version of hostile-nodes.ts.
import { expect, it } from 'vitest'
import { serveLedger } from '../support/daicho.ts'
import { Dice } from '../support/ledger-load.ts'
import { temporaryFolder } from '../support/ledger-node.ts'
import { attackNode } from './hostile-attacks.ts'
import { HostileMessages } from './hostile-messages.ts'

const MESSAGES = 60
const PEAK_BYTES_MAX = 900_000_000

it('a node survives generated replies and pushes of hostile peers, and answers other requests', async () => {
  const node = await serveLedger(temporaryFolder(), { PEERS_ALLOW_PRIVATE: '1' })
  const hostile = new HostileMessages(new Dice(3), 5_000_000)
  const { url, child } = node
  const attacked = await attackNode({ url, pid: child.pid ?? 0, hostile, messages: MESSAGES })
  expect(attacked.failures).toBe(0)
  expect(attacked.peakBytes).toBeLessThan(PEAK_BYTES_MAX)
  expect([child.exitCode, child.signalCode]).toEqual([null, null])
  child.kill('SIGTERM')
  expect(await node.ended).toMatchObject({ code: 0, stderr: '' })
})
