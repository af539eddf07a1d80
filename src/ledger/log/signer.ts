import { type KeyObject, sign } from 'node:crypto'
import {
  type Checkpoint,
  checkpointOf,
  checkpointText,
  EMPTY_FRONTIER,
  equalBytes,
  frontierAt,
  logOrigin,
  nodeSha256,
  ProofError,
  rootOf,
  signedNote,
  type VerifierKey,
} from '../../chain/index.ts'
import { ChainWalk, StoreError, type StoreReader } from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import type { SignedHead } from './signed-head.ts'

/** Entries recomputed for one signature at most, or one page of blocks: some tenths of a second. */
const ENTRIES_PER_SIGNATURE = 50_000

/** A head that was signed. */
export interface Signed {
  readonly size: number
  /** The signed note. */
  readonly note: string
  /** Whether there was more to recompute than is done at a time. */
  readonly isBehind: boolean
}

/** Whose log is signed. */
export interface LogKey {
  readonly verifier: VerifierKey
  readonly privateKey: KeyObject
}

/**
 * Refuses a store that contradicts what was signed: one that is shorter was put back to an older
 * state, and going on from there would make a second history under the same key.
 *
 * Errors: STORE_ROLLED_BACK, LOG_CONTRADICTED, LOG_HEAD_DAMAGED.
 */
export async function expectSignedHead(store: StoreReader, kept: SignedHead): Promise<void> {
  const signed = kept.read()
  if (signed === null) return
  const { serverId } = store
  if (signed.origin !== logOrigin(serverId)) {
    throw new LedgerError('LOG_CONTRADICTED', `the signed head is of ${signed.origin}`)
  }
  const head = await store.head(serverId)
  const size = head === null ? 0 : head.height + 1
  if (size < signed.size) {
    throw new LedgerError(
      'STORE_ROLLED_BACK',
      `the store has ${size} blocks, but this node has signed ${signed.size}: an older state was put ` +
        'back; restore a state with all of them, or the chain would be forked',
    )
  }
  const frontier = await frontierAt(signed.size, (nodes) => store.treeNodes(serverId, nodes))
  if (equalBytes(rootOf(nodeSha256, frontier), signed.root)) return
  throw new LedgerError(
    'LOG_CONTRADICTED',
    `the first ${signed.size} blocks of the store are not those that this node has signed`,
  )
}

/**
 * What the store contradicts in `text`, the content of a `signed-head`, in one sentence; null when it has all
 * that was signed. To be asked with a view that was taken after `text` was read: what is signed was committed.
 */
export async function contradictionOf(store: StoreReader, text: string): Promise<string | null> {
  try {
    const head = checkpointOf(text)
    await expectSignedHead(store, { read: () => head, write() {} })
    return null
  } catch (error) {
    if (error instanceof ProofError) return 'the file of the signed head does not hold one'
    if (error instanceof LedgerError) return error.message
    throw error
  }
}

/**
 * Refuses a folder without a store in which there was one: a store that is made anew under the same key
 * would be a second history. To be called before a store is made.
 *
 * Errors: STORE_ROLLED_BACK, LOG_HEAD_DAMAGED.
 */
export function expectNoHead(folder: string, kept: SignedHead): void {
  const signed = kept.read()
  if (signed === null) return
  const blocks = signed.size === 0 ? '' : `, of which ${signed.size} blocks are signed`
  throw new LedgerError(
    'STORE_ROLLED_BACK',
    `${folder} has lost its store${blocks}: put it back, or have the chain restored or imported; ` +
      'a new one under the same key would fork the chain',
  )
}

/**
 * Keeps the head of the empty log, which every log continues, where none was ever kept: from then on,
 * and before anything is written, there is something that a lost store contradicts.
 *
 * A crash before it leaves a store that nothing was written to since, and the next start comes here.
 */
export function beginSigning(kept: SignedHead, origin: string): void {
  if (kept.read() !== null) return
  kept.write({ origin, size: 0, root: rootOf(nodeSha256, EMPTY_FRONTIER) })
}

/**
 * Signs the log of one store, and never anything that contradicts what it signed before: it walks the
 * chain once, from the last signed head on, recomputes all of it from what is on the disk, and signs
 * what came out.
 *
 * What a crash leaves, at each point of `advance`:
 * - while it walks: nothing changed; the next signer begins at the last signed head again.
 * - before or inside `write`: the old head is kept or the new one, never half of it. The new one is
 *   true, it was recomputed from a durable store, and nobody has seen it.
 * - after `write`, before the note is given out: the same; it is signed anew when it is asked for.
 * So the head that is kept is never behind a note that somebody holds.
 */
export class LogSigner {
  readonly #store: StoreReader
  readonly #kept: SignedHead
  readonly #key: LogKey
  readonly #walk: ChainWalk
  #signed: Signed | null = null

  private constructor(store: StoreReader, kept: SignedHead, key: LogKey, walk: ChainWalk) {
    this.#store = store
    this.#kept = kept
    this.#key = key
    this.#walk = walk
  }

  /** Errors: as `expectSignedHead`. */
  static async open(store: StoreReader, kept: SignedHead, key: LogKey): Promise<LogSigner> {
    await expectSignedHead(store, kept)
    const walk = await ChainWalk.from(store, kept.read()?.size ?? 0)
    return new LogSigner(store, kept, key, walk)
  }

  /**
   * Recomputes what was committed since, or a good part of it, and signs the log up to there.
   * Errors: LOG_CONTRADICTED when the store does not hold; then nothing is signed any more. STORE_DAMAGED
   * when it cannot be read; then the next call tries again.
   */
  async advance(): Promise<Signed> {
    this.#store.refresh()
    let entries = 0
    while (entries < ENTRIES_PER_SIGNATURE) {
      const { blocks, finding } = await this.#walk.next()
      // An I/O error may pass.
      if (finding?.isUnread === true) throw new StoreError('STORE_DAMAGED', finding.what)
      if (finding !== null) {
        const where = finding.height === null ? '' : ` at height ${finding.height}`
        throw new LedgerError(
          'LOG_CONTRADICTED',
          `the store does not hold${where}: ${finding.what}`,
        )
      }
      if (blocks.length === 0) break
      for (const block of blocks) entries += block.entries.length
    }
    const { size } = this.#walk.frontier
    const isBehind = entries >= ENTRIES_PER_SIGNATURE
    if (this.#signed?.size === size) return { ...this.#signed, isBehind }
    const { verifier, privateKey } = this.#key
    const root = rootOf(nodeSha256, this.#walk.frontier)
    const head: Checkpoint = { origin: verifier.name, size, root }
    this.#kept.write(head)
    const note = signedNote(nodeSha256, verifier, checkpointText(head), (message) =>
      sign(null, message, privateKey),
    )
    this.#signed = { size, note, isBehind }
    return this.#signed
  }
}
