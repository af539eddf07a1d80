import { Type } from '../../base/shape.ts'
import { SERVERID_PATTERN } from '../schemas.ts'

const token = Type.Optional(Type.String({ description: 'Only where tokens are required' }))
const vkey = Type.String({
  maxLength: 200,
  description: 'Verifier key of the node whose chain is mirrored; its `…/vkey` shows it',
})
const url = Type.String({
  maxLength: 2_000,
  description: 'Root of the listener of a node that has the chain: its own, or another mirror',
})

/** `GET` and `POST /api/config/peers`. */
export const PeersQuery = Type.Object({ token })
/** `POST /api/config/peers`. */
export const PeerBody = Type.Object(
  {
    vkey,
    url: Type.Optional(url),
    push: Type.Optional(
      Type.Boolean({ description: "Whether the node's own chain is pushed to `url`" }),
    ),
  },
  { additionalProperties: false },
)
/** `DELETE /api/config/peers/{serverid}`. */
export const PeerParams = Type.Object({
  serverid: Type.String({ shownPattern: SERVERID_PATTERN, description: 'Whose chain' }),
})

const Evidence = Type.Union([
  Type.Object({
    what: Type.String(),
    notes: Type.Array(Type.String(), { description: 'Signed, and not both true' }),
  }),
  Type.Null(),
])

/** The peers of the node, and how it stands with each. */
export const PeersReply = Type.Object({
  status: Type.Literal(true),
  peers: Type.Array(
    Type.Object({
      serverid: Type.Integer(),
      vkey,
      url: Type.Union([url, Type.Null()]),
      push: Type.Boolean(),
      fixed: Type.Boolean({ description: 'Whether the settings name it' }),
      state: Type.Enum(['current', 'behind', 'failing', 'frozen']),
      blocks: Type.Integer({ description: 'Stored here' }),
      lag: Type.Integer({ description: 'Blocks that are signed and not stored here yet' }),
      absent: Type.Integer({
        description: 'Contents of its attachments that `url` does not have, as far as was looked',
      }),
      current: Type.Union([Type.Integer(), Type.Null()], {
        description: 'When the last round ended well, milliseconds since the Unix epoch',
      }),
      error: Type.Union([
        Type.Object({ code: Type.String(), message: Type.String() }),
        Type.Null(),
      ]),
      evidence: Evidence,
    }),
  ),
  evidence: Evidence,
})

/** `POST /api/ledgers/{serverid}`: how far the chain of the caller is mirrored. */
export const PushReply = Type.Object({
  status: Type.Literal(true),
  size: Type.Integer({ description: 'Blocks that are stored' }),
  seen: Type.Integer({ description: 'Blocks of the newest head that was believed' }),
})

const sha256 = Type.String({ pattern: '^[0-9a-f]{64}$', description: 'Of the content' })

/** A content of the attachments of a chain. */
export const ContentParams = Type.Object({ ...PeerParams.properties, sha256 })

/** Which contents that are not here are listed. */
export const AbsentQuery = Type.Object({
  token,
  after: Type.Optional(
    Type.String({
      pattern: '^(0|[1-9][0-9]{0,10})[.](0|[1-9][0-9]{0,4})$',
      description: '`<height>.<index>`: only what entries behind it name',
    }),
  ),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000, description: 'Default 100' })),
})

/** Contents that entries name and that are not here. */
export const AbsentReply = Type.Object({
  status: Type.Literal(true),
  absent: Type.Array(
    Type.Object({
      sha256,
      length: Type.Integer({ description: 'Bytes' }),
      size: Type.Integer({ description: 'Bytes of it that have come' }),
    }),
  ),
  after: Type.Union([Type.String(), Type.Null()], {
    description: 'The last entry that was looked at; go on with it while there is `more`',
  }),
  more: Type.Boolean(),
})

/** Where a part of a content begins. */
export const PartQuery = Type.Object({
  offset: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
})

/** How much of a content is here. */
export const PartReply = Type.Object({
  status: Type.Literal(true),
  size: Type.Integer({ description: 'Bytes that are here: where the next part begins' }),
})
