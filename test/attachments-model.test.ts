// Random histories of items and attachments, with restarts in between, against a model of a few maps:
// what is listed and read, which files are kept, what the ledger says, and the store verifies.
import { hash } from 'node:crypto'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { type OpenLedger, openLedger } from '../src/ledger/index.ts'
import { HandClock, temporaryFolder, verifyFolder } from './support/ledger-node.ts'

const DB = 'fruit'
const shaOf = (text: string) => hash('sha256', text, 'hex')

/** A node as simply as it can be said. */
interface Model {
  /** Null while the database is not there; items, and under their names type and content. */
  items: Map<string, Map<string, { type: string; text: string }>> | null
  /** Contents that entries have named. */
  named: Set<string>
  entries: number
}

interface Node {
  ledger: OpenLedger
  folder: string
}

const open = (folder: string) => openLedger({ folder, difficulty: 0, clock: new HandClock() })

async function codeOf(call: Promise<unknown>): Promise<string> {
  try {
    await call
    return 'done'
  } catch (error) {
    return String((error as { code?: string }).code ?? error)
  }
}

type Step =
  | { kind: 'put'; id: string; name: string; type: string; text: string }
  | { kind: 'remove'; id: string; name: string }
  | { kind: 'create'; id: string }
  | { kind: 'delete'; id: string }
  | { kind: 'drop' }
  | { kind: 'make' }
  | { kind: 'reopen' }

const id = fc.constantFrom('x', 'y')
const name = fc.constantFrom('n', 'ü', '__proto__', 'a b')
const text = fc.constantFrom('', 'one', 'two', 'x'.repeat(300_000))
const type = fc.constantFrom('text/plain', 'application/octet-stream')
const oneStep: fc.Arbitrary<Step> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ kind: fc.constant('put' as const), id, name, type, text }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('remove' as const), id, name }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('create' as const), id }) },
  fc.record({ kind: fc.constant('delete' as const), id }),
  fc.constantFrom<Step>({ kind: 'drop' }, { kind: 'make' }, { kind: 'reopen' }),
)

function expected(model: Model, step: Step): string {
  if (step.kind === 'make') {
    if (model.items !== null) return 'DATABASE_EXISTS'
    model.items = new Map()
    return 'done'
  }
  if (step.kind === 'reopen') return 'done'
  if (model.items === null) return 'DATABASE_NOT_FOUND'
  if (step.kind === 'drop') {
    model.items = null
    return 'done'
  }
  const { items } = model
  const item = items.get(step.id)
  if (step.kind === 'create') {
    if (item !== undefined) return 'ITEM_EXISTS'
    items.set(step.id, new Map())
    return 'done'
  }
  if (item === undefined) return 'ITEM_NOT_FOUND'
  if (step.kind === 'remove') return item.delete(step.name) ? 'done' : 'ATTACHMENT_NOT_FOUND'
  if (step.kind === 'delete') items.delete(step.id)
  else {
    item.set(step.name, step)
    model.named.add(step.text)
  }
  return 'done'
}

async function run(node: Node, step: Step): Promise<string> {
  const { service } = node.ledger
  switch (step.kind) {
    case 'make':
      return codeOf(service.createDatabase(DB))
    case 'drop':
      return codeOf(service.deleteDatabase(DB))
    case 'create':
      return codeOf(service.createItem(DB, { id: step.id }))
    case 'delete':
      return codeOf(service.deleteItem(DB, step.id))
    case 'remove':
      return codeOf(service.attachments.delete(DB, step.id, step.name, undefined))
    case 'put': {
      const chunks = async function* () {
        yield Buffer.from(step.text)
      }
      const upload = {
        contentType: step.type,
        lengthSaid: null,
        digests: [],
        terms: { precondition: null, keyed: null },
        chunks: chunks(),
      }
      return codeOf(service.attachments.put(DB, step.id, step.name, upload))
    }
    case 'reopen':
      await node.ledger.close()
      node.ledger = await open(node.folder)
      return 'done'
  }
}

async function expectAgreement(model: Model, node: Node): Promise<void> {
  const { attachments } = node.ledger.service
  for (const [of, item] of model.items ?? []) {
    const listed = []
    for await (const page of await attachments.list(DB, of, { limit: 0, offset: 0 })) {
      listed.push(...page)
    }
    const bytewise = [...item].toSorted(([a], [b]) =>
      Buffer.compare(Buffer.from(a), Buffer.from(b)),
    )
    expect(listed.map(({ position: _, ...rest }) => rest)).toEqual(
      bytewise.map(([called, { type: content_type, text: content }]) => ({
        content_type,
        length: content.length,
        name: called,
        sha256: shaOf(content),
      })),
    )
    for (const [called, { text: content }] of item) {
      const { file } = await attachments.open(DB, of, called)
      expect(await file.readFile('utf8')).toBe(content)
      await file.close()
    }
  }
  const root = join(node.folder, 'attachments')
  const files = existsSync(root)
    ? readdirSync(root, { recursive: true, withFileTypes: true }).filter((one) => one.isFile())
    : []
  expect(files.map((one) => one.parentPath.slice(-2) + one.name).toSorted()).toEqual(
    [...model.named].map(shaOf).toSorted(),
  )
}

it('any history of items and attachments leaves what the model says, also after a restart', async () => {
  // A crowd is sent in one turn, so that its steps share blocks: without uploads, whose order is free.
  const crowd = fc.array(oneStep, { minLength: 1, maxLength: 6 })
  await fc.assert(
    fc.asyncProperty(fc.array(crowd, { maxLength: 14 }), async (history) => {
      const folder = temporaryFolder()
      const node: Node = { ledger: await open(folder), folder }
      const model: Model = { items: null, named: new Set(), entries: 0 }
      for (const first of ['make', 'create'] as const) {
        const step: Step = first === 'make' ? { kind: 'make' } : { kind: 'create', id: 'x' }
        expect(await run(node, step)).toBe(expected(model, step))
        model.entries += 1
      }
      try {
        for (const steps of history) {
          const alone = steps.some(({ kind }) => kind === 'put' || kind === 'reopen')
          const answers: string[] = []
          if (alone) for (const step of steps) answers.push(await run(node, step))
          else answers.push(...(await Promise.all(steps.map((step) => run(node, step)))))
          expect(answers).toEqual(steps.map((step) => expected(model, step)))
          const made = steps.filter(({ kind }, at) => answers[at] === 'done' && kind !== 'reopen')
          model.entries += made.length
          await expectAgreement(model, node)
        }
      } finally {
        await node.ledger.close()
      }
      const { finding, entries } = await verifyFolder(folder)
      expect([finding, entries]).toEqual([null, model.entries])
    }),
    { numRuns: 20, endOnFailure: true, interruptAfterTimeLimit: 5_000 },
  )
}, 60_000)
