import { fromBase64, toBase64 } from '../../base/base64.ts'
import { isJsonObject, type Json, parseJson } from '../../base/json.ts'
import {
  checkpointOf,
  equalBytes,
  frontierAt,
  HASH_BYTES,
  nodeSha256,
  proveConsistency,
  provenBlockJson,
  rootOf,
  verifyConsistency,
} from '../../chain/index.ts'
import type { StoreReader } from '../../storage/index.ts'
import { PeerError } from './errors.ts'
import type { PushedTo } from './messages.ts'
import type { Mirror, Prove } from './mirror.ts'
import type { SignedHead } from './signed-head.ts'

/** Longest body of a push; a block that is longer alone goes alone. */
const PUSH_BYTES = 4 * 1024 * 1024
/** The longest body that is taken: one block with 64 MiB of entries, and what proves them. */
export const PUSH_BYTES_MAX = 80 * 1024 * 1024
/** Blocks of one push; a page of the store also has a bound of its own. */
const BLOCKS_MAX = 1_024

/** A push as it is sent. */
export interface Push {
  readonly body: Buffer
  /** How many blocks the other side has when it takes this. */
  readonly end: number
}

/**
 * The next push of the own chain to a node that has `to` of it: as many blocks as fit, up to those
 * that `note` signs, with the proofs that their place in the log needs, and the roots that they start
 * from: where the other side has another root, the proof is what accuses the key. Without blocks it asks
 * how far the other side is; so does a push to null.
 */
export async function nextPush(
  store: StoreReader,
  note: string,
  to: PushedTo | null,
): Promise<Push> {
  const { serverId } = store
  if (to === null) return pushText({ from: 0, texts: [], note, proofs: {}, roots: {} }, 0)
  // The node has just signed it.
  const { size } = checkpointOf(note.slice(0, note.lastIndexOf('\n\n') + 1))
  const texts: string[] = []
  let bytes = 0
  let end = Math.min(to.size, size)
  const blocks = await store.blocks(serverId, end, Math.min(BLOCKS_MAX, size - end))
  for (const block of blocks) {
    const text = provenBlockJson(block)
    bytes += Buffer.byteLength(text)
    if (texts.length > 0 && bytes > PUSH_BYTES) break
    texts.push(text)
    end += 1
  }
  const proofs: Record<string, string[]> = {}
  const roots: Record<string, string> = {}
  const read = (nodes: Parameters<StoreReader['treeNodes']>[1]) => store.treeNodes(serverId, nodes)
  for (const from of new Set([to.size, to.seen, end])) {
    if (from >= size) continue
    proofs[from] = (await proveConsistency(nodeSha256, from, size, read)).map(toBase64)
    roots[from] = toBase64(rootOf(nodeSha256, await frontierAt(from, read)))
  }
  return pushText({ from: to.size, texts, note, proofs, roots }, end)
}

interface PushParts {
  readonly from: number
  readonly texts: readonly string[]
  readonly note: string
  readonly proofs: Readonly<Record<string, readonly string[]>>
  /** By size, as the proofs are. */
  readonly roots: Readonly<Record<string, string>>
}

function pushText({ from, texts, note, proofs, roots }: PushParts, end: number): Push {
  const text =
    `{"from":${from},"blocks":[${texts.join(',')}],"checkpoint":${JSON.stringify(note)},` +
    `"proofs":${JSON.stringify(proofs)},"roots":${JSON.stringify(roots)}}`
  return { body: Buffer.from(text), end }
}

/**
 * Takes what a node has pushed of its chain. The same again changes nothing. A head that contradicts
 * what is here is kept as evidence, also one that comes without blocks.
 * Errors: PUSH_INVALID, PUSH_GAP; those of `Mirror`.
 */
export async function takePush(mirror: Mirror, body: Uint8Array): Promise<void> {
  const push = pushOf(body)
  const { from, blocks, proofs } = push
  const prove: Prove = async (size) => proofIn(proofs, size)
  const head = await mirror.opened(push.checkpoint)
  if (blocks.length === 0) {
    // A longer one is looked at when the blocks come that lead there.
    if (head.size <= mirror.size) await mirror.follow(head, prove)
    return
  }
  if (from > mirror.size) {
    throw new PeerError(
      'PUSH_GAP',
      `${mirror.size} blocks are here, and the first pushed is ${from}`,
    )
  }
  try {
    await mirror.follow(head, prove)
    const fresh = blocks.slice(mirror.size - from)
    if (fresh.length > 0) await mirror.take(fresh, head, prove)
  } catch (error) {
    const isDoubtful = error instanceof PeerError && error.code !== 'MIRROR_FROZEN'
    if (!isDoubtful || !(await isFork(mirror, head, push))) throw error
    throw mirror.contradicted(head, 'the logs of the two do not begin with the same blocks')
  }
}

/**
 * Whether the log that `head` signs is proven to begin with another root than the mirror knows at the
 * same size. What is not proven is not so: a wrong root alone accuses nobody.
 */
async function isFork(
  mirror: Mirror,
  head: SignedHead,
  { proofs, roots }: Pick<PushedBody, 'proofs' | 'roots'>,
): Promise<boolean> {
  for (const known of await mirror.known()) {
    const text = roots[known.size]
    const root = typeof text === 'string' ? fromBase64(text) : null
    if (root?.length !== HASH_BYTES || known.size === 0 || known.size >= head.size) continue
    if (equalBytes(root, known.root)) continue
    const claimed = { size: known.size, root }
    const proof = proofIn(proofs, known.size)
    if (verifyConsistency(nodeSha256, claimed, head, proof)) return true
  }
  return false
}

interface PushedBody {
  readonly from: number
  readonly blocks: readonly Json[]
  readonly checkpoint: string
  readonly proofs: { readonly [from: string]: Json }
  readonly roots: { readonly [from: string]: Json }
}

function pushOf(body: Uint8Array): PushedBody {
  const value = parsed(body)
  if (isJsonObject(value)) {
    const { from, blocks, checkpoint, proofs, roots = {} } = value
    const isPush =
      typeof from === 'number' &&
      Number.isSafeInteger(from) &&
      from >= 0 &&
      Array.isArray(blocks) &&
      typeof checkpoint === 'string' &&
      isJsonObject(proofs) &&
      isJsonObject(roots)
    if (isPush) return { from, blocks, checkpoint, proofs, roots }
  }
  throw new PeerError('PUSH_INVALID', 'a push is {from, blocks, checkpoint, proofs}')
}

function proofIn(proofs: PushedBody['proofs'], from: number): Uint8Array[] {
  const list = proofs[from]
  if (!Array.isArray(list)) {
    throw new PeerError('LOG_UNPROVEN', `there is no proof from size ${from} on`)
  }
  return list.map((hash) => {
    const bytes = typeof hash === 'string' ? fromBase64(hash) : null
    if (bytes !== null) return bytes
    throw new PeerError('PUSH_INVALID', 'a proof is a list of hashes')
  })
}

function parsed(body: Uint8Array): Json {
  try {
    return parseJson(Buffer.from(body.buffer, body.byteOffset, body.length).toString())
  } catch {
    return null
  }
}
