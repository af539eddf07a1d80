// A simple model of a node: each request maps a state of a few maps to the next state and a reply.
import { hash } from 'node:crypto'
import type { Json, JsonObject } from '../../src/base/json.ts'

export interface Position {
  readonly height: number
  readonly index: number
}

/** Revision of an item. `item` is null after a deletion. */
export interface Revision {
  readonly at: Position
  readonly timestamp: number
  readonly method: 'create_item' | 'update_item' | 'delete_item'
  readonly item: JsonObject | null
}

/** Data of an attachment in an entry. */
export interface Attached {
  readonly content_type: string
  readonly length: number
  readonly name: string
  readonly sha256: string
}

/** History of one id in a database, with its current attachments by name. */
export interface Item {
  readonly revisions: readonly Revision[]
  readonly attached: ReadonlyMap<
    string,
    Attached & { readonly text: string; readonly at: Position }
  >
}

export interface Answer {
  readonly status: number
  // biome-ignore lint/suspicious/noExplicitAny: replies as received
  readonly json: any
  readonly etag: string | null
  readonly position: string | null
}

/** State of a node. A request does not change a state, but returns a new one. */
export interface State {
  readonly dbs: ReadonlyMap<string, ReadonlyMap<string, Item>>
  readonly entries: readonly {
    readonly at: Position
    readonly timestamp: number
    readonly entry: JsonObject
  }[]
  readonly answers: ReadonlyMap<string, { fingerprint: string; timestamp: number; answer: Answer }>
  /** The texts of all attachments that entries refer to. */
  readonly contents: ReadonlySet<string>
}

/** State of a new node. */
export const EMPTY: State = {
  dbs: new Map(),
  entries: [],
  answers: new Map(),
  contents: new Set(),
}

/** A change, in the form of an entry. Patches are different, because no entry records a patch as such. */
export type Change =
  | { readonly method: 'create_db'; readonly db: string }
  | { readonly method: 'delete_db'; readonly db: string }
  | {
      readonly method: 'create_item' | 'update_item'
      readonly db: string
      readonly item: JsonObject & { readonly id: string }
    }
  | {
      readonly method: 'patch_item'
      readonly db: string
      readonly id: string
      readonly patch: JsonObject
    }
  | { readonly method: 'delete_item'; readonly db: string; readonly id: string }
  | {
      readonly method: 'create_attachment'
      readonly db: string
      readonly id: string
      readonly name: string
      readonly type: string
      readonly text: string
    }
  | {
      readonly method: 'delete_attachment'
      readonly db: string
      readonly id: string
      readonly name: string
    }

/** The entity tags of a precondition, without quotes. null: the request does not have this precondition. */
export type Tags = '*' | readonly string[] | null

export interface ModelRequest {
  readonly changes: readonly Change[]
  /**
   * How the request is sent. `own`: to the path of its single change. `array`: as an array of new items.
   * `ledgers`: by `POST /api/ledgers`.
   */
  readonly form: 'own' | 'array' | 'ledgers'
  readonly match: Tags
  readonly noneMatch: Tags
  /** The idempotency key. Empty: the request has no key. */
  readonly key: string
}

/** The original reply to a repeated request, which changes nothing. */
export interface Repeated {
  readonly again: Answer
}

const DAY_MS = 24 * 60 * 60 * 1000

/** Returns a position as text, `<height>.<index>`. */
export const positionText = ({ height, index }: Position) => `${height}.${index}`

export const shaOf = (text: string) => hash('sha256', text, 'hex')

/** Returns the current revision of an item, or null if the item does not exist. */
export function current(item: Item | undefined): (Revision & { item: JsonObject }) | null {
  const last = item?.revisions.at(-1)
  return last === undefined || last.item === null ? null : { ...last, item: last.item }
}

/** Returns the existing items of a database in order of creation. */
export function live(items: ReadonlyMap<string, Item>): (readonly [string, JsonObject, Item])[] {
  const created = (item: Item) =>
    item.revisions.findLast(({ method }) => method === 'create_item')?.at ?? { height: 0, index: 0 }
  return [...items]
    .filter(([, item]) => current(item) !== null)
    .toSorted(([, a], [, b]) => compare(created(a), created(b)))
    .map(([id, item]) => [id, current(item)?.item ?? {}, item] as const)
}

/** Compares positions. The result is negative if `a` is before `b`. */
export function compare(a: Position, b: Position): number {
  return a.height - b.height || a.index - b.index
}

/** Returns the item id of a change. Empty for changes of databases. */
export function idIn(change: Change): string {
  if ('item' in change) return change.item.id
  return 'id' in change ? change.id : ''
}

/** Merge patch of RFC 7396, as in its pseudocode. */
function merged(target: Json | undefined, patch: Json): Json {
  if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) return patch
  const isObject = typeof target === 'object' && target !== null && !Array.isArray(target)
  const members = new Map(isObject ? Object.entries(target) : [])
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) members.delete(name)
    else members.set(name, merged(members.get(name), value))
  }
  return Object.fromEntries(members)
}

/** Returns the current tag of the item or attachment that the first change is about, or null if it does not exist. */
export function tagOf(state: State, [change]: readonly Change[]): string | null {
  const item = state.dbs.get(change?.db ?? '')?.get(change === undefined ? '' : idIn(change))
  const is = current(item)
  if (is === null || change === undefined) return null
  return 'name' in change ? (item?.attached.get(change.name)?.sha256 ?? null) : positionText(is.at)
}

/** Returns a text that is equal for requests with the same content. */
function same({ changes, form }: ModelRequest): string {
  return JSON.stringify([changes, form])
}

/** Checks preconditions. Throws the error code. */
function expectTag(state: State, { changes, match, noneMatch }: ModelRequest): void {
  const [change] = changes
  if (change === undefined) return
  const { method } = change
  const item = current(state.dbs.get(change.db)?.get(idIn(change)))
  const tag = tagOf(state, changes)
  const isMade = method === 'create_item' || method === 'create_attachment'
  // Checks nothing if the database or item is missing, because `apply` then throws the code for that.
  if (!state.dbs.has(change.db) || (item === null && method !== 'create_item')) return
  if (tag === null && !isMade) return
  const names = (tags: Tags) =>
    tags !== null && tag !== null && (tags === '*' || tags.includes(tag))
  if ((match !== null && !names(match)) || names(noneMatch)) throw 'PRECONDITION_FAILED'
}

/** Returns the state after a change. Throws the error code. */
function apply(state: State, change: Change, at: Position, timestamp: number): State {
  const { method, db } = change
  const items = state.dbs.get(db)
  const dbs = new Map(state.dbs)
  const recorded = (entry: JsonObject, contents = state.contents): State => ({
    ...state,
    dbs,
    contents,
    entries: [...state.entries, { at, timestamp, entry }],
  })
  if (change.method === 'create_db') {
    if (items !== undefined) throw 'DATABASE_EXISTS'
    dbs.set(db, new Map())
    return recorded({ method, db })
  }
  if (items === undefined) throw 'DATABASE_NOT_FOUND'
  if (change.method === 'delete_db') {
    dbs.delete(db)
    return recorded({ method, db })
  }
  const id = idIn(change)
  const before = items.get(id) ?? { revisions: [], attached: new Map() }
  const is = current(before)
  if (method === 'create_item' && is !== null) throw 'ITEM_EXISTS'
  if (method !== 'create_item' && is === null) throw 'ITEM_NOT_FOUND'
  const becomes = (item: Item) => dbs.set(db, new Map(items).set(id, item))
  if (method === 'create_attachment' || method === 'delete_attachment') {
    const attached = new Map(before.attached)
    becomes({ ...before, attached })
    if (method === 'delete_attachment') {
      const was = attached.get(change.name)
      if (was === undefined) throw 'ATTACHMENT_NOT_FOUND'
      attached.delete(change.name)
      return recorded({ method, db, id, attachment: attachmentIn(was) })
    }
    const { name, type: content_type, text } = change
    const attachment = { content_type, length: text.length, name, sha256: shaOf(text) }
    attached.set(name, { ...attachment, text, at })
    return recorded({ method, db, id, attachment }, new Set(state.contents).add(text))
  }
  const revision = (kind: Revision['method'], item: JsonObject | null) => [
    ...before.revisions,
    { at, timestamp, method: kind, item },
  ]
  if (change.method === 'delete_item') {
    becomes({ revisions: revision('delete_item', null), attached: new Map() })
    return recorded({ method: 'delete_item', db, id })
  }
  const item: JsonObject =
    'patch' in change ? { ...(merged(is?.item, change.patch) as JsonObject), id } : change.item
  const kind = method === 'create_item' ? 'create_item' : 'update_item'
  becomes({ ...before, revisions: revision(kind, item) })
  return recorded({ method: kind, db, item })
}

/** Returns the data of the attachment as it is in an entry. */
export function attachmentIn({ content_type, length, name, sha256 }: Attached) {
  return { content_type, length, name, sha256 }
}

/** Returns the reply to a request whose first entry is at `at`. `blockId` is the id of its block. */
function answerTo(
  { changes, form }: ModelRequest,
  at: Position,
  after: State,
  blockId: unknown,
): Answer {
  const position = positionText(at)
  const ids = changes.map((change) => idIn(change))
  const answer = (json: object, etag: string | null = `"${position}"`) => ({
    status: 200,
    json: { status: true, ...json },
    etag,
    position,
  })
  if (form === 'array') return answer({ ids })
  if (form === 'ledgers') {
    const results = ids.map((id) => ({ id: id === '' ? null : id }))
    return answer({ block: { height: at.height, id: blockId }, results })
  }
  const [change] = changes
  if (change?.method === 'delete_attachment') return answer({}, null)
  if (change?.method === 'create_attachment') {
    const attached = after.dbs.get(change.db)?.get(change.id)?.attached.get(change.name)
    if (attached === undefined) throw new Error('the model has not attached it')
    return answer({ attachment: attachmentIn(attached) }, `"${attached.sha256}"`)
  }
  const isBare = change === undefined || change.method.endsWith('_db')
  return answer(isBare || change.method === 'delete_item' ? {} : { id: ids[0] })
}

/**
 * Returns the state and the reply after a request whose first entry is at `at`. For a repeated request,
 * returns the original reply. For a refused request, returns the error code. `blockId` is the id of the block
 * in the reply of the node.
 */
export function requested(
  state: State,
  request: ModelRequest,
  at: Position,
  nowMs: number,
  blockId: unknown,
): { readonly state: State; readonly answer: Answer } | Repeated | string {
  const record = state.answers.get(request.key)
  if (record !== undefined && nowMs - record.timestamp < DAY_MS) {
    return record.fingerprint === same(request)
      ? { again: record.answer }
      : 'IDEMPOTENCY_KEY_REUSED'
  }
  // With `If-None-Match: *`, a PUT creates the item.
  const [one] = request.changes
  const creates = request.noneMatch === '*' && one?.method === 'update_item'
  const changes = creates ? [{ ...one, method: 'create_item' as const }] : request.changes
  try {
    if (request.form === 'own') expectTag(state, { ...request, changes })
    let after = state
    for (const [offset, change] of changes.entries()) {
      after = apply(after, change, { ...at, index: at.index + offset }, nowMs)
    }
    const answer = answerTo(request, at, after, blockId)
    if (request.key === '') return { state: after, answer }
    const answers = new Map(after.answers)
    answers.set(request.key, { fingerprint: same(request), timestamp: nowMs, answer })
    return { state: { ...after, answers }, answer }
  } catch (refusal) {
    if (typeof refusal === 'string') return refusal
    throw refusal
  }
}
