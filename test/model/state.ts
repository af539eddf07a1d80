// The simplest model of a node: a request changes a few maps and gets a reply.
import { hash } from 'node:crypto'
import type { Json, JsonObject } from '../../src/base/json.ts'

/** Position of an entry. */
export interface Position {
  readonly height: number
  readonly index: number
}

/** An item after an entry; null if the entry deleted it. */
export interface Revision {
  readonly at: Position
  readonly timestamp: number
  readonly method: 'create_item' | 'update_item' | 'delete_item'
  readonly item: JsonObject | null
}

/** Attachment data of an entry. */
export interface Attached {
  readonly content_type: string
  readonly length: number
  readonly name: string
  readonly sha256: string
}

/** History of an id in a database. */
export interface Item {
  readonly revisions: readonly Revision[]
  readonly attached: ReadonlyMap<
    string,
    Attached & { readonly text: string; readonly at: Position }
  >
}

/** A reply. */
export interface Answer {
  readonly status: number
  // biome-ignore lint/suspicious/noExplicitAny: replies as received
  readonly json: any
  readonly etag: string | null
  readonly position: string | null
}

/** An immutable node state: each request returns a new state. */
export interface State {
  readonly dbs: ReadonlyMap<string, ReadonlyMap<string, Item>>
  readonly entries: readonly {
    readonly at: Position
    readonly timestamp: number
    readonly entry: JsonObject
  }[]
  readonly answers: ReadonlyMap<string, { fingerprint: string; timestamp: number; answer: Answer }>
  /** The texts of all attachments that entries name. */
  readonly contents: ReadonlySet<string>
}

/** A new node. */
export const EMPTY: State = {
  dbs: new Map(),
  entries: [],
  answers: new Map(),
  contents: new Set(),
}

/** One change in the form of an entry, except for patches. */
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

/** A header of entity tags without quotes; null if it is not sent. */
export type Tags = '*' | readonly string[] | null

/** Content of a request. */
export interface ModelRequest {
  readonly changes: readonly Change[]
  /** How the request is sent: at the path of its single change, as an array of new items, or by `POST /api/ledgers`. */
  readonly form: 'own' | 'array' | 'ledgers'
  readonly match: Tags
  readonly noneMatch: Tags
  /** The idempotency key; if it is empty, no key is sent. */
  readonly key: string
}

/** A repeated request that returned its original reply: nothing was applied. */
export interface Repeated {
  readonly again: Answer
}

const DAY_MS = 24 * 60 * 60 * 1000

/** A position as text, `<height>.<index>`. */
export const positionText = ({ height, index }: Position) => `${height}.${index}`

/** The SHA-256 of a text, hex. */
export const shaOf = (text: string) => hash('sha256', text, 'hex')

/** The present revision of an item, or null if it does not exist. */
export function current(item: Item | undefined): (Revision & { item: JsonObject }) | null {
  const last = item?.revisions.at(-1)
  return last === undefined || last.item === null ? null : { ...last, item: last.item }
}

/** The existing items of a database, in order of creation. */
export function live(items: ReadonlyMap<string, Item>): (readonly [string, JsonObject, Item])[] {
  const created = (item: Item) =>
    item.revisions.findLast(({ method }) => method === 'create_item')?.at ?? { height: 0, index: 0 }
  return [...items]
    .filter(([, item]) => current(item) !== null)
    .toSorted(([, a], [, b]) => compare(created(a), created(b)))
    .map(([id, item]) => [id, current(item)?.item ?? {}, item] as const)
}

/** Negative if `a` is before `b`. */
export function compare(a: Position, b: Position): number {
  return a.height - b.height || a.index - b.index
}

/** The item id of a change, or empty. */
export function idIn(change: Change): string {
  if ('item' in change) return change.item.id
  return 'id' in change ? change.id : ''
}

/** RFC 7396, following its pseudocode. */
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

/** The present tag of the target of the first entry of `asked`; null if it does not exist. */
export function tagOf(state: State, [change]: readonly Change[]): string | null {
  const item = state.dbs.get(change?.db ?? '')?.get(change === undefined ? '' : idIn(change))
  const is = current(item)
  if (is === null || change === undefined) return null
  return 'name' in change ? (item?.attached.get(change.name)?.sha256 ?? null) : positionText(is.at)
}

/** Equal for requests with the same content. */
function same({ changes, form }: ModelRequest): string {
  return JSON.stringify([changes, form])
}

/** Checks preconditions. Errors: the error code. */
function expectTag(state: State, { changes, match, noneMatch }: ModelRequest): void {
  const [change] = changes
  if (change === undefined) return
  const { method } = change
  const item = current(state.dbs.get(change.db)?.get(idIn(change)))
  const tag = tagOf(state, changes)
  const isMade = method === 'create_item' || method === 'create_attachment'
  // Other errors take precedence over preconditions.
  if (!state.dbs.has(change.db) || (item === null && method !== 'create_item')) return
  if (tag === null && !isMade) return
  const names = (tags: Tags) =>
    tags !== null && tag !== null && (tags === '*' || tags.includes(tag))
  if ((match !== null && !names(match)) || names(noneMatch)) throw 'PRECONDITION_FAILED'
}

/** Applies a change. Errors: the error code. */
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

/** The attachment's data in the entry, without the model's additions. */
export function attachmentIn({ content_type, length, name, sha256 }: Attached) {
  return { content_type, length, name, sha256 }
}

/** The reply to a request recorded from `at` on; for a block, everything except its id. */
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
 * The state after a request was recorded from `at` on, or its earlier reply, or an error
 * code. `blockId` is the block id in the node's reply.
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
  // With `If-None-Match: *`, a replacement creates the item.
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
