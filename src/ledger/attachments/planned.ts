import assert from 'node:assert/strict'
import type { Json } from '../../base/json.ts'
import { type Attachment, attachmentOf } from '../../chain/index.ts'
import type { Effect, StoreReader } from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import type { Operation } from '../unit-of-work.ts'
import { checkConditions } from './conditions.ts'

/** An operation on an attachment. */
type AttachmentOperation = Extract<
  Operation,
  { kind: 'create_attachment' } | { kind: 'delete_attachment' }
>

/**
 * The attachment that `operation` creates or deletes, after the `effects` that its batch has already.
 * Errors: ATTACHMENT_NOT_FOUND, PRECONDITION_FAILED.
 */
export async function attachmentMeant(
  store: StoreReader,
  effects: readonly Effect[],
  operation: AttachmentOperation,
): Promise<Attachment> {
  const { db, id, onlyIf } = operation
  const current = async (name: string): Promise<Attachment | null> => {
    const earlier = inBatch(effects, db, id, name)
    return earlier === 'untouched' ? store.attachments.current(db, id, name) : earlier
  }
  if (operation.kind === 'create_attachment') {
    const value: Json = JSON.parse(operation.text)
    const attachment = attachmentOf(value)
    assert(attachment !== null)
    if (onlyIf !== '') checkConditions(onlyIf, await current(attachment.name))
    return attachment
  }
  const { name } = operation
  const attachment = await current(name)
  checkConditions(onlyIf, attachment)
  if (attachment === null) {
    throw new LedgerError(
      'ATTACHMENT_NOT_FOUND',
      `there is no attachment ${name} of ${id} in ${db}`,
    )
  }
  const { content_type, length, sha256 } = attachment
  return { content_type, length, name, sha256 }
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
    if (!('id' in effect)) return null
    if (effect.id !== id || effect.kind === 'update_item') continue
    if (!('attachment' in effect)) return null
    if (effect.attachment.name !== name) continue
    return effect.kind === 'create_attachment' ? effect.attachment : null
  }
  return 'untouched'
}
