// Random histories of one node, with restarts in between, against a model that is a few maps: what
// the node lists, reads and records is what the model says, and the store verifies at the end.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { canonicalJson } from '../src/base/canonical-json.ts'
import type { Json, JsonObject } from '../src/base/json.ts'
import { type Change, type OpenLedger, openLedger } from '../src/ledger/index.ts'
import { HandClock, temporaryFolder, verifyFolder } from './support/ledger-node.ts'

/** A node as simply as it can be said. */
interface Model {
  /** Databases and their items in the order of creation. */
  dbs: Map<string, Map<string, JsonObject>>
  /** Every entry that must be in the chain, without the server id. */
  entries: JsonObject[]
  blocks: number
}

/** The node that a history is played on. */
class Node {
  ledger: OpenLedger
  readonly folder: string
  readonly clock = new HandClock()

  constructor(ledger: OpenLedger, folder: string) {
    this.ledger = ledger
    this.folder = folder
  }

  async reopen(): Promise<void> {
    await this.ledger.close()
    this.ledger = await openLedger({ folder: this.folder, difficulty: 0, clock: this.clock })
  }
}

/** The codes of refusals, or what the call gave. */
async function codeOf(call: () => Promise<unknown>): Promise<string> {
  try {
    await call()
    return 'done'
  } catch (error) {
    return String((error as { code?: string }).code ?? error)
  }
}

/** What the model says of one change: its refusal, or null when it was made. */
function apply(model: Model, change: Change): string | null {
  const { method, db } = change
  const items = model.dbs.get(db)
  if (method === 'create_db') {
    if (items !== undefined) return 'DATABASE_EXISTS'
    model.dbs.set(db, new Map())
    model.entries.push({ method, db })
    return null
  }
  if (items === undefined) return 'DATABASE_NOT_FOUND'
  if (method === 'delete_db') {
    model.dbs.delete(db)
    model.entries.push({ method, db })
    return null
  }
  if (change.method === 'delete_item') {
    if (!items.delete(change.id)) return 'ITEM_NOT_FOUND'
    model.entries.push({ method, db, id: change.id })
    return null
  }
  if (change.method !== 'create_item' && change.method !== 'update_item') return 'unknown'
  const { item } = change
  const id = String(item.id)
  if (method === 'create_item' && items.has(id)) return 'ITEM_EXISTS'
  if (method === 'update_item' && !items.has(id)) return 'ITEM_NOT_FOUND'
  items.set(id, item)
  model.entries.push({ method, db, item })
  return null
}

/** All of `changes` in one block, or the first refusal and nothing. */
function applyUnit(model: Model, changes: readonly Change[]): string {
  const copy: Model = {
    dbs: new Map([...model.dbs].map(([name, items]) => [name, new Map(items)])),
    entries: [...model.entries],
    blocks: model.blocks + 1,
  }
  for (const change of changes) {
    const refusal = apply(copy, change)
    if (refusal !== null) return refusal
  }
  Object.assign(model, copy)
  return 'done'
}

/** RFC 7396 as its own pseudo code has it. */
function merged(target: Json | undefined, patch: Json): Json {
  if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) return patch
  const result: JsonObject =
    typeof target === 'object' && target !== null && !Array.isArray(target) ? { ...target } : {}
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name]
    else result[name] = merged(result[name], value)
  }
  return result
}

/** One step of a history: what it does to the model, and to the node. */
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

const dbName = fc.constantFrom('fruit', 'tools', '台帳', 'constructor', 'a b')
const itemId = fc.constantFrom(
  'fig',
  'plum',
  '🍎',
  'toString',
  '__proto__',
  'x'.repeat(256),
  '10',
  '9',
)
const content: fc.Arbitrary<JsonObject> = fc.dictionary(
  fc.constantFrom('a', 'b', 'valueOf', '', 'é'),
  fc.oneof(
    fc.integer(),
    fc.string({ unit: 'grapheme', maxLength: 8 }),
    fc.constant(null),
    fc.array(fc.boolean(), { maxLength: 2 }),
    fc.record({ deep: fc.oneof(fc.constant(null), fc.integer()) }),
  ),
  { maxKeys: 4, noNullPrototype: true },
)
const item = fc.tuple(itemId, content).map(([id, members]) => ({ ...members, id }))

const change: fc.Arbitrary<Change> = fc.oneof(
  fc.record({ method: fc.constantFrom('create_db' as const, 'delete_db' as const), db: dbName }),
  {
    weight: 6,
    arbitrary: fc.record({
      method: fc.constantFrom('create_item' as const, 'update_item' as const),
      db: dbName,
      item,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ method: fc.constant('delete_item' as const), db: dbName, id: itemId }),
  },
)

/** The same change through the call of its own. */
function single(node: Node, change: Change): Promise<unknown> {
  const { service } = node.ledger
  switch (change.method) {
    case 'create_db':
      return service.createDatabase(change.db)
    case 'delete_db':
      return service.deleteDatabase(change.db)
    case 'create_item':
      return service.createItem(change.db, change.item)
    case 'update_item':
      return service.updateItem(change.db, String(change.item.id), change.item)
    case 'delete_item':
      return service.deleteItem(change.db, change.id)
  }
}

const commands = [
  change.map(
    (one) =>
      new Step(`single ${JSON.stringify(one)}`, async (model, node) => {
        expect(await codeOf(() => single(node, one))).toBe(applyUnit(model, [one]))
      }),
  ),
  fc.array(change, { minLength: 1, maxLength: 8 }).map(
    (unit) =>
      new Step(`unit ${JSON.stringify(unit)}`, async (model, node) => {
        const code = await codeOf(() => node.ledger.service.recordChanges(unit))
        expect(code).toBe(applyUnit(model, unit))
      }),
  ),
  fc.tuple(dbName, fc.array(item, { minLength: 1, maxLength: 4 })).map(
    ([db, items]) =>
      new Step(`list ${db} ${JSON.stringify(items)}`, async (model, node) => {
        const unit = items.map((one) => ({ method: 'create_item' as const, db, item: one }))
        const code = await codeOf(() => node.ledger.service.createItems(db, items))
        expect(code).toBe(applyUnit(model, unit))
      }),
  ),
  fc.tuple(dbName, itemId, content).map(
    ([db, id, patch]) =>
      new Step(`patch ${db} ${id} ${JSON.stringify(patch)}`, async (model, node) => {
        const target = model.dbs.get(db)?.get(id)
        const after = { ...(merged(target, patch) as JsonObject), id }
        const code = await codeOf(() => node.ledger.service.patchItem(db, id, patch))
        expect(code).toBe(applyUnit(model, [{ method: 'update_item', db, item: after }]))
      }),
  ),
  // Sent in one turn, so that they may share a block: each is decided on what the ones before left.
  fc.array(change, { minLength: 2, maxLength: 12 }).map(
    (crowd) =>
      new Step(`crowd ${JSON.stringify(crowd)}`, async (model, node) => {
        const answered = crowd.map((one) => codeOf(() => single(node, one)))
        expect(await Promise.all(answered)).toEqual(crowd.map((one) => applyUnit(model, [one])))
      }),
  ),
  dbName.map((db) => new Step(`look at ${db}`, (model, node) => expectDatabase(model, node, db))),
  fc.constant(new Step('reopen', (_model, node) => node.reopen())),
]

async function all<Row>(pages: AsyncIterable<readonly Row[]>): Promise<Row[]> {
  const rows: Row[] = []
  for await (const page of pages) rows.push(...page)
  return rows
}

async function expectDatabase(model: Model, node: Node, db: string): Promise<void> {
  const { service } = node.ledger
  const whole = { limit: 0, offset: 0, after: null }
  const items = model.dbs.get(db)
  if (items === undefined) {
    expect(await codeOf(() => service.listIds(db, whole))).toBe('DATABASE_NOT_FOUND')
    return
  }
  const ids = [...items.keys()]
  expect(await all(await service.listIds(db, whole))).toEqual(ids)
  const stored = await all(await service.listItems(db, whole))
  expect(stored.map(({ text }) => text)).toEqual([...items.values()].map(canonicalJson))
  // Page by page, by id and by number.
  const paged: string[] = []
  for (let after: string | null = null; ; ) {
    const page: string[] = await all(await service.listIds(db, { limit: 2, offset: 0, after }))
    if (page.length === 0) break
    paged.push(...page)
    after = page.at(-1) ?? null
  }
  expect(paged).toEqual(ids)
  expect(await all(await service.listIds(db, { limit: 2, offset: 1, after: null }))).toEqual(
    ids.slice(1, 3),
  )
  for (const [id, member] of items) {
    expect((await service.readItem(db, id))?.text).toBe(canonicalJson(member))
  }
  expect(await service.readItem(db, 'not there')).toBeNull()
}

it('any history leaves what the model says: ids in creation order, items, pages, entries, a store that verifies', async () => {
  await fc.assert(
    fc.asyncProperty(fc.commands(commands, { maxCommands: 30 }), async (history) => {
      const folder = temporaryFolder()
      const node = new Node(
        await openLedger({ folder, difficulty: 0, clock: new HandClock() }),
        folder,
      )
      const model: Model = { dbs: new Map(), entries: [], blocks: 0 }
      try {
        await fc.asyncModelRun(() => ({ model, real: node }), history)
        const { service } = node.ledger
        expect(await service.databases()).toEqual([...model.dbs.keys()])
        for (const db of model.dbs.keys()) await expectDatabase(model, node, db)
        const blocks = await all(
          await service.listBlocks(service.serverId, { limit: 0, offset: 0 }),
        )
        const entries = blocks.flatMap((block) => block.entries)
        expect(entries).toEqual(
          model.entries.map((entry) => canonicalJson({ ...entry, serverid: service.serverId })),
        )
        expect(blocks.map(({ height }) => height)).toEqual(blocks.map((_, at) => at))
      } finally {
        await node.ledger.close()
      }
      const { finding, entries, databases } = await verifyFolder(folder)
      expect([finding, entries, databases]).toEqual([null, model.entries.length, model.dbs.size])
    }),
    { numRuns: 30, endOnFailure: true, interruptAfterTimeLimit: 12_000 },
  )
}, 60_000)
