// Random requests: their content, and how they are sent.
import fc from 'fast-check'
import type { Json, JsonObject } from '../../src/base/json.ts'
import type { LedgerNode } from '../support/ledger-node.ts'
import {
  type Answer,
  type Change,
  idIn,
  type ModelRequest,
  type State,
  type Tags,
  tagOf,
} from './state.ts'

/** The databases that requests use. They are few, so that requests use the same items. */
export const DATABASES = ['fruit', '台帳', 'constructor'] as const
const [fruit, ledger, odd] = DATABASES
const db = fc.constantFrom(fruit, fruit, fruit, fruit, ledger, ledger, odd)
const id = fc.constantFrom('fig', 'fig', '🍎', '🍎', '__proto__', 'x'.repeat(256), '10', '9')
const name = fc.constantFrom('n', 'ü', '__proto__', 'a b')
const type = fc.constantFrom('text/plain', 'application/octet-stream')
const text = fc.constantFrom('', 'one', 'two', 'x'.repeat(300_000))
const value: fc.Arbitrary<Json> = fc.oneof(
  fc.integer({ min: -2, max: 3 }),
  fc.constantFrom<Json>(null, true, false, 'a', 'b', 'é', [1, 'b'], [null, 2], { deep: 1 }),
)
const content: fc.Arbitrary<JsonObject> = fc
  .tuple(
    fc.dictionary(fc.constantFrom('n', 'm', 'valueOf', ''), value, {
      maxKeys: 3,
      noNullPrototype: true,
    }),
    fc.option(fc.string({ unit: 'grapheme', maxLength: 6 }), { nil: undefined }),
  )
  .map(([members, note]) => (note === undefined ? members : { ...members, note }))
const item = fc.tuple(id, content).map(([own, members]) => ({ ...members, id: own }))

const ofDatabase: fc.Arbitrary<Change> = fc.oneof(
  // Creates databases more often than it deletes them, because a deletion also removes all items of the database.
  { weight: 5, arbitrary: fc.record({ method: fc.constant('create_db' as const), db }) },
  fc.record({ method: fc.constant('delete_db' as const), db }),
)
const ofItem: fc.Arbitrary<Change> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      method: fc.constantFrom('create_item' as const, 'update_item' as const),
      db,
      item,
    }),
  },
  fc.record({ method: fc.constant('delete_item' as const), db, id }),
)
const patch: fc.Arbitrary<Change> = fc.record({
  method: fc.constant('patch_item' as const),
  db,
  id,
  patch: content,
})
const ofAttachment: fc.Arbitrary<Change> = fc.oneof(
  {
    weight: 2,
    arbitrary: fc.record({
      method: fc.constant('create_attachment' as const),
      db,
      id,
      name,
      type,
      text,
    }),
  },
  fc.record({ method: fc.constant('delete_attachment' as const), db, id, name }),
)

/** Kind of precondition, which is chosen before the current entity tags are known. */
type Condition = 'none' | 'any' | 'current' | 'stale' | 'both'
const condition = fc.constantFrom<Condition>(
  ...Array.from({ length: 8 }, () => 'none' as const),
  ...(['any', 'current', 'current', 'stale', 'both'] as const),
)
const key = fc.constantFrom(...Array.from({ length: 9 }, () => ''), 'k1', 'k2', 'k3')

/** A request with the kinds of its preconditions. Their tags depend on the state when the request is sent. */
export interface UntaggedRequest extends Pick<ModelRequest, 'changes' | 'form' | 'key'> {
  readonly match: Condition
  readonly noneMatch: Condition
}

const own = (change: fc.Arbitrary<Change>): fc.Arbitrary<UntaggedRequest> =>
  fc.record({
    changes: change.map((one) => [one]),
    form: fc.constant('own' as const),
    match: condition,
    noneMatch: condition,
    key,
  })
const several = (
  form: 'array' | 'ledgers',
  changes: fc.Arbitrary<Change[]>,
): fc.Arbitrary<UntaggedRequest> =>
  fc.record({
    changes,
    form: fc.constant(form),
    match: fc.constant('none' as const),
    noneMatch: fc.constant('none' as const),
    key,
  })

/** Any request that changes data. */
export const requests: fc.Arbitrary<UntaggedRequest> = fc.oneof(
  { weight: 3, arbitrary: own(ofDatabase) },
  { weight: 12, arbitrary: own(ofItem) },
  { weight: 5, arbitrary: own(patch) },
  { weight: 12, arbitrary: own(ofAttachment) },
  {
    weight: 1,
    arbitrary: several(
      'array',
      fc
        .tuple(db, fc.array(item, { minLength: 1, maxLength: 4 }))
        .map(([of, items]) =>
          items.map((one) => ({ method: 'create_item' as const, db: of, item: one })),
        ),
    ),
  },
  {
    weight: 3,
    arbitrary: several(
      'ledgers',
      fc.array(fc.oneof({ weight: 12, arbitrary: ofItem }, ofDatabase), {
        minLength: 1,
        maxLength: 5,
      }),
    ),
  },
)

/** Concurrent requests. They are arbitrary, or all about one item and one of its attachments. */
export const crowds: fc.Arbitrary<UntaggedRequest[]> = fc.oneof(
  fc.array(requests, { minLength: 2, maxLength: 8 }),
  fc
    .tuple(
      db,
      id,
      fc.constantFrom('n', 'ü'),
      fc.array(own(fc.oneof(ofItem, patch, ofAttachment, ofAttachment)), {
        minLength: 2,
        maxLength: 8,
      }),
    )
    .map(([of, one, called, some]) =>
      some.map((meant) => ({
        ...meant,
        changes: meant.changes.map((change): Change => {
          if ('item' in change) return { ...change, db: of, item: { ...change.item, id: one } }
          if ('name' in change) return { ...change, db: of, id: one, name: called }
          return 'id' in change ? { ...change, db: of, id: one } : change
        }),
      })),
    ),
)

/** Returns the request with the entity tags for its preconditions, which depend on `state`. */
export function withTags(state: State, meant: UntaggedRequest): ModelRequest {
  const [change] = meant.changes
  // Only items and attachments have tags. `POST /api/{db}` creates an item without a path to which a tag could
  // belong.
  const isTagged = meant.form === 'own' && change?.method !== 'create_item' && !isDatabase(change)
  const tag = tagOf(state, meant.changes)
  const tags = (condition: Condition): Tags => {
    if (condition === 'none' || !isTagged) return null
    if (condition === 'any') return '*'
    const named = condition === 'stale' ? [] : [tag ?? '0.0']
    return condition === 'current' ? named : ['9999.0', ...named]
  }
  return { ...meant, match: tags(meant.match), noneMatch: tags(meant.noneMatch) }
}

function isDatabase(change: Change | undefined): boolean {
  return change === undefined || change.method.endsWith('_db')
}

/** Returns the path of an item or of its attachment. */
export function pathOf(database: string, of: string, attachment?: string): string {
  const parts = attachment === undefined ? [of] : [of, 'attachments', attachment]
  return ['/api', database, ...parts]
    .map((part) => (part === '/api' ? part : encodeURIComponent(part)))
    .join('/')
}

export async function send(node: LedgerNode, request: ModelRequest): Promise<Answer> {
  const [method, path, body, type] = wired(request)
  const { match, noneMatch } = request
  const reply = await node.send(method, path, body, {
    ...(request.key === '' ? {} : { 'idempotency-key': request.key }),
    ...(match === null ? {} : { 'if-match': header(match) }),
    ...(noneMatch === null ? {} : { 'if-none-match': header(noneMatch) }),
    ...(type === undefined ? {} : { 'content-type': type }),
  })
  const { status, headers, json } = reply
  const [serverid, position = null] = headers.get('ledger-position')?.split('/') ?? []
  if (serverid !== undefined && serverid !== String(node.service.serverId)) {
    throw new Error(`${method} ${path} was recorded by another node, ${serverid}`)
  }
  if (json?.block !== undefined) delete json.block.serverid
  return { status, json, etag: headers.get('etag'), position }
}

function header(tags: '*' | readonly string[]): string {
  return tags === '*' ? '*' : tags.map((tag) => `"${tag}"`).join(', ')
}

function wired({ changes, form }: ModelRequest): [string, string, unknown?, string?] {
  const [change] = changes
  if (form === 'ledgers' || change === undefined) {
    return ['POST', '/api/ledgers', { entries: changes }]
  }
  const database = `/api/${encodeURIComponent(change.db)}`
  if (form === 'array') {
    return ['POST', database, changes.map((one) => ('item' in one ? one.item : null))]
  }
  const path = pathOf(change.db, idIn(change))
  switch (change.method) {
    case 'create_db':
      return ['POST', database]
    case 'delete_db':
      return ['DELETE', database]
    case 'create_item':
      return ['POST', database, change.item]
    case 'update_item':
      return ['POST', path, change.item]
    case 'patch_item':
      return ['PATCH', path, change.patch]
    case 'delete_item':
      return ['DELETE', path]
    case 'create_attachment':
      return ['PUT', pathOf(change.db, change.id, change.name), change.text, change.type]
    case 'delete_attachment':
      return ['DELETE', pathOf(change.db, change.id, change.name)]
  }
}
