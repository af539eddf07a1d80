// Erases many items at once, and compares the erased entries with those that a replay of the chain selects.
import fc from 'fast-check'
import { expect, it, onTestFinished, vi } from 'vitest'
import { compacted, storedBytes } from '../../../test/support/erased.ts'
import {
  type LedgerNode,
  startLedgerNode,
  temporaryFolder,
  verifyFolder,
} from '../../../test/support/ledger-node.ts'
import { roundsOf } from '../../../test/support/rounds.ts'
import {
  nodeVerifySignature,
  parsePosition,
  parseVerifierKey,
  verifyProofFile,
} from '../../chain/index.ts'
import { parseFilter } from '../../filter/index.ts'
import type { StoreReader } from '../../storage/index.ts'
import { REVISIONS_PER_ERASURE } from './erasure.ts'
import { networkItemId } from './names.ts'

interface Entry {
  readonly position: string
  readonly method: string
  readonly db: string
  readonly id: string
  readonly name: string
  readonly n: number
  readonly reason: string | undefined
  readonly isErased: boolean
}

/** The life of an item: its entries with content, and what they leave. */
interface Life {
  readonly id: string
  /** Number of the database, counted from the first of the name. */
  readonly database: number
  readonly former: Entry[]
  last: Entry | null
  readonly attached: Map<string, Entry>
  isDeleted: boolean
}

const erasures = (node: LedgerNode, body: object) =>
  node.send('POST', '/api/config/erasures', { db: 'people', ...body })

async function readEntries(node: LedgerNode): Promise<Entry[]> {
  const { json } = await node.send(
    'GET',
    `/api/ledgers?serverid=${node.service.serverId}&proof=true`,
  )
  return json.ledgers.flatMap(
    (
      block: { body: Record<string, never>[]; proof: { blinds: (string | null)[] } },
      height: number,
    ) =>
      block.body.map((entry, index) => {
        const { method, db, reason, item = {}, attachment = {} } = entry
        const { id = entry.id, n } = item as { id?: string; n?: number }
        const { name } = attachment as { name?: string }
        const isErased = block.proof.blinds[index] === null
        return { position: `${height}.${index}`, method, db, id, name, n, reason, isErased }
      }),
  )
}

/** Replays the entries of a database: the lives of its items, in the order of their creation. */
function replayLives(entries: readonly Entry[], db: string): Life[] {
  const lives: Life[] = []
  let database = 0
  const isLive = ({ isDeleted }: Life) => !isDeleted
  const end = (life: Life) => {
    if (life.last !== null) life.former.push(life.last)
    life.former.push(...life.attached.values())
    life.isDeleted = true
  }
  for (const entry of entries) {
    if (entry.db !== db) continue
    const life = lives.find((each) => each.id === entry.id && isLive(each))
    if (entry.method === 'create_db') database += 1
    if (entry.method === 'delete_db') for (const each of lives.filter(isLive)) end(each)
    if (entry.method === 'create_item') {
      const { id } = entry
      lives.push({ id, database, former: [], last: entry, attached: new Map(), isDeleted: false })
    }
    if (life === undefined) continue
    if (entry.method === 'update_item') {
      if (life.last !== null) life.former.push(life.last)
      life.last = entry
    }
    if (entry.method === 'delete_item') {
      end(life)
      if (entry.reason !== undefined) life.former.push(entry)
    }
    if (entry.method.endsWith('_attachment')) {
      const before = life.attached.get(entry.name)
      if (before !== undefined) life.former.push(before)
      life.attached.delete(entry.name)
      if (entry.method === 'create_attachment') life.attached.set(entry.name, entry)
      else life.former.push(entry)
    }
  }
  return lives
}

const anyStep = fc.record({
  kind: fc.constantFrom('put', 'put', 'put', 'remove', 'attach', 'detach', 'drop'),
  id: fc.constantFrom('a', 'b', 'c'),
  n: fc.nat(3),
})
const anyQuery = fc.constantFrom<{ deleted?: true; where?: object; ids?: string[] }>(
  { deleted: true },
  { where: {} },
  { where: { n: { gt: 1 } } },
  { deleted: true, where: { n: { lte: 1 } } },
  { ids: ['a', 'none'] },
)

async function take(node: LedgerNode, { kind, id, n }: { kind: string; id: string; n: number }) {
  const path = `/api/people/${id}`
  if (kind === 'put') {
    await node.send('POST', '/api/people')
    const made = await node.send('POST', '/api/people', { id, n })
    if (made.status === 409) await node.send('POST', path, { n })
  } else if (kind === 'attach') await node.send('PUT', `${path}/attachments/f`, `bytes ${n}`)
  else if (kind === 'detach') await node.send('DELETE', `${path}/attachments/f`)
  else {
    const reason: Record<string, string> = n > 1 ? { 'ledger-reason': 'asked%20for' } : {}
    await node.send('DELETE', kind === 'drop' ? '/api/people' : path, undefined, reason)
  }
}

/** Number of the iteration of the event loop. Counting them with `setImmediate` would occupy the processor. */
const iteration = () => performance.nodeTiming.uvMetricsInfo.loopCount

it('erases exactly the former revisions of the items that a replay of the chain selects, and counts them before', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(anyStep, { minLength: 5, maxLength: 40 }),
      anyQuery,
      async (steps, query) => {
        const folder = temporaryFolder()
        const node = await startLedgerNode({ folder })
        await node.send('POST', '/api/people')
        for (const step of steps) await take(node, step)
        const before = await readEntries(node)
        const lives = replayLives(before, 'people')
        const { ids, where, deleted } = query
        const bound = JSON.stringify(where ?? {})
        const selected = lives.filter(({ id, last, isDeleted }) => {
          if (ids !== undefined) return ids.includes(id)
          if (deleted === true && !isDeleted) return false
          const n = last?.n ?? 0
          return bound === '{}' || (bound.includes('gt') ? n > 1 : n <= 1)
        })
        // Attachments of one name are erased oldest first, so those of an item's earlier lives are erased too.
        const attachments = lives
          .filter(({ id, database }, at) =>
            selected.some(
              (other) =>
                other.id === id && other.database === database && lives.indexOf(other) >= at,
            ),
          )
          .flatMap(({ former }) => former.filter(({ method }) => method.endsWith('_attachment')))
        const items = selected.flatMap(({ former }) => former)
        const expected = new Set([...items, ...attachments].map(({ position }) => position))
        const dry = await erasures(node, { ...query, dryRun: true })
        expect((await readEntries(node)).length).toBe(before.length)
        const real = await erasures(node, { ...query, reason: 'retention' })
        expect([dry.json.items, dry.json.revisions]).toEqual([real.json.items, real.json.revisions])
        const after = await readEntries(node)
        const erased = after.filter(({ isErased }) => isErased).map(({ position }) => position)
        expect(new Set(erased)).toEqual(expected)
        expect([real.status, real.json.revisions, real.json.cursor]).toEqual([
          200,
          expected.size,
          null,
        ])
        const again = await erasures(node, query)
        expect([again.json.items, again.json.revisions]).toEqual([0, 0])
        await node.close()
        expect((await verifyFolder(folder)).finding).toBeNull()
      },
    ),
    { numRuns: roundsOf(40) },
  )
})

it('erases a deleted database of many items piece by piece, and no file contains them; other databases stay', async () => {
  const folder = temporaryFolder()
  const node = await startLedgerNode({ folder })
  const secret = (n: number) => `SECRET-${n}-${'geheim'.repeat(2)}`
  for (const db of ['people', 'others']) await node.send('POST', `/api/${db}`)
  for (let part = 0; part < 3; part += 1) {
    const items = Array.from({ length: 400 }, (_, n) => ({
      id: `p${part * 400 + n}`,
      note: secret(part * 400 + n),
    }))
    await node.send('POST', '/api/people', items)
  }
  await node.send('POST', '/api/others', { id: 'o', note: 'stays' })
  const proof = await node.send('GET', '/api/others/o/proof')
  await node.send('DELETE', '/api/people')
  const before = await storedBytes(folder)
  expect(before(secret(1_199))).not.toEqual([])
  let [cursor, requests, items] = [undefined as string | null | undefined, 0, 0]
  for (; cursor !== null; requests += 1) {
    const body = {
      deleted: true,
      reason: 'retention',
      ...(cursor === undefined ? {} : { cursor }),
    }
    const { status, json } = await erasures(node, body)
    expect(status).toBe(200)
    items += json.items
    expect(json.revisions).toBe(json.items)
    cursor = json.cursor
  }
  expect([items, requests]).toEqual([1_200, 2])
  await compacted(folder)
  const found = await storedBytes(folder)
  for (let n = 0; n < 1_200; n += 100) expect(found(secret(n))).toEqual([])
  expect(found('stays')).not.toEqual([])
  const [, , , , , , last] = await readEntries(node)
  expect(last).toMatchObject({ method: 'create_item', isErased: true })
  const { json } = await node.send('GET', `/api/ledgers?serverid=${node.service.serverId}`)
  const entries = json.ledgers.flatMap(({ body }: { body: object[] }) => body)
  expect(entries.at(-1)).toMatchObject({ method: 'erase_item', id: 'p1199', reason: 'retention' })
  expect((await node.send('GET', '/api/others/o')).json.item.note).toBe('stays')
  const key = parseVerifierKey(node.service.log.verifierKey)
  const proven = await verifyProofFile(nodeVerifySignature, key, proof.text)
  expect(proven.entry).toMatchObject({ item: { id: 'o', note: 'stays' } })
  await node.close()
  expect(await verifyFolder(folder)).toMatchObject({ finding: null, erased: 1_200 })
})

it('erases an item with very many revisions by several entries, each from the last one on, and counts them before in as many turns', async () => {
  const folder = temporaryFolder()
  const node = await startLedgerNode({ folder })
  await node.send('POST', '/api/people')
  await node.send('POST', '/api/people', { id: 'a', n: 0 })
  const revisions = REVISIONS_PER_ERASURE * 2 + 100
  const update = (n: number) => ({ method: 'update_item', db: 'people', item: { id: 'a', n } })
  await node.send('POST', '/api/ledgers', {
    entries: Array.from({ length: revisions }, (_, n) => update(n)),
  })
  // The prototype that the store of the writer shares with that of the requests.
  let shared: StoreReader = node.service.store
  while (!Object.hasOwn(shared, 'unerasedRevisions')) shared = Object.getPrototypeOf(shared)
  const search = shared.unerasedRevisions
  const iterations: number[] = []
  const searches = vi.spyOn(shared, 'unerasedRevisions').mockImplementation(function (
    this: StoreReader,
    ...range
  ) {
    iterations.push(iteration())
    return search.apply(this, range)
  })
  onTestFinished(() => searches.mockRestore())
  for (const dryRun of [true, false]) {
    searches.mockClear()
    const { json } = await erasures(node, { ids: ['a', 'a'], dryRun })
    expect(json).toEqual({ status: true, items: 1, revisions, cursor: null })
    if (dryRun) expect([iterations.length, new Set(iterations).size]).toEqual([3, 3])
    // Each erasure of the range continues after the one before.
    const starts = searches.mock.calls.map(([, , { from }]) => from)
    expect(new Set(starts).size).toBe(starts.length)
  }
  expect((await node.send('GET', '/api/people/a')).json.item.n).toBe(revisions - 1)
  await node.close()
  expect(await verifyFolder(folder)).toMatchObject({ finding: null, erased: revisions })
})

it.each([{ ids: ['a', 'b'] }, { ids: null }])(
  'a request ends when its time is up, and the next one continues, also within an item (%o)',
  async ({ ids }) => {
    const node = await startLedgerNode()
    await node.send('POST', '/api/people')
    await node.send('POST', '/api/people', [{ id: 'a' }, { id: 'b' }])
    const former = REVISIONS_PER_ERASURE * 2 + 100
    const update = (id: string, n: number) => ({
      method: 'update_item',
      db: 'people',
      item: { id, n },
    })
    const entries = Array.from({ length: former }, (_, n) => update('a', n))
    await node.send('POST', '/api/ledgers', { entries: [...entries, update('b', 0)] })
    const clock = performance.now.bind(performance)
    let calls = 0
    const spy = vi.spyOn(performance, 'now')
    onTestFinished(() => spy.mockRestore())
    const requests = async (isDryRun: boolean) => {
      const replies: [number, number][] = []
      let at: readonly (number | null)[] = []
      for (;;) {
        const [after = -1, from = 0] = at as number[]
        const query = {
          db: 'people',
          ids,
          where: null,
          isDeletedOnly: false,
          isDryRun,
          after,
          from,
        }
        spy.mockImplementation(() => clock() + 10_000 * ++calls)
        const done = await node.service.write.eraseItems(query, {
          precondition: null,
          idempotency: null,
        })
        spy.mockImplementation(clock)
        const { items, revisions, cursor } = done
        if (items + revisions > 0) replies.push([items, revisions])
        if (cursor === null) return replies
        at = cursor.split('-').map(parsePosition)
      }
    }
    expect(await requests(true)).toEqual([
      [1, former],
      [1, 1],
    ])
    expect(await requests(false)).toEqual([
      [1, REVISIONS_PER_ERASURE + 1],
      [0, REVISIONS_PER_ERASURE],
      [1, 100],
    ])
    await node.close()
  },
)

it('refuses to erase revisions of blocks of more than 33,554,432 characters in one request, and erases them with positions', async () => {
  const node = await startLedgerNode()
  await node.send('POST', '/api/people')
  await node.send('POST', '/api/people', { id: 'a' })
  const positions: (string | undefined)[] = []
  for (let n = 0; n < 7; n += 1) {
    const put = await node.send('POST', '/api/people/a', { long: `${n}`.repeat(7_500_000) })
    positions.push(put.headers.get('etag')?.slice(1, -1))
  }
  const former = positions.slice(0, -1)
  const erase = (body?: object) => node.send('POST', '/api/people/a/erase', body)
  expect((await erase()).json).toMatchObject({ code: 'UNIT_TOO_LARGE' })
  expect((await erase({ positions: former })).json).toMatchObject({ code: 'UNIT_TOO_LARGE' })
  expect((await erase({ positions: former.slice(0, 4) })).json.positions).toHaveLength(4)
  expect((await erase()).json.positions).toHaveLength(3)
  await node.close()
})

it('plans the erasure of a current item without a search for its deletion after each of its revisions', async () => {
  const node = await startLedgerNode()
  await node.send('POST', '/api/people')
  for (const id of ['a', 'b']) {
    await node.send('POST', '/api/people', { id })
    for (const n of [1, 2, 3]) await node.send('PATCH', `/api/people/${id}`, { n })
  }
  await node.send('DELETE', '/api/people/b')
  const searches = vi.spyOn(node.service.store, 'revisions')
  for (const [id, revisions, count] of [
    ['a', 3, 0],
    ['b', 4, 4],
  ] as const) {
    searches.mockClear()
    const { json } = await erasures(node, { ids: [id], dryRun: true })
    expect([id, json.revisions, searches.mock.calls.length]).toEqual([id, revisions, count])
  }
  await node.close()
})

it('tests each item when its text is read, and counts its revisions in turns, because many can be large', async () => {
  const node = await startLedgerNode()
  await node.send('POST', '/api/people')
  for (const id of ['a', 'b']) {
    await node.send('POST', '/api/people', { id })
    for (const n of [1, 2, 3]) await node.send('PATCH', `/api/people/${id}`, { n })
  }
  const { store } = node.service
  const blocks = store.blocks.bind(store)
  const iterations: number[] = []
  vi.spyOn(store, 'blocks').mockImplementation((...range) => {
    iterations.push(iteration())
    return blocks(...range)
  })
  await erasures(node, { ids: ['a', 'b'], dryRun: true })
  expect(iterations).toHaveLength(6)
  expect(new Set(iterations).size).toBe(6)
  const reads = vi.spyOn(store, 'revisionsAt')
  reads.mockImplementation(async ([first]) => [{ ...first, text: 'no JSON' } as never])
  const where = parseFilter({ filter: '{"where":{"n":1}}' })?.where ?? null
  const query = { db: 'people', ids: null, where, isDeletedOnly: false, isDryRun: true, after: -1 }
  const conditions = { precondition: null, idempotency: null }
  await expect(node.service.write.eraseItems(query, conditions)).rejects.toThrow()
  expect(reads).toHaveBeenCalledTimes(1)
  await node.close()
})

it('erases an item with long revisions by several entries, between which other changes are recorded', async () => {
  const node = await startLedgerNode()
  await node.send('POST', '/api/people')
  await node.send('POST', '/api/people', { id: 'a' })
  for (let n = 0; n < 4; n += 1) {
    await node.send('POST', '/api/people/a', { n, long: `${n}`.repeat(2_500_000) })
  }
  for (const dryRun of [true, false]) {
    const { json } = await erasures(node, { ids: ['a'], dryRun })
    expect(json).toEqual({ status: true, items: 1, revisions: 4, cursor: null })
  }
  const methods = (await readEntries(node)).map(({ method }) => method)
  expect(methods.filter((method) => method === 'erase_item')).toHaveLength(2)
  await node.close()
})

it('refuses requests that select nothing or too much, unknown databases, and those of networks', async () => {
  const node = await startLedgerNode()
  await node.send('POST', '/api/people')
  const refused = async (body: object) => {
    const { status, json } = await erasures(node, body)
    return [status, json.code]
  }
  const invalid = [400, 'REQUEST_INVALID']
  expect(await refused({})).toEqual(invalid)
  expect(await refused({ ids: ['a'], deleted: true })).toEqual(invalid)
  expect(await refused({ ids: ['a'], where: {} })).toEqual(invalid)
  expect(await refused({ ids: [] })).toEqual(invalid)
  expect(await refused({ ids: Array.from({ length: 1_001 }, String) })).toEqual(invalid)
  expect(await refused({ deleted: false })).toEqual(invalid)
  expect(await refused({ delete: true })).toEqual(invalid)
  expect(await refused({ deleted: true, cursor: 'x' })).toEqual(invalid)
  expect(await refused({ ids: ['a'], cursor: '1.0' })).toEqual([400, 'POSITION_INVALID'])
  expect(await refused({ where: { n: { over: 1 } } })).toEqual([400, 'FILTER_UNKNOWN'])
  expect(await refused({ deleted: true, reason: '' })).toEqual([400, 'REASON_INVALID'])
  expect(await refused({ db: 'none', deleted: true })).toEqual([404, 'DATABASE_NOT_FOUND'])
  expect(await refused({ db: 'a/b', deleted: true })).toEqual([400, 'DATABASE_NAME_INVALID'])
  expect(await refused({ deleted: true })).toEqual([200, undefined])
  const id = networkItemId('net')
  await node.service.write.ownDatabase('net').record([
    { kind: 'create_db', db: 'net' },
    { kind: 'create_item', db: 'net', id, text: JSON.stringify({ id }), assigned: false },
  ])
  for (const dryRun of [true, false]) {
    expect(await refused({ db: 'net', where: {}, dryRun })).toEqual([409, 'OWNED_BY_NETWORK'])
  }
  await node.close()
})
