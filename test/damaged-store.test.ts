// A store with eight overwritten bytes. Requests that read the damaged page fail with STORE_DAMAGED, and all other
// requests succeed.
import { closeSync, cpSync, openSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { runDaicho, serveLedger } from './support/daicho.ts'
import { entriesOf } from './support/feed-entries.ts'
import { gateway, startGateway } from './support/gateway.ts'
import {
  type LedgerNode,
  type Reply,
  startLedgerNode,
  temporaryFolder,
  verifyFolder,
} from './support/ledger-node.ts'

const PAGE_BYTES = 4_096
const ITEMS = 350
const FILE = 'ledger.db'

/** Writes all kinds of stored data to `folder`. */
async function fill(folder: string): Promise<void> {
  const node = await startLedgerNode({ folder })
  for (const db of ['fruit', 'people', 'gone']) {
    await node.send('POST', `/api/${db}`)
    const items = Array.from({ length: ITEMS }, (_, n) => ({
      id: `i${n}`,
      n,
      text: 'x'.repeat(80),
    }))
    await node.send('POST', `/api/${db}`, items, { 'idempotency-key': `key-of-${db}` })
  }
  for (let n = 0; n < 150; n += 1) await node.send('POST', `/api/fruit/i${n}`, { n, again: true })
  await node.send('POST', '/api/config/indexes', { db: 'fruit', path: 'n' })
  await node.send('POST', '/api/fruit/i1/erase', {})
  for (let n = 0; n < 30; n += 1) {
    await node.send('PUT', `/api/people/i${n}/attachments/photo`, `bytes ${n}`)
  }
  await node.send('DELETE', '/api/gone')
  await node.send('POST', '/api/fruit', { id: 'last' })
  await node.close()
}

interface Page {
  /** Name of the table or index, then the page type, for example `items leaf`. */
  readonly kind: string
  readonly number: number
}

/** Returns one page of each kind: the middle one of the pages of that kind. */
function pagesOf(folder: string): Page[] {
  const database = new DatabaseSync(join(folder, FILE))
  const rows = database
    .prepare('SELECT name, pagetype, pageno FROM dbstat ORDER BY name, pagetype, pageno')
    .all()
  database.close()
  const byKind = Map.groupBy(rows, ({ name, pagetype }) => `${name} ${pagetype}`)
  return [...byKind].map(([kind, pages]) => ({
    kind,
    number: Number(pages[pages.length >> 1]?.pageno),
  }))
}

/**
 * Overwrites the first eight bytes of a b-tree page. On the first page of the file, these follow the file header
 * of 100 bytes.
 */
function damage(folder: string, page: number): void {
  const file = openSync(join(folder, FILE), 'r+')
  writeSync(file, Buffer.alloc(8, 0xff), 0, 8, (page - 1) * PAGE_BYTES + (page === 1 ? 100 : 0))
  closeSync(file)
}

function pageOf(kind: string): number {
  return pages.find((page) => page.kind === kind)?.number ?? 0
}

let whole = ''
let pages: Page[] = []
beforeAll(async () => {
  whole = temporaryFolder((remove) => removals.push(remove))
  await fill(whole)
  pages = pagesOf(whole)
  // Each table and index has leaves, and the larger ones also inner and overflow pages.
  expect(pages.length).toBeGreaterThanOrEqual(28)
})
const removals: (() => void)[] = []
afterAll(() => {
  for (const remove of removals) remove()
})

function copyOfWhole(): string {
  const folder = temporaryFolder()
  cpSync(whole, folder, { recursive: true })
  return folder
}

const READS = [
  '/api/dbs',
  '/api/fruit',
  '/api/fruit?docs=true',
  '/api/people?docs=true&limit=20',
  '/api/fruit/i0',
  '/api/fruit/i300',
  '/api/people/i100',
  '/api/people/nothing',
  '/api/fruit?filter={"where":{"n":{"gt":5}}}',
  '/api/fruit?filter={"order":"n DESC"}',
  '/api/people?filter={"order":"n DESC","limit":5}',
  '/api/fruit/i7?at=1',
  '/api/fruit/i7/history',
  '/api/people/i7/history',
  '/api/fruit/i300/proof',
  '/api/people/i3/attachments',
  '/api/people/i3/attachments/none',
  '/api/config/indexes',
  '/api/config/peers',
  '/api/serverid',
  '/api/ledgers?serverid=SERVER',
  '/api/ledgers?serverid=SERVER&proof=true&limit=3',
  '/api/ledgers/SERVER/checkpoint',
  '/api/ledgers/SERVER/consistency?from=1',
  '/api/ledgers/SERVER/tile/0/000.p/200',
  '/api/ledgers/SERVER/tile/entries/000.p/200',
  '/api/ledgers/SERVER/attachments',
]

const WRITES: readonly (readonly [string, string, unknown?])[] = [
  ['POST', '/api/fruit', { id: 'new' }],
  ['POST', '/api/fruit', { id: 'i8' }],
  ['POST', '/api/people', [{ a: 1 }]],
  ['POST', '/api/fruit/i300', { n: 2 }],
  ['PATCH', '/api/people/i100', { n: 2 }],
  ['DELETE', '/api/people/i349'],
  ['PUT', '/api/people/i4/attachments/photo', 'new bytes'],
  ['POST', '/api/newer'],
  ['POST', '/api/fruit/i2/erase', {}],
  ['POST', '/api/config/indexes', { db: 'people', path: 'n' }],
]

describe('with a damaged page of any kind', () => {
  it('refuses to start, or rejects with STORE_DAMAGED exactly the requests that need the page', async () => {
    let refusals = 0
    let refusedStarts = 0
    for (const { kind, number } of pages) {
      const folder = copyOfWhole()
      damage(folder, number)
      let node: LedgerNode
      try {
        node = await startLedgerNode({ folder })
      } catch (error) {
        expect(error, kind).toMatchObject({ name: 'StoreError', code: 'STORE_DAMAGED' })
        refusedStarts += 1
        continue
      }
      const send = async (method: string, path: string, body?: unknown): Promise<void> => {
        const where = path.replace('SERVER', `${node.service.serverId}`)
        // If the node finds the damage after it has sent a part of a list, it closes the connection: `reply` is null.
        const reply: Reply | null = await node.send(method, where, body).catch(() => null)
        const answer = `${kind}: ${method} ${path} ${reply?.status} ${reply?.text.slice(0, 200)}`
        if (reply === null || reply.status >= 500) refusals += 1
        if (reply !== null && reply.status >= 500)
          expect(answer).toContain('503 {"status":false,"code":"STORE_DAMAGED"')
      }
      for (const path of READS) await send('GET', path)
      for (const write of WRITES) await send(...write)
      for (const path of ['/healthz', '/metrics']) {
        expect((await node.send('GET', path)).status, `${kind} ${path}`).toBe(200)
      }
      await node.close()
    }
    expect(refusals).toBeGreaterThan(100)
    expect(refusedStarts).toBeLessThan(pages.length / 2)
  })
})

describe('with a damaged page of items', () => {
  /** Starts a node on a damaged copy. Also returns the ids of the readable and unreadable items of `people`. */
  async function damagedNode(log: string[] = []) {
    const folder = copyOfWhole()
    damage(folder, pageOf('items leaf'))
    const node = await startLedgerNode({ folder, log: (line) => log.push(line) })
    onTestFinished(() => node.close())
    const ids = Array.from({ length: ITEMS }, (_, n) => `i${n}`)
    const reads = await Promise.allSettled(ids.map((id) => node.service.read.item('people', id)))
    const readable = ids.filter((_, n) => reads[n]?.status === 'fulfilled')
    const damaged = ids.filter((_, n) => reads[n]?.status === 'rejected')
    expect([damaged.length > 5, readable.length > 100]).toEqual([true, true])
    return { folder, node, damaged, readable }
  }

  const MESSAGE = 'the file of the store cannot be read: database disk image is malformed'

  it('answers 503 for items of the page, and reports the damage in /readyz, the metrics and the log', async () => {
    const log: string[] = []
    const { node, damaged, readable } = await damagedNode(log)
    expect(await node.send('GET', `/api/people/${damaged[0]}`)).toMatchObject({
      status: 503,
      text: JSON.stringify({ status: false, code: 'STORE_DAMAGED', message: MESSAGE }),
    })
    expect((await node.send('GET', `/api/people/${readable[0]}`)).status).toBe(200)
    expect(await node.send('GET', '/readyz')).toMatchObject({
      status: 503,
      json: { code: 'STORE_DAMAGED', message: MESSAGE },
    })
    expect((await node.send('GET', '/healthz')).status).toBe(200)
    expect((await node.send('GET', '/metrics')).text).toContain('\ndaicho_store_damaged 1\n')
    const named = log.map((line) => JSON.parse(line)).filter(({ msg }) => msg === 'STORE_DAMAGED')
    expect(named[0]).toMatchObject({
      level: 50,
      path: `/api/people/${damaged[0]}`,
      reason: MESSAGE,
    })
  })

  it('reports no damage before the page is read', async () => {
    const folder = copyOfWhole()
    damage(folder, pageOf('items leaf'))
    const node = await startLedgerNode({ folder })
    expect((await node.send('GET', '/readyz')).status).toBe(200)
    expect((await node.send('GET', '/metrics')).text).toContain('\ndaicho_store_damaged 0\n')
    await node.close()
  })

  it('rejects changes of items on the page, and stores the other changes of the same block', async () => {
    const { node, damaged, readable } = await damagedNode()
    const { blocks } = await node.service.read.chainSize()
    const changed = [readable[0], damaged[0], readable[1], damaged[1], readable[2]].map(String)
    const updates = await Promise.allSettled(
      changed.map((id) => node.service.write.updateItem('people', id, { changed: true })),
    )
    expect(updates.map(({ status }) => status)).toEqual([
      ...['fulfilled', 'rejected', 'fulfilled', 'rejected', 'fulfilled'],
    ])
    const refusal = { code: 'STORE_DAMAGED', message: `nothing was written: ${MESSAGE}` }
    expect(updates[1]).toMatchObject({ reason: refusal })
    expect((await node.service.read.chainSize()).blocks).toBe(blocks + 1)
    const texts = await Promise.all(
      readable.slice(0, 3).map((id) => node.service.read.item('people', id)),
    )
    expect(texts.map((item) => item?.text)).toEqual(
      readable.slice(0, 3).map((id) => `{"changed":true,"id":"${id}"}`),
    )
  })

  it('sends the whole change feed, because the feed does not read the page', async () => {
    const { node } = await damagedNode()
    const last = (await node.service.read.item('fruit', 'last'))?.created
    for await (const { position } of await entriesOf(node.service, { after: 'start' })) {
      if (position === last) break
    }
    expect(last).toBeGreaterThan(0)
  })

  it('verification finds the damage', async () => {
    const { folder } = await damagedNode()
    const { finding } = await verifyFolder(folder)
    expect(finding?.what).toContain(MESSAGE)
  })
})

it('rejects only the changes whose index entries cannot be read, even if the node finds the damage while it stores a block', async () => {
  const folder = copyOfWhole()
  damage(folder, pageOf('index_entries leaf'))
  const node = await startLedgerNode({ folder })
  const ids = Array.from({ length: ITEMS }, (_, n) => `i${n}`)
  const updates = await Promise.allSettled([
    ...ids.map((id) =>
      node.service.write.updateItem('fruit', id, { n: Number(id.slice(1)) + 0.5 }),
    ),
    node.service.write.updateItem('people', 'i0', { n: 1 }),
  ])
  const refused = updates.filter(({ status }) => status === 'rejected')
  expect([refused.length > 0, refused.length < ITEMS]).toEqual([true, true])
  expect(updates.at(-1)?.status).toBe('fulfilled')
  for (const update of refused) expect(update).toMatchObject({ reason: { code: 'STORE_DAMAGED' } })
  for (const [n, id] of ids.entries()) {
    const isDone = updates[n]?.status === 'fulfilled'
    const text = (await node.service.read.item('fruit', id))?.text
    expect(text?.includes('.5'), id).toBe(isDone)
  }
  await node.close()
})

it('ends a change feed with an error at an unreadable block, and serves the next subscriber', async () => {
  const folder = copyOfWhole()
  damage(folder, pageOf('blocks overflow'))
  const node = await startLedgerNode({ folder })
  const feed = await entriesOf(node.service, { after: 'start' })
  const read = async () => {
    for await (const { position } of feed) expect(position).toBeGreaterThanOrEqual(0)
  }
  await expect(read()).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
  const next = await entriesOf(node.service, { after: 'now' })
  await node.send('POST', '/api/fruit', { id: 'after' })
  expect((await next.next()).value).toMatchObject({ entry: { item: { id: 'after' } } })
  await next.return?.()
  await node.close()
})

it('answers 503 for damaged resources of a network, and executes transactions on intact resources', async () => {
  const folder = temporaryFolder()
  const before = await startGateway({ folder })
  const trader = (n: number) => ({ tradeId: `t${n}`, firstName: 'x'.repeat(60), lastName: 'y' })
  for (let from = 0; from < 400; from += 100) {
    const traders = Array.from({ length: 100 }, (_, n) => trader(from + n))
    expect((await before.send('POST', '/api/Trader', traders)).status).toBe(200)
  }
  await before.close()
  damage(folder, pagesOf(folder).find(({ kind }) => kind === 'items leaf')?.number ?? 0)
  const node = await gateway({ folder })
  const seen = new Set<string>()
  const send = async (method: string, path: string, body?: unknown) => {
    const reply = await node.send(method, path, body)
    seen.add(`${reply.status} ${reply.json?.error?.code ?? ''}`)
    return reply.status
  }
  expect(await send('GET', '/api/Trader')).toBe(503)
  for (let n = 0; n < 400; n += 5) {
    await send('GET', `/api/Trader/t${n}`)
    await send('PUT', `/api/Trader/t${n}`, { ...trader(n), lastName: 'z' })
  }
  expect(await send('POST', '/api/Trader', trader(1_000))).toBe(200)
  expect([...seen].sort()).toEqual(['200 ', '503 STORE_DAMAGED'])
})

describe('the program', () => {
  it('continues to serve when a page is damaged, and `daicho verify` reports the damaged location', async () => {
    const folder = copyOfWhole()
    damage(folder, pageOf('items leaf'))
    const node = await serveLedger(folder)
    const answers = await Promise.all(
      Array.from({ length: ITEMS }, (_, n) => fetch(`${node.url}/api/people/i${n}`)),
    )
    const statuses = new Set(answers.map(({ status }) => status))
    expect([...statuses].sort()).toEqual([200, 503])
    expect(
      (
        await fetch(`${node.url}/api/fruit`, {
          method: 'POST',
          body: '{"id":"x"}',
          headers: { 'content-type': 'application/json' },
        })
      ).status,
    ).toBe(200)
    node.child.kill('SIGTERM')
    expect((await node.ended).code).toBe(0)
    const { code, stdout } = await runDaicho(['verify', folder])
    expect([code, stdout.split('\n')[0]]).toEqual([
      1,
      expect.stringMatching(/^DIFFERENCE at height \d+: .*; the file is damaged: items, page \d+/),
    ])
  })

  it.each([
    ['the header', (folder: string) => damage(folder, 1)],
    ['the last block', (folder: string) => damage(folder, pageOf('blocks internal'))],
    ['the nodes of the log', (folder: string) => damage(folder, pageOf('tree internal'))],
    ['the whole file', (folder: string) => writeFileSync(join(folder, FILE), 'x'.repeat(20_000))],
  ])('refuses to start and prints one line when %s is damaged', async (_, spoil) => {
    const folder = copyOfWhole()
    spoil(folder)
    const { code, stdout, stderr } = await runDaicho(['serve', '--port', '0', '--only', 'ledger'], {
      SYSTEM_FOLDER: folder,
      LOG_LEVEL: 'error',
    })
    expect([code, stdout]).toEqual([78, ''])
    expect(stderr).toMatch(/^daicho: SYSTEM_FOLDER: [^\n]+\n$/)
  })
})
