import { Type } from '../../base/shape.ts'
import { ItemParams, LedgersQuery } from '../schemas.ts'

/** Path of an attachment. */
export const AttachmentParams = Type.Object({
  ...ItemParams.properties,
  name: Type.String({ description: 'Name of the attachment' }),
})

/** Query of the list. */
export const AttachmentListQuery = Type.Pick(LedgersQuery, ['token', 'limit', 'offset'])

const Attachment = Type.Object({
  content_type: Type.String(),
  length: Type.Integer({ description: 'Bytes' }),
  name: Type.String(),
  sha256: Type.String({ description: 'Of the bytes, 64 hexadecimal digits' }),
})

/** What was attached. */
export const AttachmentReply = Type.Object({ status: Type.Literal(true), attachment: Attachment })

/** What is attached to an item, by name. */
export const AttachmentListReply = Type.Object({
  status: Type.Literal(true),
  attachments: Type.Array(Attachment),
  limit: Type.Integer(),
  offset: Type.Integer(),
})

/** The bytes themselves, up or down, of whatever type. */
export const AnyBytes = (description: string) => ({
  description,
  content: { '*/*': { schema: Type.Unsafe<unknown>({ description: 'Any bytes' }) } },
})
