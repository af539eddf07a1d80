// Tests that after an erasure, no file contains the erased content, and all other entries can still be proven.
import { randomBytes } from 'node:crypto'
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, it, onTestFinished } from 'vitest'
import { bytesBelow, compacted, expectFindings, filesWith } from '../../../test/support/erased.ts'
import {
  type LedgerNode,
  startLedgerNode,
  temporaryFolder,
  verifyFolder,
} from '../../../test/support/ledger-node.ts'
import { canonicalJson } from '../../base/canonical-json.ts'
import {
  ENTRIES_MAX,
  type Entry,
  HASH_BYTES,
  nodeVerifySignature,
  packPosition,
  parseVerifierKey,
  sealBlock,
  verifyProofFile,
} from '../../chain/index.ts'
import { parseFilter } from '../../filter/index.ts'
import { openStore, openStoreReader, type Store, toEffect } from '../../storage/index.ts'
import { exportLines } from '../export/export.ts'
import { importExport } from '../export/import.ts'
import { planErasure, RecentBlocks } from './erasure.ts'
import { eraseItems } from './erasures.ts'

const proofOf = async (node: LedgerNode, path: string) => {
  const vkey = await node.send('GET', `/api/ledgers/${node.service.serverId}/vkey`)
  const key = parseVerifierKey(vkey.text.trim())
  return verifyProofFile(nodeVerifySignature, key, (await node.send('GET', path)).text)
}

it('after an erasure, no file contains the erased content, and proofs of all other entries still verify', async () => {
  const folder = temporaryFolder()
  const node = await startLedgerNode({ folder })
  await node.send('POST', '/api/people')
  const secret = (n: number) => `SECRET-${n}-${'geheim'.repeat(3)}`
  await node.send('POST', '/api/people', [
    { id: 'ann', note: secret(0), size: 'x'.repeat(9_000) },
    { id: 'bob', note: 'bob stays' },
  ])
  // Adds revisions of many lengths between other revisions, so that pages are split and merged.
  for (let n = 1; n < 40; n += 1) {
    const size = 'y'.repeat((n * 397) % 5_000)
    await node.send('POST', '/api/people/ann', { note: secret(n), size })
    await node.send('POST', '/api/people', { id: `other-${n}`, size })
  }
  const before = (await node.send('GET', `/api/ledgers?serverid=${node.service.serverId}`)).json
  const proofsBefore = await proofOf(node, '/api/people/ann/proof?position=1.0')
  expect(JSON.stringify(proofsBefore.entry)).toContain(secret(0))
  expect(filesWith(folder, secret(0))).not.toEqual([])

  const reply = await node.send('POST', '/api/people/ann/erase')
  expect(reply.status).toBe(200)
  expect(reply.json.positions).toHaveLength(39)
  expect(reply.json.positions[0]).toBe('1.0')
  expect(reply.headers.get('ledger-position')).toMatch(/^\d+\/80\.0$/)
  await compacted(folder)
  const erased = bytesBelow(folder)
  for (let n = 0; n < 39; n += 1) expect(erased(secret(n))).toEqual([])
  expect(erased(secret(39))).not.toEqual([])
  expect(erased('bob stays')).not.toEqual([])

  // The item is unchanged. The blocks still show that the revisions existed, and have the same ids.
  expect((await node.send('GET', '/api/people/ann')).json.item.note).toBe(secret(39))
  const after = (await node.send('GET', `/api/ledgers?serverid=${node.service.serverId}`)).json
  const ids = (ledgers: { id: string }[]) => ledgers.map(({ id }) => id)
  expect(ids(after.ledgers).slice(0, -1)).toEqual(ids(before.ledgers))
  expect(after.ledgers[1].body[0]).toEqual({
    ...{ serverid: node.service.serverId, method: 'create_item', db: 'people' },
    item: { id: 'ann' },
  })
  expect(after.ledgers.at(-1).body).toEqual([
    {
      ...{ serverid: node.service.serverId, method: 'erase_item', db: 'people', id: 'ann' },
      positions: reply.json.positions,
    },
  ])
  for (const [path, height] of [
    ['/api/people/ann/proof', 78],
    ['/api/people/bob/proof', 1],
    ['/api/people/other-20/proof', 41],
  ] as const) {
    expect(await proofOf(node, path)).toMatchObject({
      height,
      entry: { method: expect.any(String) },
    })
  }
  expect(await proofOf(node, '/api/people/ann/proof?position=1.0')).toMatchObject({
    ...{ height: 1, index: 0, entry: null, timestamp: null },
  })
  expect(await verifyFolder(folder)).toMatchObject({ finding: null, erased: 39 })
  await node.close()
  const closed = bytesBelow(folder)
  for (let n = 0; n < 39; n += 1) expect(closed(secret(n))).toEqual([])
  expect(await verifyFolder(folder)).toMatchObject({ finding: null, erased: 39 })

  // The store still works like any other store.
  const again = await startLedgerNode({ folder })
  expect((await again.send('POST', '/api/people/ann', { note: 'next' })).status).toBe(200)
  expect((await again.send('POST', '/api/people/ann/erase')).json.positions).toEqual(['78.0'])
  await again.close()
  expect(await verifyFolder(folder)).toMatchObject({ finding: null, erased: 40 })
})

it('erases the requested revisions, even of a deleted item, and reports the reason for each rejection', async () => {
  const node = await startLedgerNode()
  await node.send('POST', '/api/people')
  await node.send('POST', '/api/people', { id: 'ann', n: 1 })
  await node.send('POST', '/api/people/ann', { n: 2 })
  await node.send('POST', '/api/people/ann', { n: 3 })
  await node.send('POST', '/api/people', { id: 'bob', n: 1 })
  const erase = async (id: string, body?: unknown, db = 'people') => {
    const { status, json } = await node.send('POST', `/api/${db}/${id}/erase`, body)
    return [status, json.positions ?? json.code]
  }
  expect(await erase('ann', { positions: ['3.0'] })).toEqual([409, 'REVISION_CURRENT'])
  expect(await erase('ann', { positions: ['4.0'] })).toEqual([400, 'POSITION_INVALID'])
  expect(await erase('ann', { positions: ['2.1'] })).toEqual([400, 'POSITION_INVALID'])
  expect(await erase('ann', { positions: ['99.0'] })).toEqual([400, 'POSITION_INVALID'])
  expect(await erase('ann', { positions: ['1.16384'] })).toEqual([400, 'POSITION_INVALID'])
  expect((await erase('ann', { positions: ['x'] }))[0]).toBe(400)
  expect((await erase('ann', { positions: [] }))[0]).toBe(400)
  expect((await erase('ann', { positions: 5 }))[0]).toBe(400)
  expect(await erase('bob')).toEqual([409, 'NOTHING_TO_ERASE'])
  expect(await erase('none')).toEqual([409, 'NOTHING_TO_ERASE'])
  expect(await erase('ann', undefined, 'none')).toEqual([404, 'DATABASE_NOT_FOUND'])
  expect(await erase('ann', { positions: ['2.0', '2.0'] })).toEqual([200, ['2.0']])
  expect(await erase('ann', { positions: ['2.0'] })).toEqual([409, 'NOTHING_TO_ERASE'])
  expect(await erase('ann', { positions: ['2.0', '1.0'] })).toEqual([200, ['1.0']])
  await node.send('DELETE', '/api/people/ann')
  expect(await erase('ann')).toEqual([200, ['3.0']])
  expect(await erase('ann', {})).toEqual([409, 'NOTHING_TO_ERASE'])
  await node.send('DELETE', '/api/people')
  await node.send('POST', '/api/people')
  // The position is in the earlier database with the same name.
  expect(await erase('bob', { positions: ['4.0'] })).toEqual([200, ['4.0']])
  await node.close()
})

it.each([false, true])(
  'erases an item and its attachments after its database was deleted (and its name was used again: %s)',
  async (isReused) => {
    const folder = temporaryFolder()
    const node = await startLedgerNode({ folder })
    const secrets = Array.from({ length: 3 }, (_, n) => `SECRET-${n}-${'geheim'.repeat(3)}`)
    await node.send('POST', '/api/people')
    await node.send('POST', '/api/people', { id: 'p1', note: secrets[0] })
    await node.send('POST', '/api/people/p1', { note: secrets[1] })
    await node.send('PUT', '/api/people/p1/attachments/a', Buffer.from(secrets[2] ?? ''))
    await node.send('DELETE', '/api/people')
    const positions = ['1.0', '2.0', '3.0']
    if (isReused) {
      await node.send('POST', '/api/people')
      await node.send('POST', '/api/people', { id: 'p1', note: 'open' })
    }
    const { json } = await node.send('POST', '/api/people/p1/erase')
    expect(json.positions).toEqual(positions)
    await compacted(folder)
    const found = bytesBelow(folder)
    for (const secret of secrets) expect(found(secret)).toEqual([])
    expect((await node.send('POST', '/api/people/p1/erase')).json.code).toBe('NOTHING_TO_ERASE')
    expect((await node.send('POST', '/api/people/p2/erase')).json.code).toBe('NOTHING_TO_ERASE')
    expect((await node.send('GET', '/api/people/p1')).status).toBe(isReused ? 200 : 404)
    await node.close()
    expect(await verifyFolder(folder)).toMatchObject({ finding: null, erased: 3 })
    await expectFindings(folder, [
      ["DELETE FROM superseded WHERE id = 'p1'", 'item p1 of people'],
      ['DELETE FROM deleted_databases', 'created at 0.0 and deleted later, is not listed'],
      ["UPDATE deleted_databases SET name = 'other'", 'database other, created at 0.0, is listed'],
      [
        "INSERT INTO superseded SELECT created, 'p2', 7 FROM deleted_databases",
        'has revisions that are not in the chain',
      ],
    ])
  },
)

const COMMON = { serverid: 7, db: 'd' } as const
const revise = (method: 'create_item' | 'update_item', n: number): Entry => ({
  ...COMMON,
  ...{ method, item: { id: 'i', n } },
})
const attach = (name: string): Entry => ({
  ...COMMON,
  ...{ method: 'create_attachment', id: 'i' },
  attachment: { content_type: 'a/b', length: 1, name, sha256: 'a'.repeat(64) },
})
/** Entries that replace an attachment. */
const attachments = (count: number) => Array.from({ length: count }, () => attach('a'))

/** Returns a store with database `d` and the entries of `blocks`. */
async function storeWith(...blocks: (readonly Entry[])[]): Promise<Store> {
  const store = await openStore({ location: temporaryFolder(), serverId: 7, durable: false })
  onTestFinished(() => store.close())
  for (const entries of [[{ ...COMMON, method: 'create_db' } as const], ...blocks]) {
    const block = sealBlock(await store.head(7), {
      serverId: 7,
      entries: entries.map((entry) => canonicalJson(entry)),
      timestamps: entries.map(() => 1),
      blinds: randomBytes(entries.length * HASH_BYTES),
    })
    const effects = entries.map((entry, at) => toEffect(entry, packPosition(block.height, at)))
    await store.append(block, effects, [])
  }
  return store
}

/** Returns the counts of a bulk erasure without erasing. */
function counted(store: Store, where: string | null) {
  const deps = { store, onErased: () => {} } as unknown as Parameters<typeof eraseItems>[0]
  const filter = where === null ? null : parseFilter({ filter: `{"where":${where}}` })
  const query = { db: 'd', ids: where === null ? ['i'] : null, where: filter?.where ?? null }
  const all = { ...query, isDeletedOnly: false, isDryRun: true, after: -1 }
  return eraseItems(deps, all, { precondition: null, idempotency: null })
}

it('erases former revisions of an item with more current attachments than one request may erase', async () => {
  const current = Array.from({ length: ENTRIES_MAX }, (_, n) => attach(`${n}`))
  const revised = [revise('create_item', 1), revise('update_item', 2), attach('last')]
  const store = await storeWith(revised, current)
  const erasure = { kind: 'erase_item', db: 'd', of: 'i', positions: null } as const
  const planned = await planErasure(store, erasure, new Set(), new RecentBlocks(store))
  expect(planned.positions).toEqual([packPosition(1, 0)])
  expect(await counted(store, null)).toMatchObject({ items: 1, revisions: 1 })
})

it.each([1_500, ENTRIES_MAX + 100])(
  'erases the revisions before and after %i former attachments',
  async (count) => {
    const half = attachments(count / 2)
    const store = await storeWith(
      [revise('create_item', 1), revise('update_item', 2), ...half],
      [revise('update_item', 3), ...half],
      [revise('update_item', 4)],
    )
    expect(await counted(store, null)).toMatchObject({ items: 1, revisions: 3 + count - 1 })
  },
)

it('erases the attachments of an earlier item with the same id, but not its revisions unless it is selected', async () => {
  const store = await storeWith(
    [revise('create_item', 1), ...attachments(1_500), revise('update_item', 1)],
    [{ ...COMMON, method: 'delete_item', id: 'i' }],
    [revise('create_item', 2), revise('update_item', 2)],
  )
  expect(await counted(store, '{"n":2}')).toMatchObject({ items: 1, revisions: 1_501 })
})

it('concurrent erasures erase each revision once', async () => {
  const folder = temporaryFolder()
  const node = await startLedgerNode({ folder })
  await node.send('POST', '/api/people')
  await node.send('POST', '/api/people', { id: 'ann', n: 0 })
  for (let n = 1; n < 6; n += 1) await node.send('POST', '/api/people/ann', { n })
  const replies = await Promise.all(
    Array.from({ length: 8 }, () => node.send('POST', '/api/people/ann/erase')),
  )
  expect(replies.map(({ status }) => status).sort()).toEqual([200, ...new Array(7).fill(409)])
  await node.close()
  expect(await verifyFolder(folder)).toMatchObject({ finding: null, erased: 5 })
})

it('after the erasure of content that was sent with an Idempotency-Key, no fingerprint remains, and the key is rejected', async () => {
  const folder = temporaryFolder()
  const node = await startLedgerNode({ folder })
  await node.send('POST', '/api/people')
  const put = (key: string, method: string, path: string, body: unknown) =>
    node.send(method, path, body, { 'idempotency-key': `"${key}"` })
  const created = () =>
    put('k1', 'POST', '/api/people', [{ id: 'bob' }, { id: 'ann', note: 'SECRET' }, { id: 'eve' }])
  const replaced = () => put('k2', 'POST', '/api/people/ann', { note: 'open' })
  const first = [(await created()).text, (await replaced()).text]
  const fingerprints = () => {
    const database = new DatabaseSync(join(folder, 'ledger.db'), { readOnly: true })
    const rows = database.prepare('SELECT fingerprint FROM answers ORDER BY position').all()
    database.close()
    return rows.map(({ fingerprint }) => String(fingerprint))
  }
  const [secret = '', open = ''] = fingerprints()
  expect((await node.send('POST', '/api/people/ann/erase')).json.positions).toEqual(['1.1'])
  await compacted(folder)
  expect(filesWith(folder, secret)).toEqual([])
  expect(fingerprints()).toEqual(['0'.repeat(64), open])
  const again = await created()
  expect([again.status, again.json.code, again.json.message]).toEqual([
    422,
    'IDEMPOTENCY_KEY_REUSED',
    'the content of the request with this key was erased',
  ])
  expect((await replaced()).text).toBe(first[1])
  await node.close()
  expect(await verifyFolder(folder)).toMatchObject({ finding: null, erased: 1, entries: 6 })
})

it('an export of a chain with erased entries can be imported, and the import passes verification', async () => {
  const folder = temporaryFolder()
  const node = await startLedgerNode({ folder })
  await node.send('POST', '/api/people')
  await node.send('POST', '/api/people', { id: 'ann', note: 'SECRET' })
  await node.send('POST', '/api/people/ann', { note: 'open' })
  await node.send('POST', '/api/people/ann/erase')
  await node.close()
  const store = await openStoreReader(folder, { frozen: false })
  let text = ''
  for await (const lines of exportLines(store, folder, () => {})) text += lines
  await store.close()
  expect(text).toContain('"blinds":[null]')
  expect(text).not.toContain('SECRET')

  const imported = async (bytes: string) => {
    const into = temporaryFolder()
    copyFileSync(join(folder, 'node.key'), join(into, 'node.key'))
    const chunks = async function* () {
      yield Buffer.from(bytes)
    }
    await importExport({ folder: into, chunks: chunks(), progress: () => {} })
    return into
  }
  const into = await imported(text)
  expect(await verifyFolder(into)).toMatchObject({ finding: null, erased: 1, entries: 4 })
  const again = await startLedgerNode({ folder: into })
  expect((await again.send('GET', '/api/people/ann')).json.item).toEqual({
    id: 'ann',
    note: 'open',
  })
  expect((await again.send('POST', '/api/people/ann/erase')).json.code).toBe('NOTHING_TO_ERASE')
  await again.close()
  // Removes the blind of an entry that is not erased.
  const forged = text.replace(/("height":2,[^\n]*"blinds":\[)"[0-9a-f]{64}"/, '$1null')
  expect(forged).not.toBe(text)
  await expect(imported(forged)).rejects.toMatchObject({ code: 'EXPORT_DAMAGED' })
})

it('an entry counts as erased only if a later entry of the chain erases it', async () => {
  const folder = temporaryFolder()
  const node = await startLedgerNode({ folder })
  await node.send('POST', '/api/people')
  await node.send('POST', '/api/people', [{ id: 'ann', n: 1 }, { id: 'bob' }])
  await node.send('POST', '/api/people/ann', { n: 2 })
  await node.send('POST', '/api/people/ann/erase')
  await node.close()
  expect((await verifyFolder(folder)).finding).toBeNull()
  const zeros = (at: number) =>
    `CAST(substr(blinds, 1, ${at * 32}) || zeroblob(32) || substr(blinds, ${at * 32 + 33}) AS BLOB)`
  await expectFindings(folder, [
    [`UPDATE blocks SET blinds = ${zeros(1)} WHERE height = 1`, 'no other entry erases it'],
    ['INSERT INTO erasures VALUES (16385, 49152)', '2 entries are recorded as erased'],
    ['DELETE FROM erasures', 'no other entry erases it'],
    [
      `UPDATE blocks SET body = replace(body, 'ann', 'eve') WHERE height = 1`,
      'item ann is stored as created here instead of item eve',
    ],
    ['UPDATE blocks SET blinds = randomblob(64) WHERE height = 1', 'do not match'],
    ['INSERT INTO uncompacted VALUES (5)', 'is recorded as an erasure'],
  ])
})

it('sends no erased content to a subscriber of the change feed that starts after the erasure', async () => {
  const node = await startLedgerNode()
  await node.send('POST', '/api/people')
  await node.send('POST', '/api/people', { id: 'ann', note: 'SECRET' })
  await node.send('POST', '/api/people/ann', { note: 'public' })
  const receive = async (last: string) => {
    let text = ''
    const isComplete = Promise.withResolvers<void>()
    const subscription = await node.service.feed.subscribe(
      {
        send(events) {
          text += events.toString()
          if (text.includes(last)) isComplete.resolve()
          // The first subscriber accepts no chunk, so that the feed keeps the page in its cache.
          else subscription.ready()
        },
        heartbeat() {},
        end() {},
      },
      'start',
      null,
    )
    await isComplete.promise
    return text
  }
  expect(await receive('public')).toContain('SECRET')
  expect((await node.send('POST', '/api/people/ann/erase')).status).toBe(200)
  const after = await receive('erase_item')
  expect(after).toContain('public')
  expect(after).not.toContain('SECRET')
  await node.close()
})
