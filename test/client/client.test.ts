// The client against a real node.
import { afterAll, beforeAll, expect, it } from 'vitest'
import { LedgerClient } from '../../src/client/index.ts'
import { issueApiToken, openTokens } from '../../src/tokens/index.ts'
import { Dice } from '../support/ledger-load.ts'
import { HandClock, type LedgerNode, startLedgerNode } from '../support/ledger-node.ts'
import { roundsOf } from '../support/rounds.ts'
import { collected, noted } from './fake-node.ts'

interface Fruit {
  name: string
  price?: number
}

let node: LedgerNode
let ledger: LedgerClient
beforeAll(async () => {
  node = await startLedgerNode()
  ledger = new LedgerClient(`${node.url}/`)
})
afterAll(() => node.close())

it('creates, lists and deletes databases', async () => {
  await ledger.createDatabase('台帳 %2F?#')
  expect(await ledger.databases()).toEqual(['台帳 %2F?#'])
  await expect(ledger.createDatabase('台帳 %2F?#')).rejects.toMatchObject({
    name: 'ClientError',
    code: 'DATABASE_EXISTS',
    status: 409,
  })
  expect(await ledger.size({ db: '台帳 %2F?#' })).toBe(1)
  await ledger.deleteDatabase('台帳 %2F?#')
  expect(await ledger.databases()).toEqual([])
  expect(await ledger.size()).toBe(2)
})

it('creates, reads, replaces, patches and deletes items, and returns the position of each change', async () => {
  await ledger.createDatabase('fruit')
  const fruit = ledger.database<Fruit>('fruit')
  const created = await fruit.create({ name: 'apple' })
  const plum = await fruit.create({ id: 'a/../b?c', name: 'plum' }).catch((error) => error.code)
  expect(plum).toBe('ITEM_ID_INVALID')
  expect(await fruit.create({ id: '%2e?#台', name: 'plum' })).toMatchObject({ id: '%2e?#台' })
  expect((await fruit.read('%2e?#台'))?.item).toEqual({ id: '%2e?#台', name: 'plum' })

  const read = await fruit.read(created.id)
  expect(read).toEqual({
    item: { id: created.id, name: 'apple' },
    position: created.position,
    etag: `"${created.position}"`,
  })
  const replaced = await fruit.replace(created.id, { name: 'apple', price: 2 })
  expect(replaced.position).not.toBe(created.position)
  const patched = await fruit.patch(created.id, { price: 3 })
  expect(await fruit.read(created.id)).toEqual({
    item: { id: created.id, name: 'apple', price: 3 },
    position: patched.position,
    etag: patched.etag,
  })
  await fruit.delete(created.id)
  expect(await fruit.read(created.id)).toBeNull()
  const at = Number(created.position.split('.')[0])
  expect((await fruit.read(created.id, { at }))?.item).toEqual({ id: created.id, name: 'apple' })
  const [first] = await collected(fruit.query({ at, pageSize: 1 }))
  expect(first).toEqual({ id: created.id, name: 'apple' })
  expect(await collected(fruit.ids({ at }))).toEqual([created.id])
  expect([await fruit.count({ at }), (await fruit.aggregate({ at })).height]).toEqual([1, at])
  expect(await ledger.databases({ at: 0 })).not.toContain('fruit')
  await expect(fruit.read(created.id, { at: '2999-01-01T00:00:00Z' })).rejects.toMatchObject({
    code: 'HEIGHT_UNKNOWN',
  })
  await expect(fruit.delete(created.id)).rejects.toMatchObject({ code: 'ITEM_NOT_FOUND' })
  await expect(ledger.database('none').read('x')).rejects.toMatchObject({
    code: 'DATABASE_NOT_FOUND',
  })
})

it('creates many items in one request, and reads them page by page', async () => {
  await ledger.createDatabase('numbers')
  const numbers = ledger.database<{ n: number }>('numbers')
  const items = Array.from({ length: 25 }, (_, n) => ({ id: `i${n}`, n }))
  expect(await numbers.createAll(items)).toEqual(items.map(({ id }) => id))
  await expect(numbers.createAll([{ n: 0 }, { id: 'i3', n: 3 }])).rejects.toMatchObject({
    code: 'ITEM_EXISTS',
  })
  for (const pageSize of [1, 7, 25, 26, undefined]) {
    const options = pageSize === undefined ? {} : { pageSize }
    expect(await collected(numbers.query(options))).toEqual(items)
  }
  const some = await collected(numbers.ids({ pageSize: 4, limit: 6, after: 'i9' }))
  expect(some).toEqual(['i10', 'i11', 'i12', 'i13', 'i14', 'i15'])
  expect(await collected(numbers.ids({ limit: 0 }))).toEqual([])
  await expect(collected(numbers.ids({ after: 'none' }))).rejects.toMatchObject({
    code: 'ITEM_NOT_FOUND',
  })
})

it('counts and aggregates items', async () => {
  await ledger.createDatabase('sales')
  const sales = ledger.database<{ city: string; paid: { amount: number } }>('sales')
  await sales.createAll([
    { city: 'Oslo', paid: { amount: 0.1 } },
    { city: 'Oslo', paid: { amount: 0.2 } },
    { city: 'Bergen', paid: { amount: 3 } },
  ])
  expect(await sales.count()).toBe(3)
  expect(await sales.count({ filter: { where: { city: 'Oslo' } } })).toBe(2)
  const { groups, consistent } = await sales.aggregate({
    group: ['city'],
    sum: ['paid.amount'],
    filter: { where: { 'paid.amount': { lt: 0.2 } } },
  })
  expect([groups, consistent]).toEqual([
    [{ group: { city: 'Oslo' }, count: 1, sum: { 'paid.amount': 0.1 } }],
    true,
  ])
  // @ts-expect-error: an unknown member
  await sales.aggregate({ sum: ['amount'] })
  const tooMany = sales.aggregate({ group: ['city', 'paid.amount', 'id'] })
  await expect(tooMany).rejects.toMatchObject({ code: 'AGGREGATION_INVALID', status: 400 })
})

/** More rounds than usual: `PAGING_ROUNDS=100 vitest run test/client/client.test.ts`. */
const PAGING_ROUNDS = Number(process.env.PAGING_ROUNDS ?? roundsOf(20))

it('yields each item once while other items are deleted and created again', async () => {
  for (let seed = 0; seed < PAGING_ROUNDS; seed += 1) {
    const dice = new Dice(seed)
    await ledger.createDatabase(`paging${seed}`)
    const items = ledger.database(`paging${seed}`)
    const ids = Array.from({ length: 20 }, (_, n) => `${dice.below(2) ? 'stable' : 'moving'} ${n}`)
    await items.createAll(ids.map((id) => ({ id })))
    const options = {
      pageSize: 1 + dice.below(4),
      ...(seed % 2 === 0 ? {} : { filter: { where: { id: { neq: 'x' } } } }),
    }
    const seen: string[] = []
    const list = seed % 4 < 2 ? items.query(options) : items.ids(options)
    for await (const each of list) {
      const id = typeof each === 'string' ? each : each.id
      seen.push(id)
      // At most 40 changes, so that the list ends.
      const changed = seen.length < 20 ? [id, ids[dice.below(20)] ?? ''] : []
      for (const moving of changed.filter((name) => name.startsWith('moving'))) {
        const isThere = (await items.read(moving)) !== null
        if (isThere) await items.delete(moving)
        if (!isThere || dice.below(10) < 7) await items.create({ id: moving })
      }
    }
    const isStable = (id: string) => id.startsWith('stable')
    expect([seed, seen.filter(isStable)]).toEqual([seed, ids.filter(isStable)])
  }
})

it('commits changes of several databases together or not at all', async () => {
  await ledger.createDatabase('one')
  const { block, results } = await ledger.record([
    { method: 'create_db', db: 'two' },
    { method: 'create_item', db: 'one', item: { id: 'x' } },
    { method: 'create_item', db: 'two', item: { id: 'y' } },
  ])
  expect(block.serverid).toBe(await ledger.serverId())
  expect(results).toEqual([{ id: null }, { id: 'x' }, { id: 'y' }])
  await expect(
    ledger.record([
      { method: 'delete_item', db: 'one', id: 'x' },
      { method: 'delete_item', db: 'one', id: 'x' },
    ]),
  ).rejects.toMatchObject({ code: 'ITEM_NOT_FOUND' })
  expect((await ledger.database('one').read('x'))?.item).toEqual({ id: 'x' })
})

it('calls any operation by its method and path; parameters and replies have the types of the route', async () => {
  const serverid = String(await ledger.serverId())
  const { ledgers, offset } = await ledger.request('GET /api/ledgers', {
    query: { serverid, limit: 1, offset: 1, proof: 'true' },
  })
  expect([offset, ledgers.length, ledgers[0]?.proof?.height]).toEqual([1, 1, 1])
  expect(await ledger.request('GET /healthz', {})).toEqual({ status: true })
  const key = await ledger.request('GET /api/ledgers/{serverid}/vkey', { path: { serverid } })
  expect(key).toMatch(new RegExp(`^daicho/${serverid}\\+`))
})

it('rejects the names “”, “.” and “..”, and malformed text, before it sends a request', async () => {
  for (const name of ['', '.', '..', '\ud800']) {
    const refused = { code: 'NAME_INVALID', status: 0 }
    await expect(ledger.createDatabase(name)).rejects.toMatchObject(refused)
    await expect(ledger.database('fruit').delete(name)).rejects.toMatchObject(refused)
    const attachments = ledger.database('fruit').attachments('x')
    await expect(attachments.delete(name)).rejects.toMatchObject(refused)
  }
})

it('sends the token in a header; the token is a string, or the result of a function that is called for each request', async () => {
  const clock = new HandClock()
  const tokens = await openTokens({ clock, folder: null, secret: null })
  const gated = await startLedgerNode({ clock, tokens })
  const issue = async () =>
    (await issueApiToken(tokens, { subject: 't', scopes: ['db:*:admin'], lifeSeconds: 60 })).token
  const [fixed, fresh] = [
    new LedgerClient(gated.url, { token: await issue() }),
    new LedgerClient(gated.url, { token: issue }),
  ]
  await fixed.createDatabase('fruit')
  clock.time += 60_000
  await expect(fixed.databases()).rejects.toMatchObject({ code: 'TOKEN_INVALID', status: 401 })
  expect(await fresh.databases()).toEqual(['fruit'])
  await expect(new LedgerClient(gated.url).databases()).rejects.toMatchObject({
    code: 'TOKEN_NEEDED',
  })
  const broken = new LedgerClient(gated.url, { token: () => Promise.reject(new Error('no login')) })
  await expect(broken.databases()).rejects.toThrow('no login')
  await gated.close()
})

it('aborts a request with the reason of its signal', async () => {
  const reason = new Error('enough')
  await expect(ledger.databases({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
})

it('attaches, replaces or deletes an attachment only once even if the reply is lost', async () => {
  await ledger.createDatabase('papers')
  await ledger.database('papers').create({ id: 'a' })
  let lost = 0
  const forgetful = new LedgerClient(node.url, {
    timing: noted(),
    async fetch(input, init) {
      const reply = await fetch(input, init)
      // Drops every other reply.
      lost += 1
      if (lost % 2 === 1) throw new TypeError('the connection broke')
      return reply
    },
  })
  const attachments = forgetful.database('papers').attachments('a')
  const put = await attachments.put('n', () => new Blob(['hello']).stream())
  expect(put).toMatchObject({ name: 'n', length: 5 })
  await attachments.put('n', 'hello')
  await attachments.delete('n')
  expect(lost).toBe(6)
  const ledgers = await node.send('GET', `/api/ledgers?serverid=${node.service.serverId}`)
  const methods = ledgers.json.ledgers.flatMap(({ body }: { body: { method: string }[] }) =>
    body.map(({ method }) => method),
  )
  expect(methods.filter((method: string) => method.endsWith('attachment'))).toEqual([
    ...['create_attachment', 'create_attachment', 'delete_attachment'],
  ])
})
