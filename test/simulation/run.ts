import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { memoryFolder } from '../../scripts/memory-folder.ts'
import { type Counts, check } from './checks.ts'
import { heal } from './heal.ts'
import { Network } from './network.ts'
import { all, type Kind, type Scene, sceneOf } from './scene.ts'
import type { WorldContext } from './simulated-node.ts'
import { trouble } from './trouble.ts'
import { World } from './world.ts'

const FOLDER = memoryFolder()

export interface Outcome {
  readonly kind: Kind
  /** Descriptions of the violated invariants. */
  readonly faults: readonly string[]
  readonly trace: readonly string[]
  readonly traceHash: string
  readonly counts: Counts
}

/** Runs the world of `seed` from start to end. `disks` has the meaning of `WorldContext.disks`. */
export async function runSeed(
  seed: number,
  disks: WorldContext['disks'] = 'honest',
): Promise<Outcome> {
  return withScene(seed, disks, async (scene) => {
    await trouble(scene)
    await heal(scene)
    const counts = await check(scene)
    const { faults, trace, traceHash } = scene.world
    return { kind: scene.kind, faults, trace, traceHash, counts }
  })
}

/** Builds the world of `seed` with nodes that do not run yet, calls `work`, and then stops all nodes. */
export async function withScene<Result>(
  seed: number,
  disks: WorldContext['disks'],
  work: (scene: Scene) => Promise<Result>,
): Promise<Result> {
  const world = new World(seed)
  const base = mkdtempSync(join(FOLDER, 'daicho-simulation-'))
  const network = new Network(world)
  const scene = sceneOf({ world, network, base, disks, signed: [], closing: [] })
  try {
    return await work(scene)
  } finally {
    await Promise.all(all(scene).map((node) => node.end()))
    await Promise.all(scene.closing)
    rmSync(base, { recursive: true, force: true })
  }
}
