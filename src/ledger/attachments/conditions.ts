import type { Attachment } from '../../chain/index.ts'
import { LedgerError } from '../errors.ts'
import { holds } from '../terms/precondition.ts'
import type { Precondition } from '../terms/terms.ts'

/** The entity tag of an attachment as a header spells it, strong: equal tags are equal bytes. */
export function tagOf({ sha256 }: Pick<Attachment, 'sha256'>): string {
  return `"${sha256}"`
}

/**
 * Whether `precondition` holds for what has the name of an attachment, null for nothing.
 * Errors: PRECONDITION_FAILED.
 */
export function checkAttachment(precondition: Precondition, current: Attachment | null): void {
  if (holds(precondition, current?.sha256 ?? null)) return
  const what = current === null ? 'there is none' : `it is ${tagOf(current)}`
  throw new LedgerError('PRECONDITION_FAILED', `the attachment is another than was named: ${what}`)
}
