// Compares random histories of items, attachments, erasures and restarts with a model that remembers every entry. The
// result of each step must match the model, and so must the ledger and the files at the end. The store must verify,
// and a replay of its export must give the same rows.
import { hash } from 'node:crypto'
import { copyFileSync, existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { positionText } from '../src/chain/index.ts'
import { type OpenLedger, openLedger } from '../src/ledger/core.ts'
import { exportLines } from '../src/ledger/export/export.ts'
import { importExport } from '../src/ledger/export/import.ts'
import { openStoreReader } from '../src/storage/index.ts'
import { HandClock, temporaryFolder, verifyFolder } from './support/ledger-node.ts'
import { timeFor } from './support/rounds.ts'

const DB = 'fruit'
const shaOf = (text: string) => hash('sha256', text, 'hex')

interface Remembered {
  readonly position: string
  readonly method: string
  /** Id of the item. Empty for entries of databases and erasures. */
  readonly id: string
  readonly name: string
  readonly text: string
  /** How many times the database had been created when the entry was recorded. */
  readonly life: number
  /** For the creation of an attachment: the entry that replaced or deleted it. */
  ended: Remembered | null
  isErased: boolean
}

interface Model {
  readonly entries: Remembered[]
  life: number
  isThere: boolean
  /**
   * Current state of each item: the entry that created it, the entry that last changed it, and its
   * attachments by name.
   */
  readonly items: Map<
    string,
    { created: Remembered; set: Remembered; held: Map<string, Remembered> }
  >
}

interface Node {
  ledger: OpenLedger
  folder: string
}

const open = (folder: string) => openLedger({ folder, clock: new HandClock() })

type Step =
  | { kind: 'put'; id: string; name: string; text: string }
  | { kind: 'remove'; id: string; name: string }
  | { kind: 'create'; id: string }
  | { kind: 'update'; id: string }
  | { kind: 'delete'; id: string }
  | { kind: 'erase'; id: string }
  | { kind: 'some'; id: string; picks: readonly number[] }
  | { kind: 'drop' }
  | { kind: 'make' }
  | { kind: 'reopen' }

const id = fc.constantFrom('x', 'x', 'y')
const name = fc.constantFrom('n', 'ü')
const text = fc.constantFrom('', 'one', 'two', 'three')
const about = <Kind extends 'create' | 'update' | 'delete' | 'erase'>(
  kind: Kind,
  weight: number,
) => ({
  weight,
  arbitrary: fc.record({ kind: fc.constant(kind), id }),
})
const picks = fc.array(fc.nat({ max: 30 }), { minLength: 1, maxLength: 4 })
const oneStep: fc.Arbitrary<Step> = fc.oneof(
  { weight: 12, arbitrary: fc.record({ kind: fc.constant('put' as const), id, name, text }) },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('remove' as const), id, name }) },
  about('create', 5),
  about('update', 3),
  about('delete', 2),
  about('erase', 3),
  { weight: 8, arbitrary: fc.record({ kind: fc.constant('some' as const), id, picks }) },
  {
    weight: 3,
    arbitrary: fc.constantFrom<Step>(
      { kind: 'drop' },
      { kind: 'make' },
      { kind: 'make' },
      { kind: 'reopen' },
    ),
  },
)

/** Returns the entries that an erasure of `named` covers, or the error code of its refusal. */
function erased(model: Model, of: string, named: readonly Remembered[]): Remembered[] | string {
  const item = model.items.get(of)
  const taken = new Set<Remembered>()
  for (const entry of model.entries) {
    if (!named.includes(entry)) continue
    const isAttachment = entry.method.endsWith('_attachment')
    if (entry.id !== of || entry.method === 'delete_item') return 'POSITION_INVALID'
    if (entry === item?.set) return 'REVISION_CURRENT'
    if (entry.isErased) continue
    taken.add(entry)
    if (!isAttachment) continue
    if (item?.held.get(entry.name) === entry) return 'REVISION_CURRENT'
    const former = model.entries.find(({ ended }) => ended === entry)
    if (former !== undefined && !former.isErased && !taken.has(former)) return 'REVISION_NEEDED'
    if (entry.ended?.method === 'delete_attachment') taken.add(entry.ended)
  }
  if (taken.size === 0) return 'NOTHING_TO_ERASE'
  return model.entries.filter((entry) => taken.has(entry))
}

/** Returns all former revisions and attachments of the item, also in earlier databases of the name. */
function formerOf(model: Model, of: string): Remembered[] {
  const item = model.items.get(of)
  return model.entries.filter(
    (entry) =>
      entry.id === of &&
      ['create_item', 'update_item', 'create_attachment'].includes(entry.method) &&
      entry !== item?.set &&
      item?.held.get(entry.name) !== entry,
  )
}

/** Chooses entries for an erasure: mostly entries of the item, sometimes an entry of another item. */
function picked(model: Model, of: string, at: readonly number[]): Remembered[] {
  const all = model.entries.filter((entry) => entry.id === of)
  const strange = model.entries.filter((entry) => entry.id !== of)
  return at.flatMap((one) =>
    one === 30 ? strange.slice(-1) : all.slice(one % all.length).slice(0, 1),
  )
}

/** Applies the step to the model. Returns the positions of the erased entries, an error code, or `done`. */
function expected(model: Model, step: Step): readonly string[] | string {
  if (step.kind === 'reopen') return 'done'
  const add = (method: string, of = '', called = '', content = ''): Remembered => {
    const height = model.entries.length
    const entry = { position: `${height}.0`, method, id: of, name: called, text: content }
    const whole = { ...entry, life: model.life, ended: null, isErased: false }
    model.entries.push(whole)
    return whole
  }
  if (step.kind === 'make') {
    if (model.isThere) return 'DATABASE_EXISTS'
    model.isThere = true
    model.life += 1
    add('create_db')
    return 'done'
  }
  if (step.kind === 'erase' || step.kind === 'some') {
    const named =
      step.kind === 'some' ? picked(model, step.id, step.picks) : formerOf(model, step.id)
    const taken = erased(model, step.id, named)
    if (typeof taken === 'string') return taken
    for (const entry of taken) entry.isErased = true
    add('erase_item')
    return taken.map(({ position }) => position)
  }
  if (!model.isThere) return 'DATABASE_NOT_FOUND'
  if (step.kind === 'drop') {
    model.isThere = false
    model.items.clear()
    add('delete_db')
    return 'done'
  }
  const item = model.items.get(step.id)
  if (step.kind === 'create') {
    if (item !== undefined) return 'ITEM_EXISTS'
    const created = add('create_item', step.id)
    model.items.set(step.id, { created, set: created, held: new Map() })
    return 'done'
  }
  if (item === undefined) return 'ITEM_NOT_FOUND'
  if (step.kind === 'update') item.set = add('update_item', step.id)
  else if (step.kind === 'delete') {
    add('delete_item', step.id)
    model.items.delete(step.id)
  } else if (step.kind === 'remove') {
    const held = item.held.get(step.name)
    if (held === undefined) return 'ATTACHMENT_NOT_FOUND'
    held.ended = add('delete_attachment', step.id, step.name, held.text)
    item.held.delete(step.name)
  } else {
    const entry = add('create_attachment', step.id, step.name, step.text)
    // The new attachment replaces one with the same name, even one of a deleted item with the same id.
    const open = model.entries.find(
      (one) =>
        one !== entry &&
        one.method === 'create_attachment' &&
        one.life === model.life &&
        one.id === step.id &&
        one.name === step.name &&
        one.ended === null &&
        !one.isErased,
    )
    if (open !== undefined) open.ended = entry
    item.held.set(step.name, entry)
  }
  return 'done'
}

async function run(node: Node, model: Model, step: Step): Promise<readonly string[] | string> {
  const { service } = node.ledger
  const call = async (): Promise<unknown> => {
    switch (step.kind) {
      case 'make':
        return service.write.createDatabase(DB)
      case 'drop':
        return service.write.deleteDatabase(DB)
      case 'create':
        return service.write.createItem(DB, { id: step.id })
      case 'update':
        return service.write.updateItem(DB, step.id, { n: model.entries.length })
      case 'delete':
        return service.write.deleteItem(DB, step.id)
      case 'remove':
        return service.attachments.delete(DB, step.id, step.name, undefined)
      case 'put': {
        const chunks = async function* () {
          yield Buffer.from(step.text)
        }
        return service.attachments.put(DB, step.id, step.name, {
          ...{
            contentType: 'text/plain',
            announcedLength: null,
            digests: [],
            conditions: { precondition: null, keyed: null },
          },
          chunks: chunks(),
        })
      }
      case 'erase':
        return (await service.write.eraseRevisions(DB, step.id, null)).positions
      case 'some': {
        const positions = picked(model, step.id, step.picks).map(({ position }) => position)
        return (await service.write.eraseRevisions(DB, step.id, positions)).positions
      }
      case 'reopen':
        await node.ledger.close()
        node.ledger = await open(node.folder)
    }
  }
  try {
    const result = await call()
    return Array.isArray(result) ? result : 'done'
  } catch (error) {
    return String((error as { code?: string }).code ?? error)
  }
}

/** Checks that items, ledger and files match the model. */
async function expectAgreement(model: Model, node: Node): Promise<void> {
  const { service } = node.ledger
  for (const [of, { held }] of model.items) {
    const listed: string[] = []
    for await (const page of await service.attachments.list(DB, of, {
      limit: 0,
      offset: 0,
      after: '',
    })) {
      for (const one of page) listed.push(`${one.name} ${positionText(one.position)} ${one.sha256}`)
    }
    expect(listed).toEqual(
      [...held.values()]
        .toSorted((a, b) => (a.name < b.name ? -1 : 1))
        .map((entry) => `${entry.name} ${entry.position} ${shaOf(entry.text)}`),
    )
  }
  const shown: unknown[] = []
  for await (const blocks of service.reader.blocks(0)) {
    for (const { entries } of blocks) for (const entry of entries) shown.push(JSON.parse(entry))
  }
  for (const [at, { method, name: called, isErased }] of model.entries.entries()) {
    const attachment = isErased ? {} : expect.objectContaining({ name: called })
    expect(shown[at]).toMatchObject({ method })
    if (method.endsWith('_attachment')) expect(shown[at]).toMatchObject({ attachment })
  }
  const root = join(node.folder, 'attachments')
  const files = existsSync(root)
    ? readdirSync(root, { recursive: true, withFileTypes: true }).filter((one) => one.isFile())
    : []
  const named = model.entries.filter(
    ({ method, isErased }) => method === 'create_attachment' && !isErased,
  )
  expect(files.map((one) => one.parentPath.slice(-2) + one.name).toSorted()).toEqual(
    [...new Set(named.map((entry) => shaOf(entry.text)))].toSorted(),
  )
}

/** Returns all rows that were derived from the chain, sorted. */
function rowsOf(folder: string): string[] {
  const database = new DatabaseSync(join(folder, 'ledger.db'), { readOnly: true })
  // Ignores rows of deleted databases, because they can still exist after an import.
  const alive = 'db IN (SELECT created FROM databases)'
  const selects = ['attachments', `items WHERE ${alive}`, `superseded WHERE ${alive}`, 'erasures']
  const rows = selects.flatMap((from) => database.prepare(`SELECT '${from}', * FROM ${from}`).all())
  database.close()
  return rows.map((row) => JSON.stringify(row)).toSorted()
}

async function replayed(folder: string): Promise<string> {
  const into = temporaryFolder()
  copyFileSync(join(folder, 'node.key'), join(into, 'node.key'))
  const store = await openStoreReader(folder, { frozen: true })
  const chunks = async function* () {
    for await (const lines of exportLines(store, folder, () => {})) yield Buffer.from(lines)
  }
  await importExport({ folder: into, chunks: chunks(), progress: () => {} })
  await store.close()
  return into
}

it('gives the same results as a simple model for any history with erasures, before and after a replay', async () => {
  const outcomes = new Map<string, number>()
  const goesOn = timeFor(20_000)
  await fc.assert(
    fc.asyncProperty(fc.array(oneStep, { minLength: 20, maxLength: 60 }), async (history) => {
      if (!goesOn()) return
      const folder = temporaryFolder()
      const node: Node = { ledger: await open(folder), folder }
      const model: Model = { entries: [], life: 0, isThere: false, items: new Map() }
      try {
        for (const step of [{ kind: 'make' }, { kind: 'create', id: 'x' }, ...history] as Step[]) {
          const answer = await run(node, model, step)
          expect([step, answer]).toEqual([step, expected(model, step)])
          if (step.kind === 'erase' || step.kind === 'some') {
            const outcome = typeof answer === 'string' ? answer : 'erased'
            outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
          }
        }
        await expectAgreement(model, node)
      } finally {
        await node.ledger.close()
      }
      const { finding, erased: count } = await verifyFolder(folder)
      const erased = model.entries.filter(({ isErased }) => isErased).length
      expect([finding, count]).toEqual([null, erased])
      const into = await replayed(folder)
      expect(rowsOf(into)).toEqual(rowsOf(folder))
    }),
    { numRuns: 20, endOnFailure: true },
  )
  console.log(`erasures: ${JSON.stringify([...outcomes])}`)
})
