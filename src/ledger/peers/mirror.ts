import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileExists } from '../../base/files/durable-files.ts'
import {
  type ChainState,
  ChainVerifier,
  type Evidence,
  equalBytes,
  findContradiction,
  frontierAt,
  frontierRoot,
  isStateEvidence,
  logOrigin,
  type RawBlock,
  type VerifierKey,
  verifyConsistency,
} from '../../chain/index.ts'
import {
  type BlobStore,
  EffectError,
  type Folder,
  lockFolder,
  openBlobStore,
  type Store,
  StoreError,
  type StoreReader,
  writeDurably,
} from '../../storage/index.ts'
import { rootAt } from '../log/signed-head.ts'
import { type Platform, systemPlatform } from '../platform.ts'
import { type DecodedBlock, decodeNextBlock } from '../write/decoded-block.ts'
import { ChainBlobs } from './blobs.ts'
import type { BlockPage } from './block-page.ts'
import { ComparedState } from './compared-state.ts'
import { PeerError } from './errors.ts'
import {
  CheckpointVerifier,
  type KnownLog,
  readEvidence,
  type SignedCheckpoint,
  type StoredBlocks,
  shownLog,
  storedLog,
  storeEvidence,
} from './evidence.ts'
import type { ChainSource } from './peer-client.ts'
import { MirrorTurns } from './turns.ts'

/** Name of the subfolder of a data folder that contains one folder per mirror. */
export const MIRRORS_FOLDER = 'mirrors'
/** File with the verifier key of the mirrored chain. */
export const VKEY_FILE = 'vkey'
/** File with the newest signed head whose blocks are all stored. */
const CHECKPOINT_FILE = 'checkpoint'
/** File with the newest signed head that was accepted, even if some blocks of this head are still missing. */
const SEEN_FILE = 'seen'
/** Maximum maintenance steps of the store after a change or a sync. The next change or sync continues. */
const MAINTENANCE_STEPS_MAX = 64

/** Returns the folder of the mirror of the chain of `serverId`. */
export function mirrorFolder(folder: string, serverId: number): string {
  return join(folder, MIRRORS_FOLDER, `${serverId}`)
}

/** Returns whether `folder` contains a mirror. */
export function isMirrorFolder(folder: string): boolean {
  return fileExists(join(folder, VKEY_FILE))
}

/** Returns whether the mirror in `folder` has accepted a signed head. */
export function isSignedMirror(folder: string): boolean {
  return fileExists(join(folder, SEEN_FILE))
}

/** Returns the newest signed head whose blocks the mirror in `folder` has, or null. Errors: ProofError. */
export function storedCheckpoint(
  folder: string,
  checkpoints: CheckpointVerifier,
): Promise<SignedCheckpoint | null> {
  return readCheckpoint(join(folder, CHECKPOINT_FILE), checkpoints)
}

async function readCheckpoint(
  path: string,
  checkpoints: CheckpointVerifier,
): Promise<SignedCheckpoint | null> {
  return fileExists(path) ? checkpoints.open(readFileSync(path, 'utf8')) : null
}

/** Fetches the proof that the log of `to` blocks begins with the log of `from` blocks. */
export type FetchProof = (from: number, to: number) => Promise<readonly Uint8Array[]>

export interface MirrorOptions {
  /** Folder of the mirror; created if it is missing. */
  readonly folder: string
  readonly serverId: number
  readonly key: VerifierKey
  /** Whether changes must survive a power cut; false for a temporary folder. */
  readonly durable: boolean
  /** Maximum bytes of a blob; default: no limit. */
  readonly blobBytesMax?: number
  readonly platform?: Pick<Platform, 'openStore'>
}

interface OpenedMirror {
  readonly lock: Folder
  readonly store: Store
  readonly files: BlobStore
  readonly checkpoints: CheckpointVerifier
  readonly chain: ChainState
  readonly seen: SignedCheckpoint | null
}

/**
 * A copy of the chain of another node. A block is stored only if its recomputed hashes are correct, it follows the
 * last block, and it is proven to be in the log that the node's key has signed.
 *
 * After a crash, the store has complete pages of blocks (one transaction each), and the next sync continues from
 * its head. `seen` is written before the first block of a sync, so it is never behind the store; `checkpoint` is
 * written after the last block, so it is never ahead of the store.
 */
export class Mirror {
  readonly blobs: ChainBlobs
  readonly #options: MirrorOptions
  readonly #lock: Folder
  readonly #store: Store
  /** Reads the store, but waits for an append in progress, because the store must not be used during an append. */
  readonly #idleStore: StoredBlocks & Pick<StoreReader, 'blocks'>
  /** The append in progress, or null. */
  #appending: Promise<void> | null = null
  readonly #files: BlobStore
  readonly #checkpoints: CheckpointVerifier
  readonly #state: ComparedState
  #isComparingState = false
  #chain: ChainState
  #seen: SignedCheckpoint | null
  /** The note in the checkpoint file if this object has written it, otherwise null. */
  #checkpointNote: string | null = null

  private constructor(options: MirrorOptions, opened: OpenedMirror) {
    this.#options = options
    this.#lock = opened.lock
    this.#store = opened.store
    const { store } = opened
    this.#idleStore = {
      serverId: store.serverId,
      treeNodes: (...nodes) => this.#whenIdle(() => store.treeNodes(...nodes)),
      headers: (...range) => this.#whenIdle(() => store.headers(...range)),
      blocks: (...range) => this.#whenIdle(() => store.blocks(...range)),
    }
    this.#state = new ComparedState(options.folder, this.#idleStore, options.key)
    this.#files = opened.files
    this.blobs = new ChainBlobs(opened.store.attachments, opened.files, options.blobBytesMax)
    this.#checkpoints = opened.checkpoints
    this.#chain = opened.chain
    this.#seen = opened.seen
  }

  /**
   * Opens a mirror, or creates an empty mirror. Locks its folder, so that no node with the key of the chain continues the
   * chain in it. Errors: StoreError; ProofError if a file of the mirror was changed.
   */
  static async open(options: MirrorOptions): Promise<Mirror> {
    const { folder, serverId, durable, platform = systemPlatform } = options
    const lock = lockFolder(folder)
    let opened: Store | null = null
    try {
      const store = await platform.openStore({ location: folder, serverId, durable })
      opened = store
      const checkpoints = new CheckpointVerifier(options.key)
      const head = await store.head(serverId)
      const size = head === null ? 0 : head.height + 1
      const frontier = await frontierAt(size, (nodes) => store.treeNodes(serverId, nodes))
      const seen = await readCheckpoint(join(folder, SEEN_FILE), checkpoints)
      const files = await openBlobStore(folder, store, durable)
      await files.recover()
      const mirror = new Mirror(options, {
        lock,
        store,
        files,
        checkpoints,
        chain: { head, frontier },
        seen,
      })
      // An earlier process may have left an erasure unfinished, and the source may be gone.
      await mirror.#maintain()
      return mirror
    } catch (error) {
      await opened?.close()
      lock.release()
      throw error
    }
  }

  get serverId(): number {
    return this.#options.serverId
  }

  /** Number of stored blocks. */
  get size(): number {
    return this.#chain.frontier.size
  }

  /** Number of blocks of the newest signed head, stored or not. */
  get seenSize(): number {
    return Math.max(this.#seen?.size ?? 0, this.size)
  }

  /** Evidence against the key of this chain, or null. */
  get evidence(): Evidence | null {
    return readEvidence(this.#options.folder)
  }

  /** Whether the key of this chain has signed two histories. */
  get isFrozen(): boolean {
    return this.evidence !== null && !isStateEvidence(this.evidence)
  }

  /** Verifies a checkpoint of this chain. Errors: ProofError. */
  opened(note: string): Promise<SignedCheckpoint> {
    return this.#checkpoints.open(note)
  }

  /**
   * Accepts and stores `head` if its log is consistent with the stored blocks and with the newest accepted head.
   * Errors: LOG_UNPROVEN, MIRROR_FROZEN; as for `prove`.
   */
  async acceptHead(head: SignedCheckpoint, prove: FetchProof): Promise<void> {
    const seen = this.#seen
    await this.requireConsistent(head, prove)
    this.#requireNotFrozen()
    if (head.size === this.size) this.#storeCheckpoint(head)
    await this.#maintain()
    if (head.size > (seen?.size ?? -1)) {
      writeDurably(join(this.#options.folder, SEEN_FILE), head.note)
      this.#seen = head
    }
  }

  /**
   * Checks that the log of `head` is consistent with the stored blocks and with the newest accepted head.
   * Errors: LOG_UNPROVEN; as for `prove`.
   */
  async requireConsistent(head: SignedCheckpoint, prove: FetchProof): Promise<void> {
    const seen = this.#seen
    if (head.size <= this.size) {
      if (equalBytes(await rootAt(this.#idleStore, head.size), head.root)) return
      throw new PeerError('LOG_UNPROVEN', 'the stored blocks do not match the signed root')
    }
    if (seen === null) return
    // A head that is smaller than `seen` also needs a proof, because the mirror does not have all blocks of `head` yet.
    const [from, to] = head.size < seen.size ? [head, seen] : [seen, head]
    const proof = from.size === to.size ? [] : await prove(from.size, to.size)
    if (!verifyConsistency(from, to, proof)) throw unproven(from.size, to.size)
  }

  /**
   * Stores blocks, all or none, if the log of `head` contains them. `head` must have been accepted. `blocks` begin at
   * height `from`; those that the mirror already has are left out. Returns the number of entries that were stored.
   * Errors: BLOCK_REFUSED, LOG_UNPROVEN, MIRROR_FROZEN, StoreError; as for `prove`.
   */
  async add(
    blocks: readonly RawBlock[],
    from: number,
    head: SignedCheckpoint,
    prove: FetchProof,
  ): Promise<number> {
    this.#requireNotFrozen()
    if (from + blocks.length <= this.size) return 0
    const { decoded, chain } = this.#verified(blocks.slice(this.size - from))
    const { size } = chain.frontier
    if (decoded.length === 0 || size > head.size) {
      throw new PeerError(
        'BLOCK_REFUSED',
        'the page has no blocks, or more blocks than the signed log',
      )
    }
    const proof = size === head.size ? [] : await prove(size, head.size)
    const treeHead = { size, root: frontierRoot(chain.frontier) }
    if (!verifyConsistency(treeHead, head, proof)) throw unproven(size, head.size)
    // Another sync may have found evidence while this one fetched the proof.
    this.#requireNotFrozen()
    // Updates the size before waiting readers continue, because they already see the new blocks.
    const appending = this.#append(decoded).then(() => {
      this.#chain = chain
    })
    this.#appending = appending.catch(() => {})
    await appending.finally(() => {
      this.#appending = null
    })
    if (size === head.size) this.#storeCheckpoint(head)
    await this.#maintain()
    return decoded.reduce((sum, { block }) => sum + block.entries.length, 0)
  }

  /**
   * Runs `work`, which uses data from the source of `other`. If `work` rejects the data, and the log of `other`
   * contradicts the log of this mirror, stores evidence and rejects with MIRROR_FROZEN instead.
   */
  async detectFork(other: KnownLog, work: () => Promise<void>): Promise<void> {
    this.#requireNotFrozen()
    try {
      await work()
    } catch (error) {
      const isRefusal = error instanceof PeerError && error.code !== 'MIRROR_FROZEN'
      const evidence = isRefusal ? await this.#evidenceAgainst(other) : null
      if (evidence === null) throw error
      storeEvidence(this.#options.folder, evidence)
      throw frozen(evidence)
    }
  }

  /**
   * Recomputes the state that the owner of the chain has signed in `note`, as soon as its blocks are stored, and stores
   * evidence if it is wrong. Errors: STATE_WRONG as long as there is evidence; LOG_UNPROVEN, MIRROR_FROZEN; ProofError.
   */
  async compareState(note: string): Promise<void> {
    if (this.evidence !== null) throw frozen(this.evidence)
    if (this.#isComparingState) return
    this.#isComparingState = true
    try {
      const state = await this.#state.next(note)
      if (state === null || state.size > this.size) return
      const checkpoint = { origin: logOrigin(this.serverId), ...state, root: state.log }
      const unread = () => Promise.reject(new Error('the log of a state is not read'))
      await this.detectFork({ checkpoint, prefix: unread, blocks: null }, () =>
        this.requireConsistent(checkpoint, unread),
      )
      const about = this.#checkpointNote ?? this.#seen?.note ?? note
      const evidence = await this.#state.compare(state, about)
      if (evidence === null) return
      storeEvidence(this.#options.folder, evidence)
      throw frozen(evidence)
    } finally {
      this.#isComparingState = false
    }
  }

  async close(): Promise<void> {
    this.#state.close()
    await this.#files.close()
    await this.#store.close()
    this.#lock.release()
  }

  async #whenIdle<Result>(read: () => Promise<Result>): Promise<Result> {
    while (this.#appending !== null) await this.#appending
    return read()
  }

  async #evidenceAgainst(other: KnownLog): Promise<Evidence | null> {
    const seen = this.#seen
    if (seen === null) return null
    const checkpoint = await this.#whenIdle(() =>
      storedCheckpoint(this.#options.folder, this.#checkpoints),
    )
    const { size } = this
    const logs = checkpoint === null ? [] : [storedLog(checkpoint, this.#idleStore)]
    if (seen.size > (checkpoint?.size ?? -1)) {
      const prefix = () => Promise.reject(new Error('its blocks are not stored'))
      const areBlocksStored = size >= seen.size
      logs.push(
        areBlocksStored
          ? storedLog(seen, this.#idleStore)
          : { checkpoint: seen, prefix, blocks: null },
      )
    }
    for (const log of logs) {
      const found = await findContradiction(log, other)
      if (found !== null) return { ...found, notes: [log.checkpoint.note, other.checkpoint.note] }
    }
    // Another sync may have stored missing blocks since, so that there is a proof now.
    return size === this.size ? null : this.#evidenceAgainst(other)
  }

  #requireNotFrozen(): void {
    const { evidence } = this
    // The blocks are right even if the state that the node has signed is wrong.
    if (evidence !== null && this.isFrozen) throw frozen(evidence)
  }

  #storeCheckpoint({ note }: SignedCheckpoint): void {
    // Most syncs find the same head, so this check avoids most waits for the disk.
    if (note === this.#checkpointNote) return
    writeDurably(join(this.#options.folder, CHECKPOINT_FILE), note)
    this.#checkpointNote = note
  }

  /**
   * Runs pending maintenance, such as overwriting erased bytes after their last reader has finished. Without the space
   * for it, the next sync tries again.
   */
  async #maintain(): Promise<void> {
    try {
      for (let step = 0; step < MAINTENANCE_STEPS_MAX; step += 1) {
        if (!(await this.#store.maintain())) return
      }
    } catch (error) {
      if (!(error instanceof StoreError) || error.code !== 'STORE_FULL') throw error
    }
  }

  #verified(values: readonly RawBlock[]) {
    const chain = new ChainVerifier(this.#chain)
    const decoded = values.map((value) => {
      const one = decodeNextBlock(value, this.#options.serverId, chain)
      if ('what' in one) throw refused(chain.size, one.index, one.what)
      return one
    })
    return { decoded, chain: chain.state }
  }

  /** Appends blocks, and removes the blobs to which no entry refers any more after the erasures in these blocks. */
  async #append(decoded: readonly DecodedBlock[]): Promise<void> {
    const append = () =>
      appendBlocks(this.#store, decoded, ({ block }, index, what) =>
        refused(block.height, index, what),
      )
    const freed = await this.#erasedBlobs(decoded)
    if (freed.length === 0) return append()
    const erase = () => append().then(() => ({ result: undefined, freed }))
    // `() => true`: after any error, the erasure may be stored, so the next start must check the freed blobs.
    return this.#files.eraseRows(erase, () => true)
  }

  async #erasedBlobs(decoded: readonly DecodedBlock[]): Promise<string[]> {
    const blobs: string[] = []
    for (const effect of decoded.flatMap(({ effects }) => effects)) {
      if (effect.kind !== 'erase_item') continue
      for (const position of effect.positions) {
        const [row] = await this.#store.attachments.byPosition(position - 1, 1)
        if (row?.position === position) blobs.push(row.sha256)
      }
    }
    return blobs
  }
}

/**
 * Appends blocks with their effects in one transaction. `fault` creates the error for an entry whose effect is
 * impossible, such as a change of an item that does not exist.
 */
export async function appendBlocks<Decoded extends DecodedBlock>(
  store: Store,
  blocks: readonly Decoded[],
  fault: (block: Decoded, index: number, what: string) => Error,
): Promise<void> {
  await store.transaction(async () => {
    for (const decoded of blocks) {
      const { block, effects } = decoded
      try {
        await store.append(block, effects)
      } catch (error) {
        if (!(error instanceof EffectError)) throw error
        const index = effects.findIndex(({ position }) => position === error.position)
        throw fault(decoded, index, error.message)
      }
    }
  })
}

function frozen(evidence: Evidence): PeerError {
  const { what } = evidence
  if (isStateEvidence(evidence)) return new PeerError('STATE_WRONG', what)
  return new PeerError('MIRROR_FROZEN', `the key has signed two histories: ${what}`)
}

function refused(height: number, index: number | null, what: string): PeerError {
  const where = index === null ? `block ${height}` : `block ${height}, entry ${index}`
  return new PeerError('BLOCK_REFUSED', `${where}: ${what}`)
}

function unproven(from: number, to: number): PeerError {
  return new PeerError(
    'LOG_UNPROVEN',
    `the proof does not show that the log of ${to} blocks continues the log of ${from} blocks`,
  )
}

const BLOCKS_AT_FIRST = 8
const BLOCKS_MAX = 1_024
/** Target bytes of a page of blocks. */
const PAGE_BYTES = 2 * 1024 * 1024

/** Called after each page. `entries` is the number of entries that this sync has stored so far. */
export type PullProgress = (done: { blocks: number; ofBlocks: number; entries: number }) => void

/** Number of blocks to request per page, adapted to their size. Shared by all syncs with a peer. */
export class PageLimit {
  blocks = BLOCKS_AT_FIRST

  /** Adapts the limit to the size of the blocks in the last page. */
  adapt({ from, end, bytes }: BlockPage): void {
    const fitting = Math.floor((PAGE_BYTES * (end - from)) / bytes)
    this.blocks = Math.max(1, Math.min(BLOCKS_MAX, fitting))
  }
}

/** Maximum attempts to change a mirror while other nodes change it too. */
const ATTEMPTS_MAX = 8

export interface PullOptions {
  readonly progress?: PullProgress
  readonly limit?: PageLimit
  /** The turns of all tasks that change mirrors. */
  readonly turns?: MirrorTurns
}

/**
 * Copies the missing blocks from `source` to `mirror`, up to the newest signed head, page by page. Several sources may
 * do so at the same time: a mirror changes only in a turn, during which nothing is fetched. After an error, the pages
 * that were already stored stay. Errors: PeerError, ProofError, OutboundError, StoreError.
 */
export async function pull(
  mirror: Mirror,
  source: ChainSource,
  { progress = () => {}, limit = new PageLimit(), turns = new MirrorTurns() }: PullOptions = {},
): Promise<void> {
  const head = await mirror.opened(await source.checkpoint())
  const pageAt = (from: number) =>
    startEarly(async () => source.blocks(from, Math.min(limit.blocks, head.size - from)))
  await mirror.detectFork(shownLog(head, source), async () => {
    // Requests the first page before the head is accepted, to save time. If the head is rejected, the page is not used.
    let next = mirror.size < head.size ? pageAt(mirror.size) : null
    let entries = 0
    try {
      const proofs = new Proofs(source)
      await proofs.inTurn(turns, (prove) => mirror.acceptHead(head, prove))
      while (next !== null) {
        const page: BlockPage = await next
        limit.adapt(page)
        const from = Math.max(page.end, mirror.size)
        // Requests the next page now, so that the source prepares it while this page is verified and stored.
        next = from < head.size ? pageAt(from) : null
        entries += await storePage(mirror, page, { head, source, turns })
        progress({ blocks: mirror.size, ofBlocks: head.size, entries })
      }
    } finally {
      next?.then(({ transfer }) => transfer.close()).catch(() => {})
    }
  })
}

/** Stores a page, and closes its transfer. Returns the number of entries that were stored. */
async function storePage(
  mirror: Mirror,
  page: BlockPage,
  { head, source, turns }: { head: SignedCheckpoint; source: ChainSource; turns: MirrorTurns },
): Promise<number> {
  try {
    if (page.end <= mirror.size) return 0
    const proofs = new Proofs(source, page.transfer.signal)
    if (page.end < head.size) await proofs.fetch(page.end, head.size)
    return await proofs.inTurn(turns, async (prove) => {
      page.transfer.signal.throwIfAborted()
      return mirror.add(page.blocks(), page.from, head, prove)
    })
  } finally {
    page.transfer.close()
  }
}

/** Fetched consistency proofs. */
class Proofs {
  readonly #source: ChainSource
  readonly #signal: AbortSignal | undefined
  readonly #fetched = new Map<string, readonly Uint8Array[]>()

  constructor(source: ChainSource, signal?: AbortSignal) {
    this.#source = source
    this.#signal = signal
  }

  async fetch(from: number, to: number): Promise<void> {
    this.#fetched.set(`${from} ${to}`, await this.#source.consistency(from, to, this.#signal))
  }

  /** Runs `task` in a turn. If it needs a proof, ends the turn, fetches the proof and runs the task again. */
  async inTurn<Result>(
    turns: MirrorTurns,
    task: (prove: FetchProof) => Promise<Result>,
  ): Promise<Result> {
    for (let attempt = 1; ; attempt += 1) {
      let needed: readonly [number, number] | null = null
      const prove = async (from: number, to: number) => {
        const proof = this.#fetched.get(`${from} ${to}`)
        if (proof !== undefined) return proof
        needed = [from, to]
        throw unproven(from, to)
      }
      try {
        return await turns.run(() => task(prove))
      } catch (error) {
        if (needed === null || attempt === ATTEMPTS_MAX) throw error
        await this.fetch(...(needed as [number, number]))
      }
    }
  }
}

/**
 * Compares the newest signed head of `source` with `mirror`, without adding blocks. A head with more or fewer blocks is
 * not in itself a contradiction. Errors: MIRROR_FROZEN if the key has signed two histories; as for `pull` if `source`
 * sends no valid proof.
 */
export async function compare(mirror: Mirror, source: ChainSource): Promise<void> {
  if (mirror.isFrozen) return
  const head = await mirror.opened(await source.checkpoint())
  await mirror.detectFork(shownLog(head, source), () =>
    mirror.requireConsistent(head, (from, to) => source.consistency(from, to)),
  )
}

/** Starts `work` before its result is needed. An error is reported when the result is awaited. */
function startEarly<Value>(work: () => Promise<Value>): Promise<Value> {
  const result = work()
  result.catch(() => {})
  return result
}
