import type { Plan } from './convert.ts'

/**
 * What a conversion worker tells of its job: one `plan`, then `rows` as they get done while the
 * bytes of the product go through the pipe, then `end` with how many bytes those were; or `failed`
 * at any point, with the code of a ConverterError, or null for what nobody foresaw.
 */
export type FromWorker =
  | { readonly kind: 'plan'; readonly plan: Plan }
  | { readonly kind: 'rows'; readonly rows: number }
  | { readonly kind: 'end'; readonly bytes: number }
  | { readonly kind: 'failed'; readonly code: string | null; readonly message: string }

/** The descriptor of the pipe for the product, in the worker. */
export const PRODUCT_FD = 4
