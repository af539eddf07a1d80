import {
  evidenceText,
  nodeVerifySignature,
  openCheckpoint,
  parseCheckpoint,
  parseVerifierKey,
  verifyEvidence,
} from '../../src/chain/index.ts'
import { type Copy, copyAt, fits } from './copies.ts'
import { isFound } from './heal.ts'
import { all, type Kind, present, type Scene } from './scene.ts'
import { DATABASE, type SimulatedNode } from './simulated-node.ts'

/** Numbers of acknowledged writes, signed heads, forks and restored nodes in a world. */
export interface Counts {
  readonly acknowledged: number
  readonly signed: number
  /** Number of chains that have two histories at the end. */
  readonly forks: number
  /** Number of restored nodes. */
  readonly restored: number
}

/** Checks the invariants of a world after `heal`. */
export async function check(scene: Scene): Promise<Counts> {
  let forks = 0
  for (const node of scene.nodes) if (await checkChain(scene, node)) forks += 1
  for (const node of present(scene)) await checkAcknowledged(scene, node)
  for (const node of scene.nodes) checkSigned(scene, node)
  return {
    acknowledged: all(scene).reduce((sum, { acknowledged }) => sum + acknowledged.length, 0),
    signed: scene.signed.length,
    forks,
    restored: scene.restored.size,
  }
}

const FORKING: ReadonlySet<Kind> = new Set(['old disk', 'copied key', 'split view'])

/**
 * Returns whether the key of `node` may have signed two histories, because it was copied or its disk was
 * rolled back.
 */
function isForkable({ kind, victim }: Scene, node: SimulatedNode): boolean {
  return node === victim && FORKING.has(kind)
}

/** Checks all copies of the chain of `node`. Returns whether there are two histories. */
async function checkChain(scene: Scene, node: SimulatedNode): Promise<boolean> {
  const { world, signed } = scene
  const { serverId } = node.identity
  const copies: Copy[] = []
  for (const one of all(scene)) copies.push(await copyAt(one, serverId))
  const own = copies.find(({ at }) => at === node)
  for (const copy of copies) await checkCopy(scene, node, copy, own?.texts ?? [])
  const histories = copies.flatMap(({ ids, seen }) => {
    const believed = signed.find(({ note }) => note === seen)?.ids
    return believed === undefined ? [ids] : [ids, believed]
  })
  const isForked = histories.some((one) => histories.some((other) => !fits(one, other)))
  if (isForked && !isForkable(scene, node)) world.fault(`there are two histories of ${node.host}`)
  // After `isLiarGone`, nodes need not detect the fork here, because a signed head without its blocks proves nothing.
  // `heal` then compares the blocks of the mirrors.
  if (isForked && !isFound(scene, node) && !scene.isLiarGone) {
    world.fault(`there are two histories of ${node.host}, and no node has detected this`)
  }
  return isForked
}

async function checkCopy(
  scene: Scene,
  node: SimulatedNode,
  copy: Copy,
  own: readonly string[],
): Promise<void> {
  const { world } = scene
  const label = `the copy of ${node.host} at ${copy.at.host}`
  if (!isForkable(scene, node)) {
    if (!fits(own, copy.texts)) world.fault(`${label} contains blocks that were never written`)
    if (copy.evidence !== null) world.fault(`${label} has false evidence: ${copy.evidence.what}`)
  } else if (copy.evidence !== null) await checkEvidence(scene, node, copy)
  if (copy.finding !== null) world.fault(`${label} does not verify: ${copy.finding}`)
}

/** Checks that evidence contains two histories that the key signed. */
async function checkEvidence(
  { world, signed }: Scene,
  node: SimulatedNode,
  { evidence, ids, isOwn, at, seen }: Copy,
): Promise<void> {
  const key = parseVerifierKey(node.identity.vkey)
  // If the node lacks blocks of a signed head that it has seen, its evidence has no proof that others can verify.
  const isPrivate = evidence?.proof === null && !isOwn && evidence.notes[0] === seen
  const seenSize = signed.find(({ note }) => note === seen)?.ids.length ?? 0
  const verified = evidence && verifyEvidence(nodeVerifySignature, key, evidenceText(evidence))
  const failure = await verified?.then(
    () => null,
    (error: Error) => error.message,
  )
  if (typeof failure === 'string' && !(isPrivate && ids.length < seenSize)) {
    world.fault(`${at.host} has evidence that does not verify: ${failure}`)
  }
  const notes = (evidence?.notes ?? []).slice(isOwn ? 1 : 0)
  const histories: (readonly string[])[] = isOwn ? [ids] : []
  for (const note of notes) {
    const head = await openCheckpoint(nodeVerifySignature, key, note).catch(() => null)
    if (head === null) world.fault(`${at.host} has evidence with an unsigned head`)
    histories.push(signed.find((one) => one.note === note)?.ids ?? [])
  }
  const [one = [], other = []] = histories
  if (fits(one, other))
    world.fault(
      `${at.host} has evidence that does not show two histories: ${evidence?.what}, ${notes.join(' ')}`,
    )
}

/**
 * Checks that every acknowledged write exists, unless the node's disk was rolled back and no other node had
 * the block.
 */
async function checkAcknowledged(scene: Scene, node: SimulatedNode): Promise<void> {
  const { world, rollback, victim, restored } = scene
  const { service, acknowledged, host } = node
  const lost: string[] = []
  const isVictim = node === victim && rollback !== null
  if (service === null) {
    if (!isVictim) world.fault(`${host} does not run: ${node.refusal}`)
    return
  }
  const isForked = isForkable(scene, node) && isFound(scene, node)
  for (const [index, { id, height }] of acknowledged.entries()) {
    if (isVictim && index < rollback.acknowledged) {
      const isKept = height < rollback.blocks || (height < rollback.mirrored && !isForked)
      if (!isKept) continue
    } else if (isVictim && restored.has(node)) continue
    const item = await service.read.item(DATABASE, id).catch(() => null)
    if (item === null) lost.push(id)
  }
  if (lost.length > 0) world.fault(`${host} has lost acknowledged writes: ${lost.join(' ')}`)
}

/** Checks that the key signed only one history, unless it was copied or the whole disk was rolled back. */
function checkSigned(scene: Scene, node: SimulatedNode): void {
  const { world, signed } = scene
  if (isForkable(scene, node)) return
  let longest: readonly string[] = []
  for (const { serverId, note, ids } of signed) {
    if (serverId !== node.identity.serverId) continue
    const { size } = parseCheckpoint(note.slice(0, note.indexOf('\n\n') + 1))
    if (size !== ids.length) world.fault(`${node.host} has signed blocks that it did not store`)
    if (!fits(longest, ids)) world.fault(`${node.host} has signed two histories`)
    if (ids.length > longest.length) longest = ids
  }
}
