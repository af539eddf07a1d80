import { Type } from '../../base/shape.ts'

const db = Type.String({ shownPattern: '^[^/]+$', description: 'Name of the database' })
const path = Type.String({
  shownPattern: '^[^.]+([.][^.]+){0,7}$',
  description: 'Members of the items, with dots between them',
})
const token = Type.Optional(Type.String({ description: 'Only where tokens are required' }))

/** `GET` and `POST /api/config/indexes`. */
export const IndexesQuery = Type.Object({ token })
/** `POST /api/config/indexes`; `DELETE` takes the same in its body or its query. */
export const IndexBody = Type.Object({ db, path }, { additionalProperties: false })
/** `DELETE /api/config/indexes`: the query, when there is no body. */
export const RemoveIndexQuery = Type.Object({
  token,
  db: Type.Optional(db),
  path: Type.Optional(path),
})
/** `DELETE /api/config/indexes`: a body is optional. */
export const RemoveIndexBody = Type.Union([IndexBody, Type.Null()])

/** The declared indexes, and how far they are. */
export const IndexesReply = Type.Object({
  status: Type.Literal(true),
  indexes: Type.Array(
    Type.Object({
      db,
      path,
      state: Type.Union([Type.Literal('building'), Type.Literal('ready')]),
      done: Type.Integer({ description: 'Blocks gone through since the database was created' }),
      total: Type.Integer({ description: 'Blocks to go through' }),
    }),
  ),
})
