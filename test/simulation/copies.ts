import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Evidence, provenBlockJson } from '../../src/chain/index.ts'
import { readEvidence } from '../../src/ledger/peers/evidence.ts'
import { mirrorFolder } from '../../src/ledger/peers/mirror.ts'
import { openStoreReader, toStorePath, verifyStore } from '../../src/storage/index.ts'
import type { SimulatedNode } from './simulated-node.ts'

export interface Copy {
  readonly at: SimulatedNode
  readonly isOwn: boolean
  /** The blocks with their proofs, by height. */
  readonly texts: readonly string[]
  readonly ids: readonly string[]
  /** The newest signed head that the node has accepted. Empty if there is none. */
  readonly seen: string
  /** The newest signed head whose blocks the node has. Empty if there is none. */
  readonly checkpoint: string
  readonly evidence: Evidence | null
  /** The fault that verification finds in the copy, or null. */
  readonly finding: string | null
}

/** Reads the copy of chain `serverId` that `node` has. */
export async function copyAt(node: SimulatedNode, serverId: number): Promise<Copy> {
  const isOwn = node.identity.serverId === serverId
  const folder = isOwn ? node.folder : mirrorFolder(node.folder, serverId)
  const textOf = (name: string) => {
    const path = join(folder, name)
    return existsSync(path) ? readFileSync(path, 'utf8') : ''
  }
  const copy = {
    ...{ at: node, isOwn, evidence: readEvidence(folder) },
    ...{ seen: textOf('seen'), checkpoint: textOf('checkpoint') },
  }
  if (!existsSync(toStorePath(folder))) return { ...copy, texts: [], ids: [], finding: null }
  const store = await openStoreReader(folder, { frozen: true })
  try {
    const blocks = []
    for (;;) {
      const page = await store.blocks(store.serverId, blocks.length, 1_000)
      if (page.length === 0) break
      blocks.push(...page)
    }
    const { finding } = await verifyStore(store)
    return {
      ...copy,
      texts: blocks.map(provenBlockJson),
      ids: blocks.map(({ id }) => id),
      finding: finding?.what ?? null,
    }
  } finally {
    await store.close()
  }
}

/**
 * Returns whether two mirrors of one chain have contradicting signed histories, so that neither history is a
 * prefix of the other. Blocks after the newest signed head do not count, because other nodes cannot verify
 * who signed them.
 */
export function contradict(one: Copy, other: Copy): boolean {
  return !fits(signedIds(one), signedIds(other))
}

function signedIds({ ids, checkpoint }: Copy): readonly string[] {
  return ids.slice(0, Number(checkpoint.split('\n')[1] ?? 0))
}

/** Returns whether one of the lists is a prefix of the other. */
export function fits(one: readonly string[], other: readonly string[]): boolean {
  const length = Math.min(one.length, other.length)
  return one.slice(0, length).every((text, at) => text === other[at])
}
