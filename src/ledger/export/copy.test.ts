import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { queryOnce } from '../../../test/postgres/server.ts'
import { sharedPostgres } from '../../../test/postgres/shared.ts'
import { startLedgerNode, temporaryFolder } from '../../../test/support/ledger-node.ts'
import { tamper } from '../../../test/support/tampered.ts'
import { type IdempotencyRecord, openStoreReader, type StoreLocation } from '../../storage/index.ts'
import { copyStore, moveIntoDatabase } from './copy.ts'
import { exportLines } from './export.ts'

const postgres = await sharedPostgres()

const copy = (from: StoreLocation, to: StoreLocation) =>
  copyStore({ from, to, threads: 2, progress: () => {} })

/** Creates a folder with updates, an erasure, attachments, an index, a deleted database and idempotency records. */
async function usedFolder(): Promise<string> {
  const folder = temporaryFolder()
  const node = await startLedgerNode({ folder })
  for (const db of ['gone', 'fruit']) {
    await node.send('POST', `/api/${db}`)
    await node.send('POST', `/api/${db}`, [{ id: 'fig', n: 1 }, { id: 'plum' }])
  }
  await node.send('DELETE', '/api/gone')
  await node.send('POST', '/api/config/indexes', { db: 'fruit', path: 'n' })
  const once = { 'idempotency-key': '"one"' }
  await node.send('POST', '/api/fruit/fig', { n: 2 }, once)
  await node.send('POST', '/api/fruit', { id: 'pear' }, { 'idempotency-key': '"two"' })
  const bytes = { 'content-type': 'application/octet-stream' }
  for (const [name, content] of [
    ['label', 'ripe'],
    ['photo', 'x'.repeat(3_000_000)],
    ['label', 'overripe'],
  ]) {
    await node.send('PUT', `/api/fruit/fig/attachments/${name}`, Buffer.from(`${content}`), bytes)
  }
  await node.service.write.eraseRevisions('fruit', 'fig', ['3.0'])
  await node.close()
  return folder
}

/** Returns the contents of a store, except its databases, which can be derived from the chain. */
async function contentAt(location: StoreLocation) {
  const store = await openStoreReader(location, { frozen: true })
  try {
    let exported = ''
    for await (const lines of exportLines(store, null, () => {})) exported += lines
    const records: IdempotencyRecord[] = await store.idempotencyRecords(-1, 100)
    const erased = await store.countErased()
    const blobs = await store.attachments.blobs('', 100)
    return { exported, records, erased, blobs, indexes: await store.indexes() }
  } finally {
    await store.close()
  }
}

it('copies blocks, idempotency records, erasures, indexes and attachments, and verifies them', async () => {
  const from = await usedFolder()
  const to = join(temporaryFolder(), 'new')
  const copied = await copy(from, to)
  expect(copied).toMatchObject({ finding: null, databases: 1, items: 3, contents: 3, erased: 1 })
  const content = await contentAt(to)
  expect(content).toEqual(await contentAt(from))
  expect([content.records.length, content.indexes.length, content.blobs.length]).toEqual([2, 1, 3])
  expect(readdirSync(to).sort()).toEqual(['attachments', 'ledger.db', 'ledger.lock'])

  copyFileSync(join(from, 'node.key'), join(to, 'node.key'))
  const node = await startLedgerNode({ folder: to })
  const again = await node.send(
    'POST',
    '/api/fruit',
    { id: 'pear' },
    { 'idempotency-key': '"two"' },
  )
  expect(again.status).toBe(200)
  expect((await node.send('GET', '/api/fruit/fig/attachments/label')).text).toBe('overripe')
  expect((await node.send('GET', '/readyz')).status).toBe(200)
  await node.close()
})

describe.skipIf(postgres.missing !== null)(`a PostgreSQL database${postgres.note}`, () => {
  it('receives a copy of a folder, and can be copied to a folder, with the same content', async () => {
    const from = await usedFolder()
    await using database = await postgres.newDatabase()
    const back = join(temporaryFolder(), 'back')
    const shared = ['evidence.json', 'token-revocations.json', 'witness.json']
    for (const name of shared) writeFileSync(join(from, name), `content of ${name}`)
    const copied = await copy(from, database.url)
    expect(copied).toMatchObject({ finding: null, databases: 1, items: 3, contents: 3, erased: 1 })
    expect(await copy(database.url, back)).toMatchObject({ finding: null, contents: 3 })
    const content = await contentAt(from)
    expect([await contentAt(database.url), await contentAt(back)]).toEqual([content, content])
    const texts = await queryOnce(database.url, 'SELECT name, text FROM shared_texts ORDER BY name')
    expect(texts.map(({ name }) => name)).toEqual(['own-evidence', 'token-revocations', 'witness'])
    const files = shared.map((name) => readFileSync(join(back, name), 'utf8'))
    expect(files).toEqual(texts.map(({ text }) => text))
    expect(files).toEqual(shared.map((name) => `content of ${name}`))
    // A process that was killed after the last step can be started again.
    expect(await copy(from, database.url)).toMatchObject({ finding: null, contents: 3 })
    expect(await copy(from, back)).toMatchObject({ finding: null, contents: 3 })
    expect(await copy(database.url, back)).toMatchObject({ finding: null, contents: 3 })
    // Either node may have revoked a token since the copy.
    writeFileSync(join(from, 'token-revocations.json'), 'changed')
    await expect(copy(from, database.url)).rejects.toMatchObject({ code: 'COPY_OVER_STORE' })
  })

  it('receives a complete copy after an interrupted copy, and all attachments are removed after a move', async () => {
    const from = await usedFolder()
    await using database = await postgres.newDatabase()
    const interrupted = copyStore({
      ...{ from, to: database.url, threads: 1 },
      progress: () => {
        throw new Error('the end')
      },
    })
    await expect(interrupted).rejects.toThrow('the end')
    expect(await copy(from, database.url)).toMatchObject({ finding: null, contents: 3 })
    const [blobs, link] = [join(temporaryFolder(), 'blobs'), join(from, 'attachments')]
    renameSync(link, blobs)
    symlinkSync(blobs, link)
    // As in a mount point, such as a folder lost+found.
    writeFileSync(join(blobs, 'other'), '')
    const move = { from, to: database.url, threads: 1, progress: () => {} }
    await moveIntoDatabase(move)
    expect([readdirSync(blobs), existsSync(join(from, 'ledger.db'))]).toEqual([['other'], false])
  })
})

it('replaces the folder `copy.partial` of an interrupted copy, and accepts blobs in the target', async () => {
  const from = await usedFolder()
  const to = temporaryFolder()
  mkdirSync(join(to, 'copy.partial'))
  writeFileSync(join(to, 'copy.partial', 'ledger.db'), 'half a store')
  await copy(from, to)
  rmSync(join(to, 'ledger.db'))
  // The folder still contains the attachments of the first copy.
  expect(await copy(from, to)).toMatchObject({ finding: null, contents: 3 })
  expect(existsSync(join(to, 'copy.partial'))).toBe(false)
})

it('verifies the copy if the target already has all blocks of the source', async () => {
  const from = await usedFolder()
  const to = join(temporaryFolder(), 'to')
  const first = await copy(from, to)
  expect(await copy(from, to)).toEqual(first)
  tamper(to, `UPDATE items SET item = replace(item, 'fig', 'fog')`)
  await expect(copy(from, to)).rejects.toMatchObject({ code: 'COPY_REFUSED' })
})

it('rejects a target with a store, the source itself, and a target with the key of another node, and leaves the target unchanged', async () => {
  const from = await usedFolder()
  const [used, foreign] = [await usedFolder(), temporaryFolder()]
  const link = join(temporaryFolder(), 'link')
  symlinkSync(from, link)
  for (const to of [used, from, link])
    await expect(copy(from, to)).rejects.toMatchObject({ code: 'COPY_OVER_STORE' })
  copyFileSync(join(used, 'node.key'), join(foreign, 'node.key'))
  await expect(copy(from, foreign)).rejects.toMatchObject({ code: 'COPY_OVER_STORE' })
  expect(readdirSync(foreign).sort()).toEqual(['ledger.lock', 'node.key'])
})

it('rejects a source that lacks blocks that its folder or the target has signed', async () => {
  const from = await usedFolder()
  const [older, to] = [join(temporaryFolder(), 'older'), temporaryFolder()]
  await copy(from, older)
  const node = await startLedgerNode({ folder: from })
  await node.send('POST', '/api/more')
  await node.close()
  copyFileSync(join(from, 'signed-head'), join(to, 'signed-head'))
  await expect(copy(older, to)).rejects.toMatchObject({ code: 'STORE_ROLLED_BACK' })
  expect(readdirSync(to).sort()).toEqual(['ledger.lock', 'signed-head'])
  copyFileSync(join(from, 'signed-head'), join(older, 'signed-head'))
  const next = temporaryFolder()
  await expect(copy(older, next)).rejects.toMatchObject({ code: 'STORE_ROLLED_BACK' })
  expect(readdirSync(next)).toEqual([])
})

it('rejects a source in which an attachment is missing', async () => {
  const from = await usedFolder()
  const [name = ''] = readdirSync(join(from, 'attachments')).filter((each) => each !== 'incoming')
  rmSync(join(from, 'attachments', name), { recursive: true })
  await expect(copy(from, temporaryFolder())).rejects.toMatchObject({ code: 'CHAIN_DAMAGED' })
})

it('reports a blob that was erased during the copy as erased', async () => {
  const from = await usedFolder()
  const progress = () => {
    tamper(from, 'DELETE FROM attachments')
    for (const name of readdirSync(join(from, 'attachments'))) {
      rmSync(join(from, 'attachments', name), { recursive: true })
    }
  }
  await expect(copyStore({ from, to: temporaryFolder(), threads: 1, progress })).rejects.toThrow(
    'was erased during the copy; copy again',
  )
})
