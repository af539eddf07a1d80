import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Json } from '../../base/json.ts'
import {
  type CutBlock,
  equalBytes,
  erasedIn,
  type Frontier,
  frontierAt,
  grown,
  type Head,
  headerOf,
  headerText,
  headOf,
  leafHash,
  nodeSha256,
  rootOf,
  type VerifierKey,
  verifyBlock,
  verifyConsistency,
} from '../../chain/index.ts'
import { BlobStore, EffectError, fileExists, type Store } from '../../storage/index.ts'
import { type DecodedBlock, decodeBlock } from '../decoded-block.ts'
import { writeDurably } from '../durable-file.ts'
import { type Platform, systemPlatform } from '../platform.ts'
import { ChainContents } from './chain-contents.ts'
import { PeerError } from './errors.ts'
import { type Evidence, evidenceIn, keepEvidence } from './evidence.ts'
import { openedHead, type SignedHead } from './signed-head.ts'

/** The newest signed head that the mirror reaches. */
const CHECKPOINT_FILE = 'checkpoint'
/** The newest signed head that was ever believed; the mirror may still be on its way there. */
const SEEN_FILE = 'seen'

/** Pieces of upkeep at a time; what they leave is gone on with in the next round. */
const TIDY_PIECES_MAX = 64

/** Proves that the log of `to` blocks begins with the one of `from`. */
export type Prove = (from: number, to: number) => Promise<readonly Uint8Array[]>

/** How a mirror is opened. */
export interface MirrorOptions {
  /** Its own folder; made when it is missing. */
  readonly folder: string
  readonly serverId: number
  readonly key: VerifierKey
  /** False where the folder goes with the process. */
  readonly durable: boolean
  /** Where the contents of its attachments are kept; its own folder when absent. */
  readonly contentsFolder?: string
  /** The most bytes of one of them; no bound of its own when absent. */
  readonly contentBytesMax?: number
  /** Absent: as it is. */
  readonly platform?: Pick<Platform, 'openStore'>
}

/**
 * The chain of another node, kept here. A block is stored when it was recomputed, follows the one
 * before it, and is proven to be in the log that the node's key has signed; else not.
 *
 * What a crash leaves, at each point: the store has whole pages of blocks (one transaction each), and
 * its head is where the next round goes on. `seen` is written before the first block of a round, so it
 * is never behind what was stored; `checkpoint` after the last, so it is never ahead.
 */
export class Mirror {
  /** The contents of its attachments. */
  readonly contents: ChainContents
  readonly #options: MirrorOptions
  readonly #store: Store
  readonly #files: BlobStore
  #head: Head | null
  #frontier: Frontier
  #seen: SignedHead | null
  /** What this run has kept as the newest head that the mirror reaches. */
  #keptNote: string | null = null

  private constructor(
    options: MirrorOptions,
    { store, files }: { store: Store; files: BlobStore },
    state: { head: Head | null; frontier: Frontier; seen: SignedHead | null },
  ) {
    this.#options = options
    this.#store = store
    this.#files = files
    const { contentBytesMax = Number.POSITIVE_INFINITY } = options
    this.contents = new ChainContents(store.attachments, files, contentBytesMax)
    this.#head = state.head
    this.#frontier = state.frontier
    this.#seen = state.seen
  }

  /** Errors: StoreError; ProofError when a file of it was changed. */
  static async open(options: MirrorOptions): Promise<Mirror> {
    const { folder, serverId, durable, platform = systemPlatform } = options
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const store = platform.openStore({ folder, serverId, durable })
    try {
      const head = await store.head(serverId)
      const size = head === null ? 0 : head.height + 1
      const frontier = await frontierAt(size, (nodes) => store.treeNodes(serverId, nodes))
      const seen = await keptHead(folder, SEEN_FILE, options.key)
      const { contentsFolder = folder } = options
      const files = new BlobStore(contentsFolder, store.attachments, durable)
      if (contentsFolder === folder) await files.recover()
      return new Mirror(options, { store, files }, { head, frontier, seen })
    } catch (error) {
      await store.close()
      throw error
    }
  }

  /** How many blocks are stored. */
  get size(): number {
    return this.#frontier.size
  }

  /** How many blocks the newest signed head has, stored or not. */
  get seenSize(): number {
    return Math.max(this.#seen?.size ?? 0, this.size)
  }

  /** What was found against the key of this chain, or null. */
  get evidence(): Evidence | null {
    return evidenceIn(this.#options.folder)
  }

  /** The head that `note` is, signed by the key of the chain. Errors: ProofError. */
  opened(note: string): Promise<SignedHead> {
    return openedHead(this.#options.key, note)
  }

  /**
   * Believes `head` when it continues the ones before, or they continue it. What contradicts is kept as
   * evidence. Errors: LOG_UNPROVEN, MIRROR_FROZEN; those of `prove`.
   */
  async follow(head: SignedHead, prove: Prove): Promise<void> {
    const seen = this.#seen
    if (head.size <= this.size) {
      if (equalBytes(await this.rootAt(head.size), head.root)) this.#refuseFrozen()
      else throw this.contradicted(head, 'the blocks that are kept here give another root')
      if (head.size === this.size) this.#keepCheckpoint(head)
    } else if (seen !== null && head.size === seen.size) {
      if (!equalBytes(seen.root, head.root)) throw this.contradicted(head, 'one size, two roots')
    } else if (seen !== null) {
      // Also a smaller one: blocks are only taken that the newest one has, or they could not accuse.
      const [from, to] = head.size < seen.size ? [head, seen] : [seen, head]
      const proof = await prove(from.size, to.size)
      if (!verifyConsistency(nodeSha256, from, to, proof)) throw unproven(from.size, to.size)
    }
    this.#refuseFrozen()
    await this.#tidy()
    if (head.size > (seen?.size ?? -1)) {
      this.#seen = head
      writeDurably(join(this.#options.folder, SEEN_FILE), head.note)
    }
  }

  /**
   * Stores the blocks that `values` stand for, which follow the last one, when all of them are in the
   * log of `head`, which was followed: all of them, or none.
   * Errors: BLOCK_REFUSED, LOG_UNPROVEN, MIRROR_FROZEN, StoreError; those of `prove`.
   */
  async take(
    values: readonly (Json | CutBlock)[],
    head: SignedHead,
    prove: Prove,
  ): Promise<number> {
    this.#refuseFrozen()
    const { played, last, frontier } = this.#recomputed(values)
    const { size } = frontier
    if (last === null || size > head.size) {
      throw new PeerError('BLOCK_REFUSED', 'there are no blocks, or more than are signed')
    }
    const proof = size === head.size ? [] : await prove(size, head.size)
    const grownTo = { size, root: rootOf(nodeSha256, frontier) }
    if (!verifyConsistency(nodeSha256, grownTo, head, proof)) throw unproven(size, head.size)
    await this.#erasing(played, () => this.#append(played))
    this.#head = last
    this.#frontier = frontier
    if (size === head.size) this.#keepCheckpoint(head)
    await this.#tidy()
    return played.reduce((sum, { block }) => sum + block.entries.length, 0)
  }

  /**
   * Keeps `head` as evidence beside the newest one that was seen: both are signed, and not both can be
   * true. From then on nothing is added. The result is to be thrown.
   */
  contradicted(head: SignedHead, what: string): PeerError {
    if (this.#seen !== null) {
      keepEvidence(this.#options.folder, { what, notes: [this.#seen.note, head.note] })
    }
    return new PeerError(
      'MIRROR_FROZEN',
      `the key of ${head.origin} has signed two histories: ${what}`,
    )
  }

  /** Heads of the log that every other signed one must continue: of what is stored, and the newest seen. */
  async known(): Promise<{ readonly size: number; readonly root: Uint8Array }[]> {
    const stored = { size: this.size, root: await this.rootAt(this.size) }
    return this.#seen === null ? [stored] : [stored, this.#seen]
  }

  /** The root of the log of the first `size` blocks, which are stored. */
  async rootAt(size: number): Promise<Uint8Array> {
    const { serverId } = this.#options
    const read = (nodes: Parameters<Store['treeNodes']>[1]) =>
      this.#store.treeNodes(serverId, nodes)
    return rootOf(nodeSha256, await frontierAt(size, read))
  }

  async close(): Promise<void> {
    const { folder, contentsFolder = folder } = this.#options
    // What lies elsewhere is named by nothing there yet: whoever opens that looks for what is left.
    if (contentsFolder === folder) await this.#files.close()
    await this.#store.close()
  }

  /** What waits for longer, such as erased bytes for a reader that looks at them, is done by and by. */
  async #tidy(): Promise<void> {
    for (let piece = 0; piece < TIDY_PIECES_MAX; piece += 1) {
      if (!(await this.#store.maintain())) return
    }
  }

  #refuseFrozen(): void {
    const { evidence } = this
    if (evidence === null) return
    throw new PeerError('MIRROR_FROZEN', `the key has signed two histories: ${evidence.what}`)
  }

  #keepCheckpoint({ note }: SignedHead): void {
    // Most rounds find the same again: that is no reason to wait for the disk.
    if (note === this.#keptNote) return
    writeDurably(join(this.#options.folder, CHECKPOINT_FILE), note)
    this.#keptNote = note
  }

  #recomputed(values: readonly (Json | CutBlock)[]) {
    const { serverId } = this.#options
    const played: DecodedBlock[] = []
    let last = this.#head
    let frontier = this.#frontier
    for (const value of values) {
      const height = frontier.size
      const one = decodeBlock(value, serverId, height)
      if ('what' in one) throw refused(height, one)
      const { block } = one
      const fault = verifyBlock(block, last, erasedIn(block))
      if (fault !== null) throw refused(height, fault)
      const leaf = leafHash(nodeSha256, Buffer.from(headerText(headerOf(block))))
      frontier = grown(nodeSha256, frontier, leaf).frontier
      last = headOf(block)
      played.push(one)
    }
    return { played, last: played.length === 0 ? null : last, frontier }
  }

  /** Runs `append`; contents that no entry names any more because of erasures go with it. */
  async #erasing(played: readonly DecodedBlock[], append: () => Promise<void>): Promise<void> {
    const freed: string[] = []
    for (const effect of played.flatMap(({ effects }) => effects)) {
      if (effect.kind !== 'erase_item') continue
      for (const position of effect.positions) {
        const [row] = await this.#store.attachments.byPosition(position - 1, 1)
        if (row?.position === position) freed.push(row.sha256)
      }
    }
    if (freed.length === 0) await append()
    else {
      const erase = () => append().then(() => ({ result: undefined, freed }))
      // Whatever went wrong: the next start looks.
      await this.#files.erasing(erase, () => true)
    }
  }

  async #append(played: readonly DecodedBlock[]): Promise<void> {
    await this.#store.transaction(async () => {
      for (const { block, effects } of played) {
        try {
          await this.#store.append(block, effects)
        } catch (error) {
          if (!(error instanceof EffectError)) throw error
          const index = effects.findIndex(({ position }) => position === error.position)
          throw refused(block.height, { index, what: error.message })
        }
      }
    })
  }
}

/** Whether the mirror in `folder` has seen a signed head. */
export function isSignedMirror(folder: string): boolean {
  return fileExists(join(folder, SEEN_FILE))
}

/** The head kept in a mirror's folder that the mirror reaches, or null. Errors: ProofError. */
export function keptCheckpoint(folder: string, key: VerifierKey): Promise<SignedHead | null> {
  return keptHead(folder, CHECKPOINT_FILE, key)
}

async function keptHead(
  folder: string,
  name: string,
  key: VerifierKey,
): Promise<SignedHead | null> {
  const path = join(folder, name)
  if (!fileExists(path)) return null
  return openedHead(key, readFileSync(path, 'utf8'))
}

function refused(height: number, { index, what }: { index: number | null; what: string }) {
  const where = index === null ? `block ${height}` : `block ${height}, entry ${index}`
  return new PeerError('BLOCK_REFUSED', `${where}: ${what}`)
}

function unproven(from: number, to: number): PeerError {
  return new PeerError(
    'LOG_UNPROVEN',
    `the log of ${to} blocks is not proven to continue the one of ${from}`,
  )
}
