import { CodedError } from '../../base/coded-error.ts'
import { errorMessage } from '../../base/errors.ts'
import { serveThread, type ThreadPort } from '../../base/worker/worker.ts'
import type { Head } from '../../chain/index.ts'
import {
  ChainWalk,
  openStoreReader,
  StoreError,
  type StoreLocation,
  type StoreReader,
} from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import {
  type LogKey,
  requireSignedHead,
  type SignedHead,
  signedHeadFile,
  signHead,
  temporaryHead,
} from './signed-head.ts'
import { StateKeeper, stateSigner } from './state-keeper.ts'

// Program of the worker thread that recomputes the chain and signs the log, so that requests and commits do not wait
// for this work.

/**
 * Number of entries after which a signature recomputes no further page of blocks. They take a few tenths of a second.
 */
const ENTRIES_PER_SIGNATURE = 50_000
/** Maximum milliseconds for signing on shutdown. The remaining blocks are signed after the next start. */
const LAST_MS_MAX = 2_000

/** Data of the thread. */
export interface SignerStart extends LogKey {
  readonly folder: string
  readonly location: StoreLocation
  /** False for a temporary folder. */
  readonly durable: boolean
  /** Whether the state is followed and signed, too. */
  readonly followsState: boolean
}

/**
 * Messages to the thread. `sign` signs committed blocks, `sign state` also their state; `renew state` first removes the
 * stored state, which is damaged; `close` signs all remaining blocks and ends the thread.
 */
export type ToSigner = 'sign' | 'sign state' | 'renew state' | 'close'

/**
 * Messages from the thread. If `contradicted` is true, the store contradicts the signed head, and the log is never
 * signed again.
 */
export type FromSigner =
  | { readonly kind: 'signed'; readonly signed: SignedHeadUpdate }
  | { readonly kind: 'failed'; readonly message: string; readonly contradicted: boolean }

export interface SignedHeadUpdate {
  readonly size: number
  readonly note: string
  /** The last signed block, or null. */
  readonly head: Pick<Head, 'height' | 'id'> | null
  /** Number of blocks of the newest signed state; `size` if no state is followed. */
  readonly stateSize: number
  /** Whether ENTRIES_PER_SIGNATURE was reached. Then there may be further blocks to sign. */
  readonly isBehind: boolean
}

/**
 * Signs the log of one store. Never signs a head that contradicts an earlier head, because the signer recomputes every
 * block after the last signed head from the disk.
 *
 * A crash in `advance` leaves the old head or the new head in the file. The new head is valid even if its note was not
 * published, because it was recomputed from durable blocks. A head is stored before its note is published, so the
 * stored head is never behind a published note.
 */
export class LogSigner {
  readonly #store: StoreReader
  readonly #signedHead: SignedHead
  readonly #key: LogKey
  readonly #walk: ChainWalk
  readonly #state: StateKeeper | null
  #signed: Omit<SignedHeadUpdate, 'stateSize' | 'isBehind'> | null = null

  private constructor(
    store: StoreReader,
    {
      signedHead,
      key,
      walk,
      state,
    }: { signedHead: SignedHead; key: LogKey; walk: ChainWalk; state: StateKeeper | null },
  ) {
    this.#store = store
    this.#signedHead = signedHead
    this.#key = key
    this.#walk = walk
    this.#state = state
  }

  /** Opens the log at the stored head `signedHead`. Errors: as for `requireSignedHead`. */
  static async open(
    store: StoreReader,
    signedHead: SignedHead,
    key: LogKey,
    state: StateKeeper | null = null,
  ): Promise<LogSigner> {
    await requireSignedHead(store, signedHead)
    const walk = await ChainWalk.from(store, signedHead.read()?.size ?? 0)
    return new LogSigner(store, { signedHead, key, walk, state })
  }

  /**
   * Recomputes the blocks committed since the last call, up to a limit, and signs the log of all recomputed blocks.
   * Errors: LOG_CONTRADICTED if the store is wrong, which is permanent; STORE_DAMAGED if the store cannot be read,
   * which can be temporary.
   */
  async advance(withState = false): Promise<SignedHeadUpdate> {
    const entries = await this.#recompute()
    const { size } = this.#walk.frontier
    if (this.#signed?.size !== size) {
      const note = signHead(this.#key, this.#walk.frontier)
      this.#signedHead.write(note)
      this.#signed = { size, note, head: this.#walk.head }
    }
    const stateSize = (await this.#state?.advance(size, withState)) ?? size
    return { ...this.#signed, stateSize, isBehind: entries >= ENTRIES_PER_SIGNATURE }
  }

  /** Returns the number of recomputed entries. */
  async #recompute(): Promise<number> {
    this.#store.refresh()
    let entries = 0
    while (entries < ENTRIES_PER_SIGNATURE) {
      const { blocks, finding } = await this.#walk.next()
      // A read error can be temporary, so it must not stop signing permanently.
      if (finding?.isUnread === true) throw new StoreError('STORE_DAMAGED', finding.what)
      if (finding !== null) {
        const where = finding.height === null ? '' : ` at height ${finding.height}`
        throw new LedgerError(
          'LOG_CONTRADICTED',
          `the store does not verify${where}: ${finding.what}`,
        )
      }
      if (blocks.length === 0) break
      for (const block of blocks) {
        entries += block.entries.length
        this.#state?.push(block)
      }
    }
    return entries
  }
}

/** Runs the thread: signs on request, until a message on `port` closes it. */
export async function serveSigner(
  start: SignerStart,
  port: ThreadPort<ToSigner, FromSigner>,
): Promise<void> {
  const { folder, location, durable, verifier, privateKey, followsState } = start
  const signedHead = durable ? signedHeadFile(folder) : temporaryHead()
  const store = await openStoreReader(location, { frozen: false })
  const key = { verifier, privateKey }
  const state = followsState ? new StateKeeper(folder, store, stateSigner(key)) : null
  let opened: Promise<LogSigner> | null = null
  // `LogSigner.open` can fail temporarily, so the next request tries again.
  const signer = () => {
    opened ??= LogSigner.open(store, signedHead, key, state).catch((error: unknown) => {
      opened = null
      throw error
    })
    return opened
  }
  const sign = async (withState: boolean) => {
    try {
      port.postMessage({ kind: 'signed', signed: await (await signer()).advance(withState) })
    } catch (error) {
      const message = errorMessage(error)
      // Only this error is permanent. Other errors, such as a full disk, can be temporary.
      const contradicted = error instanceof CodedError && error.code === 'LOG_CONTRADICTED'
      port.postMessage({ kind: 'failed', message, contradicted })
    }
  }
  const close = async () => {
    try {
      if (durable) await signRest(await signer())
    } catch {
      // Ignores the error, because no request waits for the last signature.
    }
    state?.close()
    await store.close()
    port.close()
  }
  let last: Promise<unknown> = signer().catch(() => {})
  port.on('message', (message) => {
    if (message === 'renew state') state?.remove()
    last = message === 'close' ? last.then(close) : sign(message !== 'sign')
  })
}

/** Signs until all blocks are signed or LAST_MS_MAX has passed. A crash leaves an intermediate head, which is valid. */
async function signRest(signer: LogSigner): Promise<void> {
  const startedMs = performance.now()
  for (let isBehind = true; isBehind && performance.now() - startedMs < LAST_MS_MAX; ) {
    isBehind = (await signer.advance()).isBehind
  }
}

await serveThread(serveSigner)
