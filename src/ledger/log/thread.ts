import type { KeyObject } from 'node:crypto'
import { parentPort, workerData } from 'node:worker_threads'
import { CodedError } from '../../base/coded-error.ts'
import type { VerifierKey } from '../../chain/index.ts'
import { openStoreReader } from '../../storage/index.ts'
import type { ThreadPort } from '../platform.ts'
import { signedHeadIn, temporaryHead } from './signed-head.ts'
import { LogSigner, type Signed } from './signer.ts'

// The program of the thread that recomputes and signs, so that neither holds up requests or commits.

/** What the thread is started with. */
export interface SignerStart {
  readonly folder: string
  /** Whether the folder outlives the process. */
  readonly lasting: boolean
  readonly verifier: VerifierKey
  readonly privateKey: KeyObject
}

/** The signature at the end may take so long; what was not recomputed by then is left for the next run. */
const LAST_MS_MAX = 2_000

/** To the thread: sign what was committed; or end, after what it is at and a last signature. */
export type ToSigner = 'sign' | 'close'

/** From it. `contradicted`: what is stored is not what was signed, and nothing more will be. */
export type FromSigner =
  | { readonly signed: Signed }
  | { readonly failed: string; readonly contradicted: boolean }

/** Signs when the messages at `port` say so, until one of them closes it. */
export function serveSigner(start: SignerStart, port: ThreadPort): void {
  const { folder, lasting, verifier, privateKey } = start
  const send = (message: FromSigner) => port.postMessage(message)
  const kept = lasting ? signedHeadIn(folder) : temporaryHead()
  const store = openStoreReader(folder, { frozen: false })
  let opened: Promise<LogSigner> | null = null
  // Opened again after a failure, which may have passed.
  const signer = () => {
    opened ??= LogSigner.open(store, kept, { verifier, privateKey }).catch((error: unknown) => {
      opened = null
      throw error
    })
    return opened
  }
  let last: Promise<unknown> = signer().catch(() => {})
  port.on('message', (message: ToSigner) => {
    if (message === 'close') {
      void last
        .then(() => (lasting ? signer().then(signRest) : undefined))
        // What cannot be signed now is not signed: nobody waits for it, and nothing depends on it.
        .catch(() => {})
        .finally(async () => {
          await store.close()
          port.close()
        })
      return
    }
    last = signer()
      .then((opened) => opened.advance())
      .then((signed) => send({ signed }))
      .catch((error: unknown) => {
        const failed = error instanceof Error ? error.message : String(error)
        // Anything else, such as a full disk, may pass.
        const contradicted = error instanceof CodedError && error.code === 'LOG_CONTRADICTED'
        send({ failed, contradicted })
      })
  })
}

/** A crash in between leaves one of the heads on the way, each of them true. */
async function signRest(signer: LogSigner): Promise<void> {
  const startedMs = performance.now()
  for (let isBehind = true; isBehind && performance.now() - startedMs < LAST_MS_MAX; ) {
    isBehind = (await signer.advance()).isBehind
  }
}

if (parentPort !== null) serveSigner(workerData as SignerStart, parentPort)
