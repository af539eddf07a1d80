import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Counts, check } from './checks.ts'
import { heal } from './heal.ts'
import { Network } from './network.ts'
import { all, type Kind, sceneOf } from './scene.ts'
import { allClosed } from './simulated-node.ts'
import { trouble } from './trouble.ts'
import { World } from './world.ts'

/** A world at its end. */
export interface Outcome {
  readonly kind: Kind
  /** What must never have been. */
  readonly faults: readonly string[]
  readonly trace: readonly string[]
  readonly traceHash: string
  readonly counts: Counts
}

/** Runs the world of `seed` from its beginning to its end. */
export async function runSeed(seed: number): Promise<Outcome> {
  const world = new World(seed)
  const base = baseFolder()
  const scene = sceneOf(world, new Network(world), base)
  try {
    await trouble(scene)
    await heal(scene)
    const counts = await check(scene)
    const { faults, trace, traceHash } = world
    return { kind: scene.kind, faults, trace, traceHash, counts }
  } finally {
    for (const node of all(scene)) node.cutOff()
    await allClosed()
    rmSync(base, { recursive: true, force: true })
  }
}

/** In memory, where the machine has such a place. */
function baseFolder(): string {
  const prefix = 'daicho-simulation-'
  try {
    return mkdtempSync(join('/dev/shm', prefix))
  } catch {
    return mkdtempSync(join(tmpdir(), prefix))
  }
}
