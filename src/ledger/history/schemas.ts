import { Type } from '../../base/shape.ts'
import { TokenQuery } from '../schemas.ts'

const position = Type.String({
  pattern: '^(0|[1-9][0-9]*)\\.(0|[1-9][0-9]*)$',
  description: '`<height>.<index>` of an entry',
})

/** `GET /api/{db}/{id}`. */
export const ItemQuery = Type.Object({
  ...TokenQuery.properties,
  at: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'The item as it was when the block of this height was the last one',
    }),
  ),
})

/** `GET /api/{db}/{id}/history`. */
export const HistoryQuery = Type.Object({
  ...TokenQuery.properties,
  limit: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'At most this many',
    }),
  ),
  cursor: Type.Optional(
    Type.String({
      shownPattern: '^(0|[1-9][0-9]{0,10})[.](0|[1-9][0-9]{0,4})$',
      description: 'The `cursor` of the page before: what comes behind it',
    }),
  ),
  order: Type.Optional(
    Type.Enum(['oldest', 'newest'], { description: 'Which comes first; `oldest` when left out' }),
  ),
})

/** What became of an item, revision by revision. */
export const HistoryReply = Type.Object({
  status: Type.Literal(true),
  history: Type.Array(
    Type.Object({
      position,
      timestamp: Type.Integer({ description: 'Milliseconds since the Unix epoch' }),
      method: Type.String(),
      item: Type.Optional(
        Type.Object(
          {},
          {
            additionalProperties: true,
            description: 'As it was then; absent where it was deleted, and where it was erased',
          },
        ),
      ),
      erased: Type.Optional(
        Type.Literal(true, { description: 'Where the content of the revision was erased' }),
      ),
    }),
  ),
  limit: Type.Integer(),
  cursor: Type.Union([position, Type.Null()], {
    description: 'For the next page; null when this was the last one',
  }),
})
