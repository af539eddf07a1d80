import type { Static } from 'typebox'
import { fromBase64, toBase64 } from '../../base/base64.ts'
import { Type } from '../../base/shape.ts'
import { mapSchema, parseShape } from '../../base/shaped-json.ts'
import {
  PROVEN_BLOCK_BYTES_MAX,
  parseCheckpoint,
  proveConsistency,
  provenBlockJson,
  type RawBlock,
  rawBlocks,
} from '../../chain/index.ts'
import type { StoreReader } from '../../storage/index.ts'
import { rootAt } from '../log/signed-head.ts'
import { PeerError } from './errors.ts'
import type { KnownLog, SignedCheckpoint } from './evidence.ts'
import type { Mirror } from './mirror.ts'
import type { MirrorSize, PeerClient } from './peer-client.ts'

/** Maximum bytes of the blocks in a push, unless a single block is larger. */
const PUSH_BYTES = 4 * 1024 * 1024
/** Maximum bytes of an accepted body: a block, and 64 KiB for the signed head and its proofs. */
export const PUSH_BYTES_MAX: number = PROVEN_BLOCK_BYTES_MAX + 64 * 1024
/** Maximum blocks per push. A push can have fewer, because the store also limits the bytes of a page. */
const BLOCKS_MAX = 1_024

/** Pushes this node's chain to a mirror that cannot fetch it. */
export class Pusher {
  readonly #peer: PeerClient
  readonly #store: StoreReader
  readonly #checkpoint: () => Promise<string | null>
  /** Size of the mirror, or null if it must be requested, as at the start and after an error. */
  #mirror: MirrorSize | null = null

  /** `checkpoint` returns the newest signed head of this node's chain, or null if it is not available now. */
  constructor(peer: PeerClient, store: StoreReader, checkpoint: () => Promise<string | null>) {
    this.#peer = peer
    this.#store = store
    this.#checkpoint = checkpoint
  }

  /**
   * Pushes all signed blocks. Calls `pushed` after each push. An error does not undo earlier pushes.
   * Errors: OutboundError; PeerError REPLY_REFUSED, REPLY_MALFORMED.
   */
  async push(pushed: () => void): Promise<void> {
    const note = await this.#checkpoint()
    if (note === null) return
    this.#store.refresh()
    let mirror = this.#mirror
    this.#mirror = null
    mirror ??= await this.#peer.push((await nextPush(this.#store, note, null)).body)
    for (;;) {
      const { body, end } = await nextPush(this.#store, note, mirror)
      if (end <= mirror.size) break
      const { size } = mirror
      mirror = await this.#peer.push(body)
      if (mirror.size <= size) {
        throw new PeerError(
          'REPLY_MALFORMED',
          'the reply to a push does not contain the size of the mirror',
        )
      }
      pushed()
    }
    this.#mirror = mirror
  }
}

interface Push {
  readonly body: Buffer
  /** Number of blocks that the mirror has after this push. */
  readonly end: number
}

/**
 * Creates the next push of this node's chain:
 * - as many of the missing blocks as fit, up to the last block that `note` covers;
 * - proofs that these blocks and the mirror's blocks are in the log of `note`;
 * - the roots of the log at the sizes at which the proofs begin. If the mirror has a different root at such a size, the
 *   proof is evidence against the key.
 * If `mirror` is null, the push has no blocks and requests the state of the mirror.
 */
export async function nextPush(
  store: StoreReader,
  note: string,
  mirror: MirrorSize | null,
): Promise<Push> {
  const { serverId } = store
  if (mirror === null) return pushText({ from: 0, texts: [], note, proofs: {}, roots: {} }, 0)
  // The note is not verified, because this node has just signed the note.
  const { size } = parseCheckpoint(note.slice(0, note.lastIndexOf('\n\n') + 1))
  const texts: string[] = []
  let bytes = 0
  let end = Math.min(mirror.size, size)
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
  for (const from of new Set([mirror.size, mirror.seen, end])) {
    if (from >= size) continue
    proofs[from] = (await proveConsistency(from, size, read)).map(toBase64)
    roots[from] = toBase64(await rootAt(store, from))
  }
  return pushText({ from: mirror.size, texts, note, proofs, roots }, end)
}

interface PushParts {
  readonly from: number
  readonly texts: readonly string[]
  readonly note: string
  /** Consistency proofs, by the size at which they begin. */
  readonly proofs: Readonly<Record<string, readonly string[]>>
  /** Roots of the log, by its size. */
  readonly roots: Readonly<Record<string, string>>
}

function pushText({ from, texts, note, proofs, roots }: PushParts, end: number): Push {
  const text =
    `{"from":${from},"blocks":[${texts.join(',')}],"checkpoint":${JSON.stringify(note)},` +
    `"proofs":${JSON.stringify(proofs)},"roots":${JSON.stringify(roots)}}`
  return { body: Buffer.from(text), end }
}

/**
 * Accepts a push from the node of the chain, in a turn. A repeated push changes nothing. A head that contradicts the mirror is
 * stored as evidence, even if it comes without blocks. Errors: PUSH_INVALID, PUSH_GAP; as for `Mirror`.
 */
export async function acceptPush(mirror: Mirror, body: Uint8Array): Promise<void> {
  const push = parsedPush(body, mirror.serverId)
  const { from, blocks, proofs } = push
  const prove = async (size: number) => requireProof(proofs, size)
  const head = await mirror.opened(push.checkpoint)
  const log = pushedLog(head, push)
  if (blocks.length === 0) {
    // A head that covers more blocks than the mirror has is checked when these blocks are pushed.
    if (head.size > mirror.size) return
    await mirror.detectFork(log, () => mirror.acceptHead(head, prove))
    return
  }
  if (from > mirror.size) {
    throw new PeerError(
      'PUSH_GAP',
      `this mirror has ${mirror.size} blocks, but the first pushed block has height ${from}`,
    )
  }
  await mirror.detectFork(log, async () => {
    await mirror.acceptHead(head, prove)
    await mirror.add(blocks, from, head, prove)
  })
}

/** Returns the log that a push describes by roots and proofs at some sizes. */
function pushedLog(checkpoint: SignedCheckpoint, { proofs, roots }: ParsedPush): KnownLog {
  const prefix = async (size: number) => {
    const root = fromBase64(roots[size] ?? '')
    return { root: root ?? new Uint8Array(), path: requireProof(proofs, size) }
  }
  return { checkpoint, prefix, blocks: null }
}

const PushEnd = Type.Object({
  checkpoint: Type.String(),
  proofs: mapSchema(Type.Array(Type.String())),
  roots: mapSchema(Type.String()),
})

interface ParsedPush extends Static<typeof PushEnd> {
  readonly from: number
  readonly blocks: readonly RawBlock[]
}

const PUSH_OPENING = /^\{"from":(0|[1-9]\d{0,14}),"blocks":/
/** Maximum characters of a push after its blocks. */
const PUSH_END_MAX = 65_536

/** Parses exactly the form that `pushText` writes. Errors: PUSH_INVALID. */
function parsedPush(body: Uint8Array, serverId: number): ParsedPush {
  const text = Buffer.from(body.buffer, body.byteOffset, body.length).toString()
  const [opening = '', from = ''] = PUSH_OPENING.exec(text.slice(0, 64)) ?? []
  const options = { serverId, blocksMax: BLOCKS_MAX }
  const list = text.startsWith('[]', opening.length)
    ? { blocks: [], end: opening.length + 2 }
    : rawBlocks(text, opening.length, options)
  if (opening !== '' && list !== null && text.length - list.end <= PUSH_END_MAX) {
    const end = parseShape(PushEnd, `{${text.slice(list.end + 1)}`)
    if (end !== null) return { ...end, from: Number(from), blocks: list.blocks }
  }
  throw new PeerError(
    'PUSH_INVALID',
    'a push must be {from, blocks, checkpoint, proofs, roots}, as daicho writes it',
  )
}

function requireProof(proofs: ParsedPush['proofs'], from: number): Uint8Array[] {
  const list = proofs[from]
  if (list === undefined) {
    throw new PeerError('LOG_UNPROVEN', `the proof from size ${from} is missing`)
  }
  return list.map((hash) => {
    const bytes = fromBase64(hash)
    if (bytes !== null) return bytes
    throw new PeerError('PUSH_INVALID', 'a proof must be a list of hashes')
  })
}
