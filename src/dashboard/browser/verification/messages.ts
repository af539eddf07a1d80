import type { Progress, Remembered, Verdict } from './verify-chain.ts'

/** What the page asks of the worker, once. */
export interface Order {
  readonly base: string
  readonly remembered: Readonly<Record<string, Remembered>>
}

/** What the worker tells the page. */
export type Report =
  | { readonly kind: 'progress'; readonly progress: Progress }
  | { readonly kind: 'verdict'; readonly verdict: Verdict; readonly serverId: number }
  | { readonly kind: 'failed'; readonly message: string }
