import type { Job, Piece, Plan } from './convert.ts'

/** Pieces that a thread may be ahead of whoever reads them. */
export const PIECES_AHEAD_MAX = 4

/** What a conversion thread is told: a job, or that it may send `count` more pieces of it. */
export type ToThread =
  | { readonly kind: 'job'; readonly job: Job }
  | { readonly kind: 'more'; readonly count: number }

/**
 * What it answers to a job: one `plan`, then pieces, then `end`; or `failed` at any point, with the
 * code of a ConverterError, or null for what nobody foresaw.
 */
export type FromThread =
  | { readonly kind: 'plan'; readonly plan: Plan }
  | { readonly kind: 'piece'; readonly piece: Piece }
  | { readonly kind: 'end' }
  | { readonly kind: 'failed'; readonly code: string | null; readonly message: string }
