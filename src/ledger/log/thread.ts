import { type KeyObject, sign } from 'node:crypto'
import { parentPort, workerData } from 'node:worker_threads'
import { CodedError } from '../../base/coded-error.ts'
import {
  type Checkpoint,
  checkpointText,
  rootOf,
  signedNote,
  type VerifierKey,
} from '../../chain/index.ts'
import { ChainWalk, openStoreReader, StoreError, type StoreReader } from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import type { ThreadPort } from '../platform.ts'
import { expectSignedHead, type SignedHead, signedHeadIn, temporaryHead } from './signed-head.ts'

// The worker thread that recomputes the chain and signs the log, so that requests and commits need not wait.

/** Maximum entries recomputed per signature, beyond the first page of blocks: some tenths of a second. */
const ENTRIES_PER_SIGNATURE = 50_000
/** Maximum time for the last signature. Blocks that are not recomputed by then are left to the next run. */
const LAST_MS_MAX = 2_000

interface LogKey {
  readonly verifier: VerifierKey
  readonly privateKey: KeyObject
}

/** `workerData` of the thread. */
export interface SignerStart extends LogKey {
  readonly folder: string
  /** False for a temporary folder. */
  readonly lasting: boolean
}

/** To the thread: sign the committed blocks; or finish, sign once more, and end. */
export type ToSigner = 'sign' | 'close'

/** From the thread. `contradicted`: the store is not what was signed, so nothing more will be signed. */
export type FromSigner =
  | { readonly kind: 'signed'; readonly signed: Signed }
  | { readonly kind: 'failed'; readonly message: string; readonly contradicted: boolean }

/** A signed head. */
export interface Signed {
  readonly size: number
  /** The signed note. */
  readonly note: string
  /** Whether more blocks were committed than are recomputed at a time. */
  readonly isBehind: boolean
}

/**
 * Signs the log of one store, and never a head that contradicts an earlier one: from the last signed head
 * on it recomputes every block from the disk, and signs the result.
 *
 * After a crash in `advance`:
 * - before or while the head is written: the file holds the old head or the new one. The new one is true,
 *   since it was recomputed from durable blocks, and nobody has seen its signature.
 * - after that: the new head is signed again on request.
 * So the stored head is never behind a note that somebody holds.
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
   * Recomputes the blocks committed since the last call, up to a bound, and signs the log up to there.
   * Errors: LOG_CONTRADICTED if the store is wrong, then for good; STORE_DAMAGED if it cannot be read,
   * then the next call tries again.
   */
  async advance(): Promise<Signed> {
    const entries = await this.#recompute()
    const { size } = this.#walk.frontier
    const isBehind = entries >= ENTRIES_PER_SIGNATURE
    if (this.#signed?.size === size) return { ...this.#signed, isBehind }
    const { verifier, privateKey } = this.#key
    const root = rootOf(this.#walk.frontier)
    const head: Checkpoint = { origin: verifier.name, size, root }
    this.#kept.write(head)
    const note = signedNote(verifier, checkpointText(head), (message) =>
      sign(null, message, privateKey),
    )
    this.#signed = { size, note, isBehind }
    return this.#signed
  }

  /** Returns the number of recomputed entries. */
  async #recompute(): Promise<number> {
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
    return entries
  }
}

/** Runs the thread: signs on request, until a message at `port` closes it. */
export function serveSigner(start: SignerStart, port: ThreadPort): void {
  const { folder, lasting, verifier, privateKey } = start
  const send = (message: FromSigner) => port.postMessage(message)
  const kept = lasting ? signedHeadIn(folder) : temporaryHead()
  const store = openStoreReader(folder, { frozen: false })
  let opened: Promise<LogSigner> | null = null
  // A failure to open may pass, so the next request opens it again.
  const signer = () => {
    opened ??= LogSigner.open(store, kept, { verifier, privateKey }).catch((error: unknown) => {
      opened = null
      throw error
    })
    return opened
  }
  const sign = async () => {
    try {
      send({ kind: 'signed', signed: await (await signer()).advance() })
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error)
      // Other errors, such as a full disk, may pass.
      const contradicted = error instanceof CodedError && error.code === 'LOG_CONTRADICTED'
      send({ kind: 'failed', message, contradicted })
    }
  }
  const close = async () => {
    try {
      if (lasting) await signRest(await signer())
    } catch {
      // Nobody waits for the last signature, and nothing depends on it.
    }
    await store.close()
    port.close()
  }
  let last: Promise<unknown> = signer().catch(() => {})
  port.on('message', (message: ToSigner) => {
    last = message === 'close' ? last.then(close) : sign()
  })
}

/** After a crash in between, the stored head is one of those on the way, each of them true. */
async function signRest(signer: LogSigner): Promise<void> {
  const startedMs = performance.now()
  for (let isBehind = true; isBehind && performance.now() - startedMs < LAST_MS_MAX; ) {
    isBehind = (await signer.advance()).isBehind
  }
}

if (parentPort !== null) serveSigner(workerData as SignerStart, parentPort)
