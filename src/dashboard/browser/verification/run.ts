import { signal } from '@preact/signals'
import { base } from '../node/ledger.ts'
import type { Progress, Remembered, Verdict, VerifyRequest, WorkerMessage } from './verify-chain.ts'

export type Run =
  | { readonly state: 'idle' | 'stopped' }
  | { readonly state: 'running'; readonly progress: Progress | null; readonly worker: Worker }
  | { readonly state: 'done'; readonly verdict: Verdict; readonly hadMemory: boolean }
  | { readonly state: 'failed'; readonly message: string }

/** Not part of a view, because a verification continues while another view is shown. */
export const run = signal<Run>({ state: 'idle' })

/** Starts a verification in a worker. */
export function start(): void {
  const worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' })
  const remembered = rememberedChains()
  end({ state: 'running', progress: null, worker })
  worker.onmessage = ({ data }: MessageEvent<WorkerMessage>) => {
    if (data.kind === 'progress') run.value = { state: 'running', progress: data.progress, worker }
    if (data.kind === 'failed') end({ state: 'failed', message: data.message })
    if (data.kind === 'verdict') {
      const { verdict, serverId } = data
      if (verdict.remember !== null) remember(serverId, verdict.remember)
      end({ state: 'done', verdict, hadMemory: remembered[serverId] !== undefined })
    }
  }
  worker.onerror = (event) => end({ state: 'failed', message: event.message ?? '' })
  const request: VerifyRequest = { base, remembered }
  worker.postMessage(request)
}

export function stop(): void {
  end({ state: 'stopped' })
}

function end(result: Run): void {
  const last = run.peek()
  if (last.state === 'running') last.worker.terminate()
  run.value = result
}

const STORAGE_KEY = 'daicho.verified'
/** Maximum number of remembered nodes. A node without a folder has a new id after each start. */
const CHAINS_MAX = 20

/** Chains that this browser has verified at this address, by server id. */
function rememberedChains(): Readonly<Record<string, Remembered>> {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(STORAGE_KEY) ?? '{}')
    const chains = Object.entries(Object(value)).filter((pair): pair is [string, Remembered] =>
      isRemembered(pair[1]),
    )
    return Object.fromEntries(chains)
  } catch {
    return {}
  }
}

function remember(serverId: number, chain: Remembered): void {
  const others = Object.entries(rememberedChains()).filter(([id]) => id !== `${serverId}`)
  const chainsToKeep = [...others.slice(-(CHAINS_MAX - 1)), [`${serverId}`, chain] as const]
  try {
    localStorage.setItem(STORAGE_KEY, JSON.stringify(Object.fromEntries(chainsToKeep)))
  } catch {
    // Without storage, the next verification has no earlier result to compare with.
  }
}

function isRemembered(value: unknown): value is Remembered {
  const { verifierKey, size, root } = Object(value)
  return typeof verifierKey === 'string' && Number.isSafeInteger(size) && typeof root === 'string'
}
