// Tests that after an erasure, no file contains the bytes, names or hashes of erased attachments.
import { copyFileSync, existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, it } from 'vitest'
import { bytesBelow, compacted, expectFindings, filesWith } from '../../../test/support/erased.ts'
import { entriesOf } from '../../../test/support/feed-entries.ts'
import {
  type LedgerNode,
  startLedgerNode,
  temporaryFolder,
  verifyFolder,
} from '../../../test/support/ledger-node.ts'
import {
  nodeVerifySignature,
  parseVerifierKey,
  positionText,
  verifyProofFile,
} from '../../chain/index.ts'
import { openStoreReader } from '../../storage/index.ts'
import { exportLines } from '../export/export.ts'
import { importExport } from '../export/import.ts'
import { Mirror, pull } from '../peers/mirror.ts'
import { PeerClient } from '../peers/peer-client.ts'
import { parseNodeKey } from '../peers/peer-list.ts'

/** Attaches `content`, and returns its SHA-256. */
async function attach(node: LedgerNode, id: string, name: string, content: string) {
  const path = `/api/people/${id}/attachments/${encodeURIComponent(name)}`
  const { status, json } = await node.send('PUT', path, Buffer.from(content), {
    'content-type': 'text/plain',
  })
  expect(status).toBe(200)
  return String(json.attachment.sha256)
}

async function erase(node: LedgerNode, id: string, positions?: string[]) {
  const body = positions === undefined ? undefined : { positions }
  const { status, json } = await node.send('POST', `/api/people/${id}/erase`, body)
  return [status, json.positions ?? json.code]
}

async function nodeWithPeople(folder: string | null = null): Promise<LedgerNode> {
  const node = await startLedgerNode({ folder })
  await node.send('POST', '/api/people')
  await node.send('POST', '/api/people', [{ id: 'ann' }, { id: 'bob' }])
  return node
}

/** Returns all rows of the tables that a replay of the chain restores. */
function statesOf(folder: string): string[] {
  const database = new DatabaseSync(join(folder, 'ledger.db'), { readOnly: true })
  const tables = ['attachments', 'items', 'superseded', 'erasures', 'databases']
  const rows = tables.flatMap((table) =>
    database.prepare(`SELECT '${table}', * FROM ${table}`).all(),
  )
  database.close()
  return rows.map((row) => JSON.stringify(row)).toSorted()
}

async function exportOf(folder: string): Promise<string> {
  const store = await openStoreReader(folder, { frozen: false })
  let text = ''
  for await (const lines of exportLines(store, folder, () => {})) text += lines
  await store.close()
  return text
}

async function imported(text: string, from: string): Promise<string> {
  const folder = temporaryFolder()
  copyFileSync(join(from, 'node.key'), join(folder, 'node.key'))
  const chunks = async function* () {
    yield Buffer.from(text)
  }
  await importExport({ folder, chunks: chunks(), progress: () => {} })
  return folder
}

const SHARED = 'shared by ann and bob'

/**
 * Records these blocks: 0 creates the database; 1 creates two items; 2 to 4 attach three files with one name; 5 deletes
 * this attachment; 6 attaches a file with another name; 7 and 8 attach equal bytes to both items as `card`; 9 replaces
 * `card` of ann; 10 changes ann.
 */
async function createHistory(node: LedgerNode) {
  const gone = ['first scan', 'second scan', 'third scan']
  const hashes: string[] = []
  for (const content of gone) hashes.push(await attach(node, 'ann', 'SECRET-scan.pdf', content))
  await node.send('DELETE', '/api/people/ann/attachments/SECRET-scan.pdf')
  hashes.push(await attach(node, 'ann', 'SECRET-photo.jpg', 'of her face'))
  await attach(node, 'ann', 'card', SHARED)
  await attach(node, 'bob', 'card', SHARED)
  await attach(node, 'ann', 'card', 'her new card')
  await node.send('PATCH', '/api/people/ann', { since: 2020 })
  return { texts: [...gone, 'SECRET-scan.pdf'], hashes: hashes.slice(0, 3) }
}

it('after an erasure, no file contains bytes, names or hashes of the erased attachments, and all other proofs verify', async () => {
  const folder = temporaryFolder()
  const node = await nodeWithPeople(folder)
  const { texts, hashes } = await createHistory(node)
  const whileThere = bytesBelow(folder)
  for (const text of [...texts, ...hashes]) expect(whileThere(text)).not.toEqual([])
  const { serverId } = node.service
  const ledgerOf = async () => (await node.send('GET', `/api/ledgers?serverid=${serverId}`)).json
  const before = await ledgerOf()

  expect(await erase(node, 'ann')).toEqual([200, ['1.0', '2.0', '3.0', '4.0', '5.0', '7.0']])
  for (const hash of hashes) {
    expect(existsSync(join(folder, 'attachments', hash.slice(0, 2), hash.slice(2)))).toBe(false)
  }
  await compacted(folder)
  const erased = bytesBelow(folder)
  for (const text of [...texts, ...hashes]) expect([text, erased(text)]).toEqual([text, []])

  // The current attachments of ann and bob exist, even if an erased entry referred to the same blob.
  const held = async (id: string, name: string) =>
    (await node.send('GET', `/api/people/${id}/attachments/${name}`)).text
  expect(await held('ann', 'SECRET-photo.jpg')).toBe('of her face')
  expect(await held('ann', 'card')).toBe('her new card')
  expect(await held('bob', 'card')).toBe(SHARED)
  const { json } = await node.send('GET', '/api/people/ann/attachments')
  expect(json.attachments.map(({ name }: { name: string }) => name)).toEqual([
    'SECRET-photo.jpg',
    'card',
  ])

  // The blocks still show that the entries existed, and have the same ids.
  const after = await ledgerOf()
  const ids = ({ ledgers }: { ledgers: { id: string }[] }) => ledgers.map(({ id }) => id)
  expect(ids(after).slice(0, -1)).toEqual(ids(before))
  const stub = (method: string) => ({
    serverid: serverId,
    method,
    db: 'people',
    id: 'ann',
    attachment: {},
  })
  expect(after.ledgers[2].body).toEqual([stub('create_attachment')])
  expect(after.ledgers[5].body).toEqual([stub('delete_attachment')])
  expect(after.ledgers[6].body).toEqual(before.ledgers[6].body)
  const vkey = (await node.send('GET', `/api/ledgers/${serverId}/vkey`)).text.trim()
  const proofOf = async (id: string, position: string) => {
    const { text } = await node.send('GET', `/api/people/${id}/proof?position=${position}`)
    return verifyProofFile(nodeVerifySignature, parseVerifierKey(vkey), text)
  }
  expect(await proofOf('ann', '3.0')).toMatchObject({ height: 3, index: 0, entry: null })
  expect(await proofOf('ann', '6.0')).toMatchObject({
    entry: { method: 'create_attachment', attachment: { name: 'SECRET-photo.jpg' } },
  })
  expect(await proofOf('bob', '8.0')).toMatchObject({ entry: { attachment: { name: 'card' } } })
  expect(await verifyFolder(folder)).toMatchObject({ finding: null, erased: 6 })
  await node.close()
  const closed = bytesBelow(folder)
  for (const text of [...texts, ...hashes]) expect(closed(text)).toEqual([])
  expect(await verifyFolder(folder)).toMatchObject({ finding: null, erased: 6 })
})

it('erasing a deleted item erases its attachments, and a new item with the same id has no attachments', async () => {
  const folder = temporaryFolder()
  const node = await nodeWithPeople(folder)
  const hash = await attach(node, 'ann', 'scan', 'SECRET bytes')
  await node.send('DELETE', '/api/people/ann')
  expect(await erase(node, 'ann')).toEqual([200, ['1.0', '2.0']])
  expect(filesWith(folder, 'SECRET bytes')).toEqual([])
  expect(existsSync(join(folder, 'attachments', hash.slice(0, 2), hash.slice(2)))).toBe(false)
  await node.send('POST', '/api/people', { id: 'ann' })
  expect((await node.send('GET', '/api/people/ann/attachments')).json.attachments).toEqual([])
  // Positions in an earlier database with the same name can be erased, too.
  await attach(node, 'bob', 'scan', 'SECRET too')
  await node.send('DELETE', '/api/people')
  await node.send('POST', '/api/people')
  expect(await erase(node, 'bob', ['6.0'])).toEqual([200, ['6.0']])
  expect(filesWith(folder, 'SECRET too')).toEqual([])
  await node.close()
  expect(await verifyFolder(folder)).toMatchObject({ finding: null, erased: 3 })
})

it('erases attachments together with their deletion, but no current attachment, and no attachment before the one that it replaced', async () => {
  const node = await nodeWithPeople()
  await createHistory(node)
  // Rejects an erasure of a current attachment, and of a deletion or replacement without the attachment that it
  // removed.
  expect(await erase(node, 'ann', ['6.0'])).toEqual([409, 'REVISION_CURRENT'])
  expect(await erase(node, 'ann', ['9.0'])).toEqual([409, 'REVISION_CURRENT'])
  expect(await erase(node, 'ann', ['3.0'])).toEqual([409, 'REVISION_NEEDED'])
  expect(await erase(node, 'ann', ['2.0', '4.0'])).toEqual([409, 'REVISION_NEEDED'])
  expect(await erase(node, 'ann', ['5.0'])).toEqual([409, 'REVISION_NEEDED'])
  expect(
    (await node.send('POST', '/api/people/ann/erase', { positions: ['3.0'] })).json.message,
  ).toBe('if only 3.0 were erased, the attachment at 2.0 would become current again: erase 2.0 too')
  // The entry belongs to another item.
  expect(await erase(node, 'bob', ['2.0'])).toEqual([400, 'POSITION_INVALID'])
  expect(await erase(node, 'ann', ['2.0'])).toEqual([200, ['2.0']])
  expect(await erase(node, 'ann', ['2.0'])).toEqual([409, 'NOTHING_TO_ERASE'])
  expect(await erase(node, 'ann', ['4.0', '3.0'])).toEqual([200, ['3.0', '4.0', '5.0']])
  expect(await erase(node, 'ann', ['5.0'])).toEqual([409, 'NOTHING_TO_ERASE'])
  expect(await erase(node, 'ann')).toEqual([200, ['1.0', '7.0']])
  await node.close()
})

it('concurrent erasures erase each entry once', async () => {
  const folder = temporaryFolder()
  const node = await nodeWithPeople(folder)
  await createHistory(node)
  const replies = await Promise.all([erase(node, 'ann'), erase(node, 'ann'), erase(node, 'ann')])
  expect(replies.map(([status]) => status).toSorted()).toEqual([200, 409, 409])
  await node.close()
  expect(await verifyFolder(folder)).toMatchObject({ finding: null, erased: 6 })
})

it('records an erasure and a later deletion of an attachment in the same block', async () => {
  const node = await nodeWithPeople()
  await createHistory(node)
  const { attachments } = node.service
  const erasing = node.service.write.eraseRevisions('people', 'ann', null)
  // Queues the deletion after the erasure, but before the block closes in the next event-loop iteration.
  for (let step = 0; step < 100; step += 1) await null
  const deleting = attachments.delete('people', 'ann', 'card', undefined)
  const [erased, deleted] = await Promise.all([erasing, deleting])
  expect([erased, deleted].map(({ position }) => positionText(position))).toEqual(['11.0', '11.1'])
  await node.close()
})

it('a replay of a chain with erased attachments, by import or mirror, restores the state of the node', async () => {
  const folder = temporaryFolder()
  const node = await nodeWithPeople(folder)
  await createHistory(node)
  const { serverId, log } = node.service
  const { key } = parseNodeKey(log.verifierKey)
  const source = new PeerClient({ url: node.url, serverId, allowPrivate: true })
  const mirrored = async (into: string) => {
    await log.consistency(0, (await node.service.read.chainSize()).blocks)
    const mirror = await Mirror.open({ folder: into, serverId, key, durable: false })
    await pull(mirror, source)
    await mirror.close()
    expect(filesWith(into, 'ledger.db')).toEqual(['ledger.db'])
  }
  const early = temporaryFolder()
  await mirrored(early)
  expect(filesWith(early, 'SECRET-scan')).not.toEqual([])
  await erase(node, 'ann')
  await mirrored(early)
  expect(filesWith(early, 'SECRET-scan')).toEqual([])
  const late = temporaryFolder()
  await mirrored(late)
  await node.close()

  const text = await exportOf(folder)
  expect(text).toContain('"attachment":{}')
  expect(text).not.toContain('SECRET-scan')
  const into = await imported(text, folder)
  const states = statesOf(folder)
  expect(states.length).toBeGreaterThan(10)
  for (const other of [early, late, into]) expect(statesOf(other)).toEqual(states)

  // The imported node continues, although the export contains no blobs.
  const again = await startLedgerNode({ folder: into })
  expect(await erase(again, 'ann')).toEqual([409, 'NOTHING_TO_ERASE'])
  expect((await again.send('DELETE', '/api/people/ann/attachments/card')).status).toBe(200)
  expect(await erase(again, 'ann')).toEqual([200, ['9.0', '12.0']])
  await again.close()
})

it('rejects an entry without its attachment metadata unless the entry is erased', async () => {
  const folder = temporaryFolder()
  const node = await nodeWithPeople(folder)
  await createHistory(node)
  await erase(node, 'ann', ['2.0'])
  await node.close()
  const text = await exportOf(folder)
  // Removes the attachment of an entry, but not the blind.
  const forged = text.replace(/"attachment":\{"[^}]+\}/, '"attachment":{}')
  expect(forged).not.toBe(text)
  await expect(imported(forged, folder)).rejects.toMatchObject({
    code: 'EXPORT_DAMAGED',
    message: expect.stringContaining('it has no attachment metadata'),
  })
})

it('verification reports attachment rows, entries and files that do not match the erasures', async () => {
  const folder = temporaryFolder()
  const node = await nodeWithPeople(folder)
  await createHistory(node)
  await erase(node, 'ann', ['2.0', '3.0'])
  await node.close()
  expect(await verifyFolder(folder)).toMatchObject({ finding: null, erased: 2 })
  const row = (position: number, ended: string, name = 'SECRET-scan.pdf') =>
    `INSERT INTO attachments SELECT ${position}, db, id, '${name}', content_type, length, sha256,
      ${ended} FROM attachments LIMIT 1`
  const packed = (height: number) => height * 16_384
  await expectFindings(folder, [
    [row(packed(2), `${packed(3)}`), 'but the chain has none there'],
    [row(packed(3), 'NULL', 'other'), 'but the chain has none there'],
    [`DELETE FROM attachments WHERE position = ${packed(4)}`, 'is missing'],
    [`UPDATE attachments SET ended = NULL WHERE position = ${packed(4)}`, 'is not stored'],
    [
      `UPDATE attachments SET ended = 1 WHERE ended IS NULL AND id = 'bob'`,
      'stored as replaced or deleted',
    ],
    [
      `UPDATE blocks SET body = replace(body, '"attachment":{}', '"attachment":{"name":"x"}') WHERE height = 2`,
      'it is not an entry',
    ],
    [
      `UPDATE blocks SET body = replace(body, '"id":"ann"', '"id":"bob"') WHERE height = 2`,
      'item ann',
    ],
    [
      `UPDATE blocks SET body = replace(body, 'create_attachment', 'create_item') WHERE height = 3`,
      'it is not an entry',
    ],
  ])
  // Adds a blob that no entry refers to, as if it had been restored from an earlier backup.
  const start = join(folder, 'attachments', 'ab')
  mkdirSync(start, { recursive: true })
  writeFileSync(join(start, 'c'.repeat(62)), 'first scan')
  expect((await verifyFolder(folder)).finding?.what).toContain('no entry refers to it')
})

it('an erasure fails with STORE_FAILED if a blob cannot be removed, and the next start removes the blob', async () => {
  const folder = temporaryFolder()
  const node = await nodeWithPeople(folder)
  const hash = await attach(node, 'ann', 'scan', 'SECRET bytes')
  await node.send('DELETE', '/api/people/ann/attachments/scan')
  const path = join(folder, 'attachments', hash.slice(0, 2), hash.slice(2))
  // Replaces the file with a directory, which cannot be removed like a file.
  renameSync(path, `${path}.kept`)
  mkdirSync(path)
  const { status, json } = await node.send('POST', '/api/people/ann/erase')
  expect([status, json.code]).toEqual([503, 'STORE_FAILED'])
  rmSync(path, { recursive: true })
  renameSync(`${path}.kept`, path)
  await node.close()
  expect(filesWith(folder, 'SECRET bytes')).not.toEqual([])
  const again = await startLedgerNode({ folder })
  expect(filesWith(folder, 'SECRET bytes')).toEqual([])
  await again.close()
  expect(await verifyFolder(folder)).toMatchObject({ finding: null, erased: 2 })
})

it('an erasure with an Idempotency-Key is executed once, and a repeated request gets the same reply', async () => {
  const folder = temporaryFolder()
  const node = await nodeWithPeople(folder)
  await createHistory(node)
  const send = async (key: string, body?: unknown) => {
    const headers = { 'idempotency-key': `"${key}"` }
    const reply = await node.send('POST', '/api/people/ann/erase', body, headers)
    return [reply.status, reply.text, reply.headers.get('ledger-position')]
  }
  const first = await send('k1', { positions: ['2.0'] })
  expect(first).toEqual([
    200,
    '{"status":true,"positions":["2.0"]}',
    `${node.service.serverId}/11.0`,
  ])
  expect(await send('k1', { positions: ['2.0'] })).toEqual(first)
  const [status, text] = await send('k1', { positions: ['3.0'] })
  expect([status, JSON.parse(String(text)).code]).toEqual([422, 'IDEMPOTENCY_KEY_REUSED'])
  // Concurrent requests with one key also make one erasure.
  const erasures = await Promise.all(Array.from({ length: 8 }, () => send('k2')))
  for (const one of erasures) expect(one).toEqual(erasures[0])
  expect(erasures[0]?.[0]).toBe(200)
  const [, invalid] = await send('', undefined)
  expect(JSON.parse(String(invalid)).code).toBe('IDEMPOTENCY_KEY_INVALID')
  await node.close()
  expect(await verifyFolder(folder)).toMatchObject({ finding: null, erased: 6, blocks: 13 })
})

it('a subscriber does not receive entries that were erased earlier, even if other subscribers have received them', async () => {
  const node = await nodeWithPeople()
  await createHistory(node)
  const { service } = node
  const first = await entriesOf(service, { after: 'start' })
  // After the first entry, the page of the chain is in the cache that all subscribers share.
  await first.next()
  await erase(node, 'ann')
  const later = await entriesOf(service, { after: 'start' })
  const seen: string[] = []
  for await (const { entry } of later) {
    seen.push(JSON.stringify(entry))
    if (entry.method === 'erase_item') break
  }
  expect(seen).toHaveLength(13)
  expect(seen.filter((entry) => entry.includes('SECRET-scan'))).toEqual([])
  await first.return?.()
  await node.close()
})
