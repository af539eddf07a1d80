import { signal } from '@preact/signals'
import { ClientError } from '../../../client/index.ts'
import { t } from '../language/language.ts'
import { base, tokenPort } from '../node/ledger.ts'
import type { ItemVerdict, ListVerdict, ShownItem, ShownList } from './item-proof.ts'
import { remember, rememberedChain } from './memory.ts'
import type { VerifyRequest, WorkerMessage } from './messages.ts'
import type { Progress, Verdict } from './verify-chain.ts'

export type Run =
  | { readonly state: 'idle' | 'stopped' }
  | { readonly state: 'running'; readonly progress: Progress | null; readonly worker: Worker }
  | { readonly state: 'done'; readonly verdict: Verdict; readonly hadMemory: boolean }
  | { readonly state: 'failed'; readonly message: string }

/** The state of the verification of the chain. A verification continues while another view is shown. */
export const run = signal<Run>({ state: 'idle' })

function newWorker(): Worker {
  return new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' })
}

/** Returns the message of an error in a worker. The event has no message if the worker could not be loaded. */
function workerErrorText({ message }: Partial<ErrorEvent>): string {
  return message === undefined || message === '' ? t().workerFailed : message
}

export interface Outcome<Verdict> {
  readonly serverId: number
  readonly verdict: Verdict
}

/** Verifies a revision, or that a list is complete, in a worker. Remembers the checkpoint if it is proven. Errors: ClientError. */
export async function verifyShown(shown: ShownItem): Promise<Outcome<ItemVerdict>>
export async function verifyShown(shown: ShownList): Promise<Outcome<ListVerdict>>
export async function verifyShown(
  shown: ShownItem | ShownList,
): Promise<Outcome<ItemVerdict | ListVerdict>> {
  const worker = newWorker()
  try {
    const message = await new Promise<WorkerMessage>((resolve, reject) => {
      worker.onmessage = ({ data }: MessageEvent<WorkerMessage>) => resolve(data)
      worker.onerror = (event) => reject(failed(workerErrorText(event)))
      send(worker, { base, remembered: rememberedChain(), shown })
    })
    if (message.kind !== 'proof') throw failed('message' in message ? message.message : '')
    if (message.verdict.refused === null) remember(message.verdict.remember)
    return message
  } finally {
    worker.terminate()
  }
}

function failed(message: string): ClientError {
  return new ClientError('REPLY_MALFORMED', 500, message)
}

/** Starts a verification of the chain in a worker. */
export function start(): void {
  const worker = newWorker()
  const remembered = rememberedChain()
  end({ state: 'running', progress: null, worker })
  worker.onmessage = ({ data }: MessageEvent<WorkerMessage>) => {
    if (data.kind === 'progress') run.value = { state: 'running', progress: data.progress, worker }
    if (data.kind === 'failed') end({ state: 'failed', message: data.message })
    if (data.kind === 'verdict') {
      const { verdict } = data
      if (verdict.remember !== null) remember({ ...verdict.remember, verifiedAt: Date.now() })
      end({ state: 'done', verdict, hadMemory: remembered !== null })
    }
  }
  worker.onerror = (event) => end({ state: 'failed', message: workerErrorText(event) })
  send(worker, { base, remembered })
}

function send(worker: Worker, request: VerifyRequest): void {
  const tokens = tokenPort()
  worker.postMessage({ ...request, tokens }, tokens === null ? [] : [tokens])
}

export function stop(): void {
  end({ state: 'stopped' })
}

function end(result: Run): void {
  const last = run.peek()
  if (last.state === 'running') last.worker.terminate()
  run.value = result
}
