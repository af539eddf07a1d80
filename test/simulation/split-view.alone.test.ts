// The time in which two mirrors of different histories detect the fork, without other faults.
import { expect, it } from 'vitest'
import {
  evidenceText,
  nodeVerifySignature,
  parseVerifierKey,
  verifyEvidence,
} from '../../src/chain/index.ts'
import { contradict, copyAt } from './copies.ts'
import { withScene } from './run.ts'
import { audience } from './scene.ts'
import { INTERVAL_MS } from './simulated-node.ts'
import { startFork } from './trouble.ts'

const SEEDS = 40
const STEP_MS = 100
const STEPS_MAX = 300

it('two mirrors that are peers of each other detect two histories within two intervals', async () => {
  let worlds = 0
  let longestMs = 0
  for (let seed = 1; seed <= SEEDS; seed += 1) {
    await withScene(seed, 'honest', async (scene) => {
      if (scene.kind !== 'split view') return
      worlds += 1
      const { world, nodes, victim } = scene
      for (const node of nodes) await node.start()
      await world.pass(INTERVAL_MS)
      victim.write(1)
      await world.pass(INTERVAL_MS)
      await startFork(scene, victim.snapshot())
      await world.pass(INTERVAL_MS)
      victim.write(1)
      scene.double?.write(1)
      const copies = async () => {
        const [one, other] = audience(scene)
        const { serverId } = victim.identity
        return [await copyAt(one, serverId), await copyAt(other, serverId)] as const
      }
      let stepsDeceived = 0
      for (let step = 0; step < STEPS_MAX; step += 1) {
        await world.pass(STEP_MS)
        const now = await copies()
        if (now.every(({ evidence }) => evidence !== null)) break
        if (contradict(...now)) stepsDeceived += 1
      }
      const key = parseVerifierKey(victim.identity.vkey)
      for (const { evidence } of await copies()) {
        if (evidence === null) throw new Error(`seed ${seed}: there is no evidence`)
        await verifyEvidence(nodeVerifySignature, key, evidenceText(evidence))
      }
      longestMs = Math.max(longestMs, stepsDeceived * STEP_MS)
    })
  }
  expect(worlds).toBeGreaterThan(3)
  expect(longestMs).toBeLessThanOrEqual(2 * INTERVAL_MS)
}, 600_000)
