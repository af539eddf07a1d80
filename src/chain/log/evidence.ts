import type { Static } from 'typebox'
import { fromBase64, toBase64 } from '../../base/base64.ts'
import { isJsonObject } from '../../base/json.ts'
import { Type } from '../../base/shape.ts'
import { parseShape } from '../../base/shaped-json.ts'
import { parseForeignJsonOrNull } from '../../base/strict-json.ts'
import { equalBytes, HASH_BYTES } from '../hashes.ts'
import {
  frontierAt,
  frontierNodes,
  frontierRoot,
  leafHash,
  type ReadNodes,
  type TreeNode,
} from '../merkle-tree.ts'
import {
  type Checkpoint,
  ProofError,
  type VerifierKey,
  type VerifySignature,
} from './checkpoint.ts'
import {
  type Hashes,
  proveConsistency,
  proveInclusion,
  verifyConsistency,
  verifyInclusion,
} from './proofs.ts'
import { openHead, openState, type SignedState } from './state.ts'

// Evidence: two checkpoints that one key has signed and that no single log can have, with a proof that needs no other
// data. Or a signed state that is not the state of the blocks that it names, which everyone with these blocks can check.

/** Maximum characters of an evidence file. Two notes and two paths are much shorter. */
export const EVIDENCE_LENGTH_MAX = 1_048_576

/** Members with which an evidence file begins. */
export const EVIDENCE_BEGINNING = { format: 'daicho-evidence', version: 1 } as const

const PAIR = { minItems: 2, maxItems: 2 }
const CLOSED = { additionalProperties: false }
const Path = Type.Array(Type.String())

/**
 * Schema of an evidence file: two notes of one key that cannot both be true, the note that was received first, and the
 * note that contradicts it. `what` describes the contradiction in one sentence. The proof is one of:
 * - two blocks at one height: their headers, and the inclusion path (base64) of each header in the log of its note;
 * - the root (base64) that the larger log had at the size of the smaller log, and the consistency proof from that size,
 *   where the signed root of the smaller log is different;
 * - null for logs of equal size, because their different roots are the proof;
 * - the root (base64) of the state that the blocks give, where the second note is a signed state with another root. This
 *   proof needs the blocks.
 * A signed state names the root of a log, so it may also stand for a checkpoint.
 */
export const EvidenceFile = Type.Object(
  {
    format: Type.Literal(EVIDENCE_BEGINNING.format),
    version: Type.Literal(EVIDENCE_BEGINNING.version),
    what: Type.String(),
    notes: Type.Unsafe<readonly [string, string]>(
      Type.Array(Type.String(), {
        ...PAIR,
        description: 'Signed notes that contradict each other',
      }),
    ),
    proof: Type.Union([
      Type.Object(
        {
          height: Type.Integer(),
          headers: Type.Unsafe<readonly [string, string]>(Type.Array(Type.String(), PAIR)),
          paths: Type.Array(Path, PAIR),
        },
        CLOSED,
      ),
      Type.Object({ root: Type.String(), path: Path }, CLOSED),
      Type.Object({ state: Type.String() }, CLOSED),
      Type.Null(),
    ]),
  },
  { ...CLOSED, description: 'The content of an evidence file, which `daicho verify` checks' },
)

/** The content of an evidence file without EVIDENCE_BEGINNING. */
export type Evidence = Omit<Static<typeof EvidenceFile>, 'format' | 'version'>
type ForkProof = Exclude<Evidence['proof'], { state: string }>
type HeightProof = Extract<ForkProof, { height: number }>

/** A log with a signed checkpoint. All returned values are verified. Each function can reject with any error. */
export interface SignedLog {
  readonly checkpoint: Checkpoint
  /** Returns the root of the first `size` blocks, and the consistency proof from that size to the checkpoint. */
  readonly prefix: (size: number) => Promise<{ readonly root: Uint8Array; readonly path: Hashes }>
  /** Null if the blocks of the log cannot be read. */
  readonly blocks: {
    readonly nodes: ReadNodes
    /** Returns the canonical text of a header. */
    readonly header: (height: number) => Promise<string>
  } | null
}

/** A log whose hashes and headers can be read. */
export function readableLog(
  checkpoint: Checkpoint,
  blocks: NonNullable<SignedLog['blocks']>,
): SignedLog {
  const prefix = async (size: number) => ({
    root: frontierRoot(await frontierAt(size, blocks.nodes)),
    path: await proveConsistency(size, checkpoint.size, blocks.nodes),
  })
  return { checkpoint, prefix, blocks }
}

/**
 * Proves that two logs contradict each other, if possible with the two blocks at the first height at which they differ.
 * Returns null if there is no proof. Never rejects; a log that cannot be read gives no proof.
 */
export async function findContradiction(
  one: SignedLog,
  other: SignedLog,
): Promise<Pick<Evidence, 'what' | 'proof'> | null> {
  const logs = [one.checkpoint, other.checkpoint] as const
  for (const prove of [heightProof, prefixProof, async () => null]) {
    const proof = await prove(one, other).catch(() => null)
    if (isContradiction(logs, proof)) return { what: describeFork(logs, proof), proof }
  }
  return null
}

function describeFork(logs: readonly [Checkpoint, Checkpoint], proof: ForkProof): string {
  const [smaller, larger] = bySize(logs)
  if (proof !== null && 'height' in proof) {
    return `two different blocks of height ${proof.height} are signed`
  }
  if (smaller.size === larger.size) {
    return `two different logs of ${larger.size} blocks are signed`
  }
  return `the signed log of ${larger.size} blocks does not begin with the signed log of ${smaller.size} blocks`
}

async function heightProof(one: SignedLog, other: SignedLog): Promise<ForkProof> {
  if (one.blocks === null || other.blocks === null) return null
  const sizes = [one.checkpoint.size, other.checkpoint.size] as const
  const height = await forkHeight(one.blocks.nodes, other.blocks.nodes, Math.min(...sizes))
  if (height === null) return null
  const [first, second] = [one.blocks, other.blocks]
  return {
    height,
    headers: [await first.header(height), await second.header(height)],
    paths: [
      (await proveInclusion(height, sizes[0], first.nodes)).map(toBase64),
      (await proveInclusion(height, sizes[1], second.nodes)).map(toBase64),
    ],
  }
}

/**
 * Returns the first leaf below `size` in which two logs differ, or null. Descends from a differing peak to that leaf.
 */
async function forkHeight(one: ReadNodes, other: ReadNodes, size: number): Promise<number | null> {
  const firstDiffering = async (nodes: readonly TreeNode[]) => {
    const hashes = await one(nodes)
    const others = await other(nodes)
    return nodes.find((_, at) => !areEqual(hashes[at], others[at])) ?? null
  }
  let node = await firstDiffering(frontierNodes(size))
  while (node !== null && node.level > 0) {
    const left = { level: node.level - 1, index: node.index * 2 }
    node = await firstDiffering([left, { ...left, index: left.index + 1 }])
  }
  return node?.index ?? null
}

function areEqual(one: Uint8Array | undefined, other: Uint8Array | undefined): boolean {
  return one !== undefined && other !== undefined && equalBytes(one, other)
}

async function prefixProof(one: SignedLog, other: SignedLog): Promise<ForkProof> {
  const isFirstSmaller = one.checkpoint.size < other.checkpoint.size
  const [smaller, larger] = isFirstSmaller ? [one, other] : [other, one]
  if (smaller.checkpoint.size === larger.checkpoint.size) return null
  const { root, path } = await larger.prefix(smaller.checkpoint.size)
  return { root: toBase64(root), path: path.map(toBase64) }
}

function bySize([one, other]: readonly [Checkpoint, Checkpoint]): [Checkpoint, Checkpoint] {
  return one.size <= other.size ? [one, other] : [other, one]
}

/** Whether no log can have both checkpoints. */
function isContradiction(logs: readonly [Checkpoint, Checkpoint], proof: ForkProof): boolean {
  const [smaller, larger] = bySize(logs)
  if (proof === null) return smaller.size === larger.size && !equalBytes(smaller.root, larger.root)
  if ('root' in proof) {
    const root = decodeHash(proof.root)
    const before = { size: smaller.size, root }
    const isPrefix = verifyConsistency(before, larger, proof.path.map(decodeHash))
    return isPrefix && !equalBytes(root, smaller.root)
  }
  const { height, headers, paths } = proof
  const leaves = headers.map((header) => leafHash(new TextEncoder().encode(header)))
  const areProven = logs.every((log, at) => {
    const leaf = { index: height, leaf: leaves[at] ?? new Uint8Array() }
    return verifyInclusion(leaf, log, (paths[at] ?? []).map(decodeHash))
  })
  return areProven && !areEqual(leaves[0], leaves[1])
}

/** Returns evidence that `signed` with this note is not the state of its blocks, whose state has the root `state`. */
export function stateEvidence(
  { size }: Pick<SignedState, 'size'>,
  notes: readonly [checkpoint: string, state: string],
  state: Uint8Array,
): Evidence {
  return { what: describeState(size), notes, proof: { state: toBase64(state) } }
}

function describeState(size: number): string {
  return `the signed state is not the state of the first ${size} blocks`
}

/** Whether evidence shows a wrong state, and not two histories. */
export function isStateEvidence({ proof }: Evidence): boolean {
  return proof !== null && 'state' in proof
}

/** The content of verified evidence. */
export interface Contradiction {
  /** One sentence that describes the contradiction; the sentence in the file is not verified. */
  readonly what: string
  readonly checkpoints: readonly [Checkpoint, Checkpoint]
  /** The first height at which the logs differ, with the headers there; null if only the roots prove the difference. */
  readonly fork: Pick<HeightProof, 'height' | 'headers'> | null
  /** The signed state that is wrong; null if the evidence shows two histories. */
  readonly state: SignedState | null
}

/** Returns the state of the first `size` blocks of the chain. Only called for evidence of a wrong state. */
export type RecomputeState = (size: number) => Promise<SignedState>

/**
 * Verifies an evidence file with only the public key: the key has signed both notes, and no log can have both
 * checkpoints, or the blocks that `recompute` reads have another state than the signed one.
 * Errors: PROOF_MALFORMED, PROOF_WRONG, NOTE_…, CHECKPOINT_…; those of `recompute`.
 */
export async function verifyEvidence(
  verifySignature: VerifySignature,
  key: VerifierKey,
  file: string,
  recompute: RecomputeState = requireChain,
): Promise<Contradiction> {
  const { notes, proof } = parseEvidence(file)
  const checkpoints = [
    await openHead(verifySignature, key, notes[0]),
    await openHead(verifySignature, key, notes[1]),
  ] as const
  if (proof !== null && 'state' in proof) {
    const state = await openState(verifySignature, key, notes[1])
    const recomputed = await recompute(state.size)
    if (!equalBytes(recomputed.log, state.log)) {
      throw new ProofError('PROOF_WRONG', 'the chain is not the one of the signed state')
    }
    if (equalBytes(recomputed.root, state.root)) {
      throw new ProofError('PROOF_WRONG', 'the signed state is the state of the chain')
    }
    return { what: describeState(state.size), checkpoints, fork: null, state }
  }
  if (!isContradiction(checkpoints, proof)) {
    throw new ProofError('PROOF_WRONG', 'the two signed heads do not contradict each other')
  }
  const what = describeFork(checkpoints, proof)
  const fork = proof !== null && 'height' in proof ? proof : null
  return { what, checkpoints, fork, state: null }
}

async function requireChain(): Promise<never> {
  throw new ProofError('PROOF_WRONG', 'a wrong state can only be shown with the chain')
}

/** Whether a file has the form of evidence, valid or not. */
export function isEvidence(file: string): boolean {
  if (file.length > EVIDENCE_LENGTH_MAX) return false
  const value = parseForeignJsonOrNull(file)
  return isJsonObject(value) && Array.isArray(value.notes)
}

/** Parses an evidence file. Errors: PROOF_MALFORMED. */
export function parseEvidence(file: string): Evidence {
  const evidence = file.length > EVIDENCE_LENGTH_MAX ? null : parseShape(EvidenceFile, file)
  if (evidence !== null) {
    const { what, notes, proof } = evidence
    return { what, notes, proof }
  }
  throw new ProofError('PROOF_MALFORMED', 'this is not an evidence file')
}

/** Decodes a hash from base64. Returns an empty array for a malformed hash, because an empty array equals no hash. */
function decodeHash(text: string): Uint8Array {
  const bytes = fromBase64(text)
  return bytes?.length === HASH_BYTES ? bytes : new Uint8Array()
}

export function evidenceText({ what, notes, proof }: Evidence): string {
  return `${JSON.stringify({ ...EVIDENCE_BEGINNING, what, notes, proof })}\n`
}
