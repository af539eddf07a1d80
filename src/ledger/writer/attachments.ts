import assert from 'node:assert/strict'
import { type Json, parseJson } from '../../base/json.ts'
import { type Attachment, attachmentOf } from '../../chain/index.ts'
import type { Effect, StoreReader } from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import { holds, type Precondition } from '../request-conditions.ts'
import type { Operation } from '../unit-of-work.ts'

/** An operation on an attachment. */
type AttachmentOperation = Extract<
  Operation,
  { kind: 'create_attachment' } | { kind: 'delete_attachment' }
>

/**
 * What has the name that `operation` is about, after the `effects` that its batch has already; null
 * when nothing has.
 */
export async function attachmentBefore(
  store: StoreReader,
  effects: readonly Effect[],
  operation: AttachmentOperation,
): Promise<Attachment | null> {
  const { db, id } = operation
  const { name } = 'name' in operation ? operation : attachmentIn(operation.text)
  const earlier = inBatch(effects, db, id, name)
  return earlier === 'untouched' ? store.attachments.current(db, id, name) : earlier
}

/**
 * The attachment that `operation` creates or deletes, likewise. Errors: ATTACHMENT_NOT_FOUND.
 */
export async function attachmentMeant(
  store: StoreReader,
  effects: readonly Effect[],
  operation: AttachmentOperation,
): Promise<Attachment> {
  if (operation.kind === 'create_attachment') return attachmentIn(operation.text)
  const attachment = await attachmentBefore(store, effects, operation)
  const { db, id, name } = operation
  if (attachment === null) {
    throw new LedgerError(
      'ATTACHMENT_NOT_FOUND',
      `there is no attachment ${name} of ${id} in ${db}`,
    )
  }
  const { content_type, length, sha256 } = attachment
  return { content_type, length, name, sha256 }
}

function attachmentIn(text: string): Attachment {
  const attachment = attachmentOf(parseJson(text) as Json)
  assert(attachment !== null)
  return attachment
}

/**
 * What the batch has made of the attachment: looked for from its end, because that costs nothing
 * where attachments are not touched, and a batch is short.
 */
function inBatch(
  effects: readonly Effect[],
  db: string,
  id: string,
  name: string,
): Attachment | null | 'untouched' {
  for (let at = effects.length - 1; at >= 0; at -= 1) {
    const effect = effects[at]
    if (effect === undefined || effect.db !== db) continue
    // A database or an item that was made or deleted in this batch begins without attachments.
    if (effect.kind === 'create_db' || effect.kind === 'delete_db') return null
    // An erasure leaves what is current as it is.
    if (!('id' in effect) || effect.id !== id || effect.kind === 'update_item') continue
    if (!('attachment' in effect)) return null
    if (effect.attachment.name !== name) continue
    return effect.kind === 'create_attachment' ? effect.attachment : null
  }
  return 'untouched'
}

/**
 * Whether `precondition` holds for what has the name of an attachment, null for nothing.
 * Errors: PRECONDITION_FAILED.
 */
export function checkAttachment(precondition: Precondition, current: Attachment | null): void {
  if (holds(precondition, current?.sha256 ?? null)) return
  const what = current === null ? 'there is none' : `it is "${current.sha256}"`
  throw new LedgerError('PRECONDITION_FAILED', `the attachment is another than was named: ${what}`)
}
