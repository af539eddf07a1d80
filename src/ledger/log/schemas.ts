import { Type } from '../../base/shape.ts'
import { SERVERID_PATTERN, TokenQuery } from '../schemas.ts'

const serverid = Type.String({
  shownPattern: SERVERID_PATTERN,
  description: 'Whose log; the own id is at /api/serverid',
})

/** Path of a log. */
export const LogParams = Type.Object({ serverid })

/** Path of a tile: what stands behind `tile/`. */
export const TileParams = Type.Object({
  serverid,
  '*': Type.String({
    description:
      '`<level>/<index>[.p/<width>]` or `entries/<index>[.p/<width>]`, as C2SP tlog-tiles',
  }),
})

const size = (description: string) =>
  Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description })

/** Between which sizes consistency is proven. */
export const ConsistencyQuery = Type.Object({
  ...TokenQuery.properties,
  from: size('The smaller size'),
  to: Type.Optional(size('The larger size; the newest that is signed when absent')),
})

/** The hashes of a consistency proof, in base64. */
export const ConsistencyReply = Type.Object({
  status: Type.Literal(true),
  from: Type.Integer(),
  to: Type.Integer(),
  proof: Type.Array(Type.String({ description: 'In the order of RFC 6962' })),
})

/** Which entry of an item is proven. */
export const ProofQuery = Type.Object({
  ...TokenQuery.properties,
  position: Type.Optional(
    Type.String({
      pattern: '^(0|[1-9][0-9]{0,14})[.](0|[1-9][0-9]{0,4})$',
      description: '`<height>.<index>` of an older entry of the item',
    }),
  ),
})

/** A reply that is text. */
export const TextReply = {
  description: 'Text',
  content: { 'text/plain': { schema: Type.String() } },
}

/** A reply that is bytes. */
export const BytesReply = {
  description: 'Bytes',
  content: {
    'application/octet-stream': {
      schema: Type.Unsafe<Uint8Array>(Type.String({ format: 'binary' })),
    },
  },
}
