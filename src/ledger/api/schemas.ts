import type { FastifyContextConfig } from 'fastify'
import type { Static, TProperties } from 'typebox'
import type { JsonObject } from '../../base/json.ts'
import { Type } from '../../base/shape.ts'
import { REASON_BYTES_MAX } from '../../chain/index.ts'
import { FILTER_PARAMETERS } from '../../filter/index.ts'
import { At, AtReply } from './as-of.ts'

/** A server id, which `parseServerId` parses. */
const serverid = Type.String({
  documentedPattern: '^[1-9][0-9]{0,15}$',
  description: 'Server id of the chain; the id of this node is at /api/serverid',
})
export const ChainParams = Type.Object({ serverid })

/** Pattern of a position, `<height>.<index>`, which `parsePosition` parses. */
export const POSITION_PATTERN = '^(0|[1-9][0-9]{0,10})[.](0|[1-9][0-9]{0,4})$'

export const AnyItem = Type.Unsafe<JsonObject>(
  Type.Object({}, { additionalProperties: true, description: 'Any JSON object' }),
)

/** Parameter with the access token. Source: specification, “Endpoints”, L. */
const token = Type.Optional(
  Type.String({ description: 'Access token; necessary only if the node requires tokens' }),
)

export const TokenQuery = Type.Object({ token })

export const Count = (description?: string) =>
  Type.Integer({
    minimum: 0,
    maximum: Number.MAX_SAFE_INTEGER,
    ...(description === undefined ? {} : { description }),
  })

export const flag = (description: string) =>
  Type.Optional(Type.Enum(['true', '1', 'false', '0'], { description }))

/** Returns whether a `flag` parameter is on. */
export function isFlagSet(value: 'true' | '1' | 'false' | '0' | undefined): boolean {
  return value === 'true' || value === '1'
}

export const ListQuery = Type.Object({
  token,
  limit: Type.Optional(Count('Maximum number of elements')),
  offset: Type.Optional(Count('Number of elements to skip')),
})

/** Query of `GET /api/dbs`. */
export const DatabasesQuery = Type.Object({
  token,
  count: flag('Return the number of items of each database, in `counts`'),
  created: flag('Return the position of the entry that created each database, in `created`'),
  at: At,
})

/** Query of `GET /api/{db}`. */
export const ItemListQuery = Type.Object({
  ...ListQuery.properties,
  after: Type.Optional(
    Type.String({ description: 'Only items created after the item with this id' }),
  ),
  cursor: Type.Optional(
    Type.String({
      documentedPattern: '^(start|(0|[1-9][0-9]{0,10})[.](0|[1-9][0-9]{0,4}))$',
      description:
        'The `cursor` of the previous page, or `start`; the reply then has the `cursor` of the next page',
    }),
  ),
  docs: flag('Return the items, in `docs`'),
  count: flag('Return the number of matches of the filter, or of all items, in `count`'),
  filter: Type.Optional(Type.String(FILTER_PARAMETERS.filter)),
  at: At,
  proof: flag(
    'Return all ids and positions as a text, proven by the signed state; excludes other parameters',
  ),
})

/** Query of `GET /api/ledgers`. */
export const LedgersQuery = Type.Object({
  ...ListQuery.properties,
  serverid,
  db: Type.Optional(
    Type.String({
      description:
        'Only entries of this database: the blocks have no other entries. Not with `proof`',
    }),
  ),
  proof: flag('Return the blinds and commitments that verify the entries'),
})

const db = Type.String({
  documentedPattern: namePattern(128),
  description: 'Name of the database',
})
const id = Type.String({ documentedPattern: namePattern(256), description: 'Id of the item' })

/** Pattern of a name of at most `bytesMax` bytes (`names.ts`). */
export function namePattern(bytesMax: number): string {
  return `^(?![.]{1,2}$)[^\\u0000-\\u001f\\u007f-\\u009f/]{1,${bytesMax}}$`
}

export const DatabaseParams = Type.Object({ db })
export const ItemParams = Type.Object({ db, id })

const ITEM_EXAMPLE = { name: 'plum', price: 80 }

/** Body of `POST /api/{db}`: empty, one item, or a list of items. */
export const CreateBody = Type.Union(
  [AnyItem, Type.Array(AnyItem, { description: 'All in one block, or none' }), Type.Null()],
  { examples: [ITEM_EXAMPLE] },
)
/** Body with a whole item or a merge patch. */
export const ItemBody = Type.Unsafe<JsonObject>({ ...AnyItem, examples: [ITEM_EXAMPLE] })

/** Who made a change, as in entries. Absent in erased entries, and if the node required no token. */
const by = Type.Optional(
  Type.Object(
    {
      sub: Type.String({ description: 'Subject of the token, or participant of a network' }),
      iss: Type.Optional(
        Type.String({ description: 'Issuer; absent for the tokens and commands of this node' }),
      ),
    },
    { description: 'Who made the change' },
  ),
)
export const reason = Type.Optional(
  Type.String({ description: `Why the change was made, 1 to ${REASON_BYTES_MAX} bytes` }),
)
/** The members of an entry or a revision that say who made it, and why. */
export const authorship = { by, reason }

const Change = Type.Union([
  Type.Object({ method: Type.Enum(['create_db', 'delete_db']), db, reason }),
  Type.Object({
    ...{ method: Type.Enum(['create_item', 'update_item', 'patch_item']), db, item: AnyItem },
    reason,
  }),
  Type.Object({ method: Type.Literal('delete_item'), db, id, reason }),
])

/** Body of `POST /api/ledgers`. */
export const ChangesBody = Type.Object(
  {
    entries: Type.Array(
      // The discriminator makes Ajv check only the alternative with the given method, so errors are about this one.
      // Without `type`, Ajv would accept any value that is not an object.
      Type.Unsafe<Static<typeof Change>>({
        type: 'object',
        oneOf: Change.anyOf,
        discriminator: { propertyName: 'method' },
      }),
    ),
  },
  {
    examples: [
      {
        entries: [
          { method: 'create_item', db: 'fruit', item: ITEM_EXAMPLE },
          { method: 'delete_item', db: 'basket', id: 'plum' },
        ],
      },
    ],
  },
)

export const okReply = <Properties extends TProperties>(properties: Properties) =>
  Type.Object({ status: Type.Literal(true), ...properties })

export const DoneReply = okReply({})
export const ChangedItemReply = okReply({ id })
/** Reply for created items. The reply for a created database has no id. */
export const WrittenReply = Type.Union([
  ChangedItemReply,
  okReply({ ids: Type.Array(id, { description: 'In the order of the list' }) }),
  DoneReply,
])
export const DatabasesReply = okReply({
  dbs: Type.Array(db),
  counts: Type.Optional(Type.Array(Type.Integer(), { description: 'In the order of `dbs`' })),
  created: Type.Optional(
    Type.Array(Type.String(), { description: '`<height>.<index>`, likewise' }),
  ),
  at: AtReply,
})
export const ItemReply = okReply({
  item: Type.Object(
    { id },
    { additionalProperties: true, description: 'The item as stored, with its id' },
  ),
  at: AtReply,
})
export const ItemListReply = okReply({
  items: Type.Array(id),
  docs: Type.Optional(Type.Array(AnyItem)),
  limit: Type.Integer(),
  offset: Type.Integer(),
  count: Type.Optional(
    Type.Integer({
      description:
        'Number of all matching items, regardless of `limit`, `offset`, `after` and `cursor`',
    }),
  ),
  cursor: Type.Optional(
    Type.Union([Type.String(), Type.Null()], {
      description: 'Position of the last item; null if the list has fewer than `limit` items',
    }),
  ),
  at: AtReply,
})
export const ServerIdReply = okReply({ serverid: Type.Integer() })

const hex = Type.String({ pattern: '^[0-9a-f]+$' })

/** An entry. Source: specification, “Ledger entry”. */
export const entry = Type.Object(
  { serverid: Type.Integer(), method: Type.String(), db, ...authorship },
  { additionalProperties: true },
)

/** A block. Source: specification, “Ledger block”. */
const LedgerBlock = Type.Object({
  prev_id: Type.Union([hex, Type.Null()]),
  body: Type.Array(entry),
  timestamps: Type.Array(Type.Integer({ description: 'Milliseconds since the Unix epoch' })),
  nonce: Type.Integer(),
  id: hex,
  proof: Type.Optional(
    Type.Object({
      height: Type.Integer(),
      root: hex,
      blinds: Type.Array(Type.Union([hex, Type.Null()], { description: 'null if erased' })),
      commitments: Type.Array(hex),
    }),
  ),
})

export const LedgersReply = okReply({
  ledgers: Type.Array(LedgerBlock),
  limit: Type.Integer(),
  offset: Type.Integer(),
})
/** Reply with the block of all changes, and for each change the id of its item (null for a change of a database). */
export const ChangesReply = okReply({
  block: Type.Object({ serverid: Type.Integer(), height: Type.Integer(), id: hex }),
  results: Type.Array(Type.Object({ id: Type.Union([id, Type.Null()]) })),
})

/** An error reply. Source: specification, “Errors”, row L. */
export const ErrorReply = Type.Object({
  status: Type.Literal(false),
  code: Type.Optional(Type.String({ description: 'Stable error code' })),
  message: Type.Optional(Type.String({ description: 'Readable explanation' })),
})

/** Pattern of `*` or a list of entity tags. Source: RFC 9110 section 8.8.3. */
const TAGS = '^([*]|(W/)?"[!#-~]*"( *, *(W/)?"[!#-~]*")*)$'
/** Pattern of an idempotency key: printable ASCII in double quotes, or a bare token (`parseKey`). */
const KEY = '^("([ !#-[\\]-~]|[\\\\]["\\\\]){1,255}"|[A-Za-z0-9!#$%&\'*+./:=^_`|~-]{1,255})$'

const idempotencyHeaders = {
  'idempotency-key': Type.Optional(
    Type.String({
      documentedPattern: KEY,
      description:
        'Identifies this request: a repetition within 24 hours has no effect and returns the original reply',
    }),
  ),
  'ledger-reason': Type.Optional(
    Type.String({
      documentedPattern: '^[ -~]+$',
      description: 'Why the change is made: percent-encoded UTF-8, recorded in its entries',
    }),
  ),
}

/** Request headers that `readConditions` reads. */
export const IdempotencyHeaders = Type.Object(idempotencyHeaders)

/** Request headers that `readPrecondition` reads. */
export const ConditionHeaders = Type.Object({
  'if-match': Type.Optional(
    Type.String({
      documentedPattern: TAGS,
      description:
        'Makes the change only if one of these entity tags is current; `*` means any tag',
    }),
  ),
  'if-none-match': Type.Optional(
    Type.String({
      documentedPattern: TAGS,
      description:
        'Makes the change only if none of these entity tags is current; `*` means only if the item does not exist',
    }),
  ),
})

/** Request headers that `readItemConditions` or `readUploadConditions` reads. */
export const ConditionalHeaders = Type.Object({
  ...idempotencyHeaders,
  ...ConditionHeaders.properties,
})

/** Error replies of every route. */
export const failures = { '4xx': ErrorReply, '5xx': ErrorReply }

interface OperationParts<Params, Query, Body, Headers, Reply, Others> {
  readonly summary: string
  readonly description?: string
  readonly params?: Params
  /** Query parameters: by default only the token; null for none. */
  readonly query?: Query
  readonly headers?: Headers
  readonly body?: Body
  readonly reply: Reply
  /** Other replies by status; by default the error replies of every route. */
  readonly others?: Others
  readonly config: FastifyContextConfig
}

/** Returns the options of a route, with what all routes of this API have in common. */
export function operation<
  Reply,
  Params = undefined,
  Query = typeof TokenQuery,
  Body = undefined,
  Headers = undefined,
  Others = typeof failures,
>(
  tag: string,
  operationId: string,
  parts: OperationParts<Params, Query, Body, Headers, Reply, Others>,
) {
  const { reply, others = failures, query = TokenQuery, config, ...schema } = parts
  const querystring = query === null ? {} : { querystring: query }
  return {
    schema: {
      ...{ tags: tag.split(' '), operationId, ...schema, ...querystring },
      response: { 200: reply, ...others },
    } as {
      readonly params: Params
      readonly querystring: Query
      readonly headers: Headers
      readonly body: Body
      readonly response: { readonly 200: Reply } & Others
    },
    // A change whose headers do not include preconditions refuses them (`http/app.ts`).
    config: { documentedHeaders: schema.headers ?? Type.Object({}), ...config },
  }
}

/** Query of `GET /api/{db}/{id}`. */
export const ItemReadQuery = Type.Object({
  ...TokenQuery.properties,
  at: At,
})
