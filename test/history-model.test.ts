// Random histories with preconditions, keys, restarts and days that pass, against a model that keeps
// every revision ever made: items, lists, entries, histories in both orders and page by page, and every
// item as of every height are what the model says, and a key is applied once.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { canonicalJson } from '../src/base/canonical-json.ts'
import type { JsonObject } from '../src/base/json.ts'
import { packPosition, positionText } from '../src/chain/index.ts'
import { type Change, type OpenLedger, openLedger } from '../src/ledger/index.ts'
import { mergePatch } from '../src/ledger/merge-patch.ts'
import type { Once, Precondition, Terms } from '../src/ledger/terms/terms.ts'
import { HandClock, temporaryFolder, verifyFolder } from './support/ledger-node.ts'

const DAY_MS = 24 * 60 * 60 * 1000

interface Revision {
  readonly position: number
  readonly timestamp: number
  readonly kind: 'create_item' | 'update_item' | 'delete_item'
  readonly text: string | null
}

interface Model {
  /** Live databases and all that became of each item. */
  dbs: Map<string, Map<string, Revision[]>>
  /** Canonical texts but for the server id. */
  entries: JsonObject[]
  height: number
  readonly answers: Map<string, { fingerprint: string; atMs: number; answer: unknown }>
}

class Node {
  ledger: OpenLedger
  readonly folder: string
  readonly clock: HandClock

  constructor(ledger: OpenLedger, folder: string, clock: HandClock) {
    this.ledger = ledger
    this.folder = folder
    this.clock = clock
  }

  async reopen(): Promise<void> {
    await this.ledger.close()
    this.ledger = await openLedger({ folder: this.folder, difficulty: 0, clock: this.clock })
  }
}

type Patch = { readonly method: 'patch_item'; readonly db: string; id: string; patch: JsonObject }
/** What one request asks for. */
type Asked = readonly (Change | Patch)[]

const current = (revisions: Revision[] | undefined) => {
  const last = revisions?.at(-1)
  return last === undefined || last.text === null ? null : { ...last, text: last.text }
}

/** One change in the model, or its refusal. */
function apply(model: Model, change: Change | Patch, position: number, timestamp: number): void {
  const { db } = change
  const items = model.dbs.get(db)
  const add = (id: string, kind: Revision['kind'], item: JsonObject | null) => {
    const revisions = items?.get(id) ?? []
    const text = item === null ? null : canonicalJson(item)
    items?.set(id, [...revisions, { position, timestamp, kind, text }])
    model.entries.push(item === null ? { method: kind, db, id } : { method: kind, db, item })
  }
  if (change.method === 'create_db') {
    if (items !== undefined) throw 'DATABASE_EXISTS'
    model.dbs.set(db, new Map())
    model.entries.push({ method: 'create_db', db })
    return
  }
  if (items === undefined) throw 'DATABASE_NOT_FOUND'
  if (change.method === 'delete_db') {
    model.dbs.delete(db)
    model.entries.push({ method: 'delete_db', db })
    return
  }
  const id = 'id' in change ? change.id : 'item' in change ? String(change.item.id) : ''
  const is = current(items.get(id))
  if (change.method === 'create_item' && is !== null) throw 'ITEM_EXISTS'
  if (change.method !== 'create_item' && is === null) throw 'ITEM_NOT_FOUND'
  if (change.method === 'delete_item') add(id, 'delete_item', null)
  else if (change.method === 'patch_item') {
    add(id, 'update_item', { ...mergePatch(JSON.parse(is?.text ?? '{}'), change.patch), id })
  } else if ('item' in change) {
    add(id, change.method === 'create_item' ? 'create_item' : 'update_item', change.item)
  }
}

/** On the term that there is none, a replacement creates. */
function meant(asked: Asked, terms: Terms | undefined): Asked {
  const [one] = asked
  if (terms?.precondition?.noneMatch !== '*' || one?.method !== 'update_item') return asked
  return [{ ...one, method: 'create_item' }]
}

/** A whole request: the position of its first entry, 'again' for one that was done, or its refusal. */
function request(model: Model, asked: Asked, terms: Terms | undefined, nowMs: number) {
  const kept = model.answers.get(terms?.once?.key ?? '')
  if (terms?.once && kept !== undefined && nowMs - kept.atMs < DAY_MS) {
    return kept.fingerprint === terms.once.fingerprint ? 'again' : 'IDEMPOTENCY_KEY_REUSED'
  }
  const copy: Model = { ...model, dbs: new Map(model.dbs), entries: [...model.entries] }
  for (const [name, items] of copy.dbs) copy.dbs.set(name, new Map(items))
  copy.height += 1
  try {
    const [first] = asked
    if (terms?.precondition && first !== undefined) expectState(model, first, terms.precondition)
    for (const [index, change] of asked.entries()) {
      apply(copy, change, packPosition(copy.height, index), nowMs)
    }
  } catch (refusal) {
    if (typeof refusal === 'string') return refusal
    throw refusal
  }
  Object.assign(model, copy)
  return packPosition(model.height, 0)
}

function expectState(model: Model, change: Change | Patch, precondition: Precondition): void {
  const items = model.dbs.get(change.db)
  const id = 'id' in change ? change.id : 'item' in change ? String(change.item.id) : ''
  const is = current(items?.get(id))
  if (items === undefined || (is === null && change.method !== 'create_item')) return
  const tag = is === null ? null : positionText(is.position)
  const named = (tags: Precondition['match']) =>
    tag !== null && (tags === '*' || (tags?.includes(tag) ?? false))
  if (precondition.match !== null && !named(precondition.match)) throw 'PRECONDITION_FAILED'
  if (precondition.noneMatch !== null && named(precondition.noneMatch)) throw 'PRECONDITION_FAILED'
}

/** Asks the node for the same. */
async function send({ ledger }: Node, asked: Asked, terms: Terms | undefined): Promise<unknown> {
  const { service } = ledger
  const [change] = asked
  try {
    if (asked.length !== 1 || change === undefined)
      return await service.recordChanges(asked as Change[], terms)
    switch (change.method) {
      case 'create_db':
        return await service.createDatabase(change.db, terms)
      case 'delete_db':
        return await service.deleteDatabase(change.db, terms)
      case 'create_item':
        return terms?.precondition?.noneMatch === '*'
          ? await service.updateItem(change.db, String(change.item.id), change.item, terms)
          : await service.createItem(change.db, change.item, terms)
      case 'update_item':
        return await service.updateItem(change.db, String(change.item.id), change.item, terms)
      case 'patch_item':
        return await service.patchItem(change.db, change.id, change.patch, terms)
      case 'delete_item':
        return await service.deleteItem(change.db, change.id, terms)
    }
  } catch (error) {
    return String((error as { code?: string }).code ?? error)
  }
}

const dbName = fc.constantFrom('fruit', '台帳')
const itemId = fc.constantFrom('fig', '__proto__', '🍎')
const content: fc.Arbitrary<JsonObject> = fc.dictionary(
  fc.constantFrom('a', 'b', 'é'),
  fc.oneof(fc.integer(), fc.constant(null), fc.string({ unit: 'grapheme', maxLength: 4 })),
  { maxKeys: 3, noNullPrototype: true },
)
const change: fc.Arbitrary<Change> = fc.oneof(
  {
    weight: 1,
    arbitrary: fc.record({
      method: fc.constantFrom('create_db' as const, 'delete_db' as const),
      db: dbName,
    }),
  },
  {
    weight: 16,
    arbitrary: fc.record({
      method: fc.constantFrom('create_item' as const, 'update_item' as const),
      db: dbName,
      item: fc.tuple(itemId, content).map(([id, members]) => ({ ...members, id })),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({ method: fc.constant('delete_item' as const), db: dbName, id: itemId }),
  },
)
const patch: fc.Arbitrary<Patch> = fc.record({
  method: fc.constant('patch_item' as const),
  db: dbName,
  id: itemId,
  patch: content,
})
const asked: fc.Arbitrary<Asked> = fc.oneof(
  { weight: 6, arbitrary: change.map((one) => [one]) },
  { weight: 2, arbitrary: patch.map((one) => [one]) },
  { weight: 3, arbitrary: fc.array(change, { minLength: 2, maxLength: 3 }) },
)
/** Tags that may be current when they are used: the current one, any, the one of the block before. */
const tags = fc.constantFrom('none', 'none', 'none', 'any', 'current', 'current', 'stale', 'both')
const key = fc.constantFrom('', '', '', '', 'k1', 'k2', 'k3')

function tagsOf(which: string, model: Model, one: Change | Patch | undefined) {
  const id =
    one === undefined ? '' : 'id' in one ? one.id : 'item' in one ? String(one.item.id) : ''
  const is = current(model.dbs.get(one?.db ?? '')?.get(id))
  const tag = is === null ? '0.0' : positionText(is.position)
  return (
    { none: null, any: '*' as const, current: [tag], stale: ['9999.0'], both: ['9999.0', tag] }[
      which
    ] ?? null
  )
}

class Step implements fc.AsyncCommand<Model, Node> {
  readonly #text: string
  readonly #run: (model: Model, node: Node) => Promise<void>

  constructor(text: string, run: (model: Model, node: Node) => Promise<void>) {
    this.#text = text
    this.#run = run
  }

  check(): boolean {
    return true
  }

  async run(model: Model, node: Node): Promise<void> {
    node.clock.time += 1
    await this.#run(model, node)
  }

  toString(): string {
    return this.#text
  }
}

/** The request once, or several times in one turn; the answers are what the model says. */
async function ask(model: Model, node: Node, what: Asked, terms: Terms | undefined, times: number) {
  const sent = Array.from({ length: times }, () => send(node, what, terms))
  for (const answer of await Promise.all(sent)) {
    const said = request(model, meant(what, terms), terms, node.clock.time)
    if (said === 'again') {
      expect(answer).toEqual(model.answers.get(terms?.once?.key ?? '')?.answer)
    } else if (typeof said === 'string') {
      expect(answer).toBe(said)
    } else {
      expect(answer).toMatchObject({ position: said, height: model.height })
      if (terms?.once) {
        const { key, fingerprint } = terms.once
        model.answers.set(key, { fingerprint, atMs: node.clock.time, answer })
      }
    }
  }
}

const requests = [
  fc.tuple(asked, key, fc.integer({ min: 1, max: 3 })).map(
    ([what, name, times]) =>
      new Step(`${times} x ${name} ${JSON.stringify(what)}`, (model, node) => {
        const once: Once | null =
          name === '' ? null : { key: name.padEnd(64, '0'), fingerprint: JSON.stringify(what) }
        const terms = once === null ? undefined : { precondition: null, once }
        // Without a key each of them is a request of its own, which may share a block with another.
        return ask(model, node, what, terms, once === null ? 1 : times)
      }),
  ),
  fc.tuple(fc.oneof(change, patch), tags, tags).map(
    ([one, match, noneMatch]) =>
      new Step(`if ${match}, ${noneMatch} ${JSON.stringify(one)}`, (model, node) => {
        const precondition = {
          match: tagsOf(match, model, one),
          noneMatch: tagsOf(noneMatch, model, one),
        }
        return ask(model, node, [one], { precondition, once: null }, 1)
      }),
  ),
] as const
/** All are picked equally often, and starting a node takes longer than all the rest. */
const commands = [
  ...Array.from({ length: 12 }, () => requests).flat(),
  fc.constant(new Step('reopen', (_model, node) => node.reopen())),
  fc.constant(
    new Step('a day passes', async (_model, node) => {
      node.clock.time += DAY_MS
    }),
  ),
]

async function all<Row>(pages: AsyncIterable<readonly Row[]>): Promise<Row[]> {
  const rows: Row[] = []
  for await (const page of pages) rows.push(...page)
  return rows
}

async function expectItem(model: Model, node: Node, db: string, id: string): Promise<void> {
  const { service } = node.ledger
  const revisions = model.dbs.get(db)?.get(id) ?? []
  const { history } = service
  const oldest = { limit: 0, newestFirst: false, after: null }
  expect(await all(await history.list(db, id, oldest))).toEqual(revisions)
  const newest = { ...oldest, newestFirst: true }
  expect(await all(await history.list(db, id, newest))).toEqual([...revisions].reverse())
  // Page by page: one more than the limit says that there are more.
  const paged: unknown[] = []
  for (let after: number | null = null; ; ) {
    const page: Revision[] = await all(await history.list(db, id, { ...oldest, limit: 2, after }))
    paged.push(...page.slice(0, 2))
    if (page.length < 3) break
    after = page[1]?.position ?? null
  }
  expect(paged).toEqual(revisions)
  for (let height = 0; height <= model.height; height += 1) {
    const then = revisions.findLast(({ position }) => position < packPosition(height + 1, 0))
    const text = then?.text ?? null
    expect(await history.itemAt(db, id, height)).toEqual(
      text === null ? null : { revision: then?.position, text },
    )
  }
  const now = current(revisions)
  const stored = await service.readItem(db, id)
  expect(stored === null ? null : [stored.revision, stored.text]).toEqual(
    now === null ? null : [now.position, now.text],
  )
}

async function expectAll(model: Model, node: Node): Promise<void> {
  const { service } = node.ledger
  expect(new Set(await service.databases())).toEqual(new Set(model.dbs.keys()))
  for (const [db, items] of model.dbs) {
    for (const id of items.keys()) await expectItem(model, node, db, id)
    const created = (revisions: Revision[]) =>
      revisions.findLast(({ kind }) => kind === 'create_item')?.position ?? 0
    const live = [...items].filter(([, revisions]) => current(revisions) !== null)
    const inOrder = live.sort(([, a], [, b]) => created(a) - created(b)).map(([id]) => id)
    const whole = { limit: 0, offset: 0, after: null }
    expect(await all(await service.listIds(db, whole))).toEqual(inOrder)
    await expect(service.history.itemAt(db, 'fig', model.height + 1)).rejects.toMatchObject({
      code: 'HEIGHT_UNKNOWN',
    })
    await expect(
      service.history.list(db, 'never', { limit: 0, newestFirst: false, after: null }),
    ).rejects.toMatchObject({ code: 'ITEM_NOT_FOUND' })
  }
  const blocks = await all(await service.listBlocks(service.serverId, { limit: 0, offset: 0 }))
  expect(blocks.length).toBe(model.height + 1)
  expect(blocks.flatMap((block) => block.entries)).toEqual(
    model.entries.map((entry) => canonicalJson({ ...entry, serverid: service.serverId })),
  )
}

it('items, lists, entries, histories and every item at every height agree with a model, and a key is applied once', async () => {
  await fc.assert(
    fc.asyncProperty(fc.commands(commands, { maxCommands: 80, size: 'max' }), async (history) => {
      const folder = temporaryFolder()
      const clock = new HandClock()
      const node = new Node(await openLedger({ folder, difficulty: 0, clock }), folder, clock)
      const model: Model = { dbs: new Map(), entries: [], height: -1, answers: new Map() }
      try {
        // Most histories would be over before the first database and its items came by chance.
        for (const db of ['fruit', '台帳']) {
          const begun: Asked = [
            { method: 'create_db', db },
            { method: 'create_item', db, item: { id: 'fig' } },
            { method: 'create_item', db, item: { id: '🍎' } },
          ]
          await ask(model, node, begun, undefined, 1)
        }
        await fc.asyncModelRun(() => ({ model, real: node }), history)
        await expectAll(model, node)
      } finally {
        await node.ledger.close()
      }
      const { finding, entries } = await verifyFolder(folder)
      expect([finding, entries]).toEqual([null, model.entries.length])
    }),
    { numRuns: 12, endOnFailure: true, interruptAfterTimeLimit: 12_000 },
  )
}, 60_000)
