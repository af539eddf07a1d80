// Compares random histories of one node with a model made of maps (`model/state.ts`). The node has a real folder,
// uses real HTTP, is restarted, and its clock advances. Items, lists, filters, histories, items at any height,
// attachments, their files and the ledger must match the model. Each request with an idempotency key must be applied
// once. The store must verify at the end.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { expectAll, expectDatabase, expectFound } from './model/agreement.ts'
import { filters } from './model/filters.ts'
import {
  crowds,
  DATABASES,
  requests,
  send,
  type UntaggedRequest,
  withTags,
} from './model/requests.ts'
import {
  type Answer,
  compare,
  EMPTY,
  type ModelRequest,
  type Position,
  requested,
  type State,
} from './model/state.ts'
import { isOnDatabases } from './support/engine.ts'
import {
  HandClock,
  type LedgerNode,
  startLedgerNode,
  temporaryFolder,
  verifyFolder,
} from './support/ledger-node.ts'
import { timeFor } from './support/rounds.ts'

const seed = Number(process.env.MODEL_SEED ?? Date.now() % 1_000_000_000)
console.log(`MODEL_SEED=${seed} repeats this run`)

const DAY_MS = 24 * 60 * 60 * 1000

interface Model {
  state: State
}

class Real {
  node: LedgerNode
  readonly folder: string
  readonly clock: HandClock

  constructor(node: LedgerNode, folder: string, clock: HandClock) {
    this.node = node
    this.folder = folder
    this.clock = clock
  }

  async restart(): Promise<void> {
    await this.node.close()
    this.node = await startLedgerNode({ folder: this.folder, clock: this.clock })
  }
}

/** One step of a history. Its function changes the model and the node. */
class Step implements fc.AsyncCommand<Model, Real> {
  readonly #text: string
  readonly #run: (model: Model, real: Real) => Promise<void>

  constructor(text: string, run: (model: Model, real: Real) => Promise<void>) {
    this.#text = text
    this.#run = run
  }

  check(): boolean {
    return true
  }

  async run(model: Model, real: Real): Promise<void> {
    real.clock.time += 1
    await this.#run(model, real)
  }

  toString(): string {
    return this.#text
  }
}

const text = (value: unknown) =>
  JSON.stringify(value, (_, each) =>
    typeof each === 'string' && each.length > 40 ? `${each.slice(0, 5)}… ${each.length}` : each,
  )

/**
 * Returns the two positions that the next entry can have. `own`: the first position of a new block. `same`: the
 * position after the last entry, in the same block, or null if there is no entry.
 */
function nextIn({ entries }: State): { readonly own: Position; readonly same: Position | null } {
  const last = entries.at(-1)?.at
  if (last === undefined) return { own: { height: 0, index: 0 }, same: null }
  return {
    own: { height: last.height + 1, index: 0 },
    same: { height: last.height, index: last.index + 1 },
  }
}

function positionOf({ position }: Answer): Position {
  const [height = -1, index = -1] = (position ?? '').split('.').map(Number)
  return { height, index }
}

/**
 * Sends requests concurrently, and compares their replies with the model. In the order of their positions, each
 * accepted request must have been applied to the state after the request before it. Each refusal must be correct in
 * one of these states.
 */
async function ask(model: Model, real: Real, together: readonly UntaggedRequest[]): Promise<void> {
  const requests = together.map((meant) => withTags(model.state, meant))
  const sent = requests.map((one) => send(real.node, one))
  const replies = (await Promise.all(sent)).map((answer, at) => ({ answer, asked: requests[at] }))
  const nowMs = real.clock.time
  const outcome = (state: State, one: ModelRequest | undefined, at: Position, { json }: Answer) => {
    if (one === undefined) throw new Error('empty batch')
    return requested(state, one, at, nowMs, json.block?.id)
  }
  const done = replies
    .filter(({ answer }) => answer.status === 200)
    .toSorted((a, b) => compare(positionOf(a.answer), positionOf(b.answer)))
  const { height } = nextIn(model.state).own
  const states = [model.state]
  for (const { answer, asked } of done) {
    const state = states.at(-1) ?? EMPTY
    const at = positionOf(answer)
    const expected = outcome(state, asked, at, answer)
    if (typeof expected === 'string') {
      expect.fail(`${text(asked)} was applied at ${answer.position}; expected ${expected}`)
    }
    if ('again' in expected) {
      expect(answer).toEqual(expected.again)
      continue
    }
    expect(answer).toEqual(expected.answer)
    // A request starts a new block, or directly follows an earlier request of this call in the same block. A block
    // that existed before this call gets no more entries.
    const { own, same } = nextIn(state)
    expect([own, same?.height === undefined || same.height < height ? own : same]).toContainEqual(
      at,
    )
    states.push(expected.state)
  }
  model.state = states.at(-1) ?? EMPTY
  for (const { answer, asked } of replies) {
    if (answer.status === 200) continue
    expect([answer.json.status, answer.position]).toEqual([false, null])
    const right = states.map((state) => outcome(state, asked, nextIn(state).own, answer))
    expect(right, text(asked)).toContain(answer.json.code)
  }
}

const database = fc.constantFrom(...DATABASES)
const commands = fc.oneof(
  {
    weight: 48,
    arbitrary: requests.map((one) => new Step(text(one), (model, real) => ask(model, real, [one]))),
  },
  {
    weight: 16,
    arbitrary: crowds.map(
      (some) => new Step(`together ${text(some)}`, (model, real) => ask(model, real, some)),
    ),
  },
  {
    // Sends one request several times concurrently. Without an idempotency key, each copy is a new request.
    weight: 4,
    arbitrary: fc.tuple(requests, fc.integer({ min: 2, max: 4 })).map(
      ([one, times]) =>
        new Step(`${times} times ${text(one)}`, (model, real) =>
          ask(
            model,
            real,
            Array.from({ length: times }, () => one),
          ),
        ),
    ),
  },
  {
    weight: 16,
    arbitrary: fc
      .tuple(database, filters)
      .map(
        ([db, asking]) =>
          new Step(`find in ${db} ${text(asking)}`, ({ state }, { node }) =>
            expectFound(state, node, db, asking),
          ),
      ),
  },
  {
    weight: 4,
    arbitrary: fc
      .tuple(fc.constantFrom('POST', 'POST', 'DELETE'), database, fc.constantFrom('n', 'm'))
      .map(
        ([method, db, path]) =>
          new Step(`${method} index ${db} ${path}`, async ({ state }, { node }) => {
            const { status } = await node.send(method, '/api/config/indexes', { db, path })
            // The model has no indexes, because the results must not depend on an index.
            expect(state.dbs.has(db) ? [200, 404, 409] : [404]).toContain(status)
          }),
      ),
  },
  {
    weight: 1,
    arbitrary: database.map(
      (db) => new Step(`look at ${db}`, ({ state }, { node }) => expectDatabase(state, node, db)),
    ),
  },
  // Restarts are rare, because a restart takes longer than all other steps together.
  {
    weight: 1,
    arbitrary: fc.constant(new Step('restart', (_model, real) => real.restart())),
  },
  {
    weight: 1,
    arbitrary: fc.constant(
      new Step('a day passes', async (_model, { clock }) => {
        clock.time += DAY_MS
      }),
    ),
  },
)

/**
 * Requests at the beginning of a history. Without them, most histories would end before they have databases
 * and items.
 */
const BEGINNING: UntaggedRequest[] = DATABASES.slice(0, 2).map((db) => ({
  changes: [
    { method: 'create_db', db },
    { method: 'create_item', db, item: { id: 'fig', n: 1 } },
    { method: 'create_item', db, item: { id: '🍎', n: null } },
  ],
  form: 'ledgers',
  match: 'none',
  noneMatch: 'none',
  key: '',
}))

it('any history matches the model in items, lists, filters, histories, attachments and the ledger', async () => {
  const goesOn = timeFor(isOnDatabases() ? 8_000 : 15_000)
  let histories = 0
  let entries = 0
  await fc.assert(
    fc.asyncProperty(
      fc.commands([commands], { maxCommands: 400, size: 'max' }),
      async (history) => {
        if (!goesOn()) return
        const folder = temporaryFolder()
        const clock = new HandClock()
        const real = new Real(await startLedgerNode({ folder, clock }), folder, clock)
        const model: Model = { state: EMPTY }
        try {
          for (const meant of BEGINNING) await ask(model, real, [meant])
          await fc.asyncModelRun(() => ({ model, real }), history)
          await expectAll(model.state, real.node, folder)
        } finally {
          await real.node.close()
        }
        const verified = await verifyFolder(folder)
        expect([verified.finding, verified.entries]).toEqual([null, model.state.entries.length])
        histories += 1
        entries += model.state.entries.length
      },
    ),
    {
      seed,
      numRuns: 200,
      endOnFailure: true,
    },
  )
  console.log(`${histories} histories of ${entries} entries`)
  expect(histories).toBeGreaterThan(0)
})
