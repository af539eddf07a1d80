// Tests that damage of an export is always detected, and that an import restores either the whole node or nothing.
import { randomBytes } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { expect, it, onTestFinished } from 'vitest'
import {
  HandClock,
  startLedgerNode,
  temporaryFolder,
  verifyFolder,
} from '../../../test/support/ledger-node.ts'
import { positions } from '../../../test/support/rounds.ts'
import { tamper } from '../../../test/support/tampered.ts'
import { canonicalJson } from '../../base/canonical-json.ts'
import {
  type Block,
  type Entry,
  type Head,
  provenBlockJson,
  sealBlock,
  toHead,
} from '../../chain/index.ts'
import { openStoreReader } from '../../storage/index.ts'
import { findNodeKey, openNodeKey } from '../log/node-key.ts'
import { ExportError, endLine, exportLines, headerLine } from './export.ts'
import { importExport } from './import.ts'
import { readExport } from './read-export.ts'

const TAKES_ALL = { header: async () => {}, blocks: async () => {} }
const noProgress = () => {}

/** Returns the export of a folder as one string. */
async function exportOf(folder: string): Promise<string> {
  const store = await openStoreReader(folder, { frozen: false })
  try {
    let text = ''
    for await (const lines of exportLines(store, folder, noProgress)) text += lines
    return text
  } finally {
    await store.close()
  }
}

async function* chunksOf(bytes: Uint8Array, size = 1_000): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

/** Returns the error of reading `bytes` as an export, or null. */
async function refusalOf(bytes: Uint8Array, size?: number) {
  try {
    await readExport(chunksOf(bytes, size), TAKES_ALL)
    return null
  } catch (error) {
    if (error instanceof ExportError) return error
    throw error
  }
}

/** Creates a folder with the store of a node. Returns the folder and its export. */
async function usedFolder(): Promise<{ folder: string; text: string }> {
  const folder = temporaryFolder()
  const node = await startLedgerNode({ folder })
  await node.send('POST', '/api/fruit')
  await node.send('POST', '/api/fruit', [
    { id: 'fig', 台: '🍎\n' },
    { id: 'plum', n: 1e21 },
  ])
  await node.send('POST', '/api/fruit/fig', { ripe: true })
  await node.send('DELETE', '/api/fruit/plum')
  await node.close()
  return { folder, text: await exportOf(folder) }
}

it('reads an unchanged export, in chunks of any size, compressed or not', async () => {
  const { text } = await usedFolder()
  const bytes = Buffer.from(text)
  for (const size of [1, 7, 1_000, 1_000_000]) {
    expect(await refusalOf(bytes, size)).toBeNull()
    expect(await refusalOf(gzipSync(bytes), size)).toBeNull()
  }
})

it('reports the line of any flipped bit', async () => {
  const bytes = Buffer.from((await usedFolder()).text)
  for (const at of positions(bytes)) {
    const line = bytes.subarray(0, at).filter((byte) => byte === 0x0a).length + 1
    for (const bit of [0x01, 0x20]) {
      const damaged = Buffer.from(bytes)
      damaged[at] = (damaged[at] ?? 0) ^ bit
      const error = await refusalOf(damaged, bytes.length)
      expect(error, `byte ${at}, bit ${bit}`).not.toBeNull()
      // A damaged header can also look like a file of another program.
      if (line === 1) continue
      expect([error?.code, error?.message]).toEqual(['EXPORT_DAMAGED', expect.any(String)])
      // A damaged line break joins two lines or leaves the last line incomplete, so the next line may be reported.
      const found = error?.finding?.line ?? 0
      expect([line, line + 1], `byte ${at}: ${error?.message}`).toContain(found)
    }
  }
})

it('rejects an export that was truncated anywhere, compressed or not', async () => {
  const bytes = Buffer.from((await usedFolder()).text)
  for (const length of positions(bytes)) {
    const error = await refusalOf(bytes.subarray(0, length), bytes.length)
    expect(error, `cut to ${length} bytes`).not.toBeNull()
  }
  const packed = gzipSync(bytes)
  for (const length of positions(packed, 2)) {
    expect(await refusalOf(packed.subarray(0, length)), `cut to ${length} bytes`).not.toBeNull()
  }
})

it('reports swapped, missing, repeated and added lines, and converted line ends', async () => {
  const lines = (await usedFolder()).text.trimEnd().split('\n')
  const [header = '', one = '', two = '', ...rest] = lines
  const findings = await Promise.all(
    [
      [header, two, one, ...rest],
      [header, one, ...rest],
      [header, one, one, two, ...rest],
      [...lines, ''],
      [...lines, one],
      [header, ...rest.slice(-1)],
      [...lines.slice(0, -2), ...lines.slice(-1)],
      [header],
      lines.map((line) => `${line}\r`),
    ].map(async (changed) => {
      const { finding } = (await refusalOf(Buffer.from(`${changed.join('\n')}\n`))) ?? {}
      return [finding?.line, finding?.what]
    }),
  )
  expect(findings).toEqual([
    [2, 'a block of height 0 is expected here'],
    [3, 'a block of height 1 is expected here'],
    [3, 'a block of height 1 is expected here'],
    [7, 'there is data after the end line'],
    [7, 'there is data after the end line'],
    [2, 'the header announces 4 blocks, but there are 0'],
    [5, 'the header announces 4 blocks, but there are 3'],
    [2, 'the end line is missing: the file is truncated'],
    [1, 'the lines end with CR LF: convert the line ends to LF'],
  ])
})

it('rejects a file of another program with EXPORT_FOREIGN, and an export of a newer daicho with EXPORT_TOO_NEW', async () => {
  const code = async (text: string) => (await refusalOf(Buffer.from(text)))?.code
  expect(await code('')).toBe('EXPORT_FOREIGN')
  expect(await code('hello\n')).toBe('EXPORT_FOREIGN')
  expect(await code('{"daicho":"export"}\n')).toBe('EXPORT_FOREIGN')
  const header = { version: 2, serverId: 5, size: 0, headId: null, publicKey: null }
  expect(await code(`${headerLine(header)}\nwhatever\n`)).toBe('EXPORT_TOO_NEW')
})

/** Returns the export of a chain with correct hashes, which anyone can compute, but with any entries. */
function forged(serverId: number, ...blocks: Entry[][]): Buffer {
  let head: Head | null = null
  let entries = 0
  const lines = blocks.map((body) => {
    const block: Block = sealBlock(head, {
      serverId,
      entries: body.map((entry) => canonicalJson(entry)),
      timestamps: body.map(() => 1),
      blinds: randomBytes(body.length * 32),
    })
    head = toHead(block)
    entries += body.length
    return provenBlockJson(block)
  })
  const headId = (head as Head | null)?.id ?? null
  const header = { version: 1, serverId, size: blocks.length, headId, publicKey: null }
  const end = endLine({ blocks: blocks.length, entries, headId })
  return Buffer.from(`${[headerLine(header), ...lines, end].join('\n')}\n`)
}

it('rejects a chain with correct hashes if it contains an entry that a node could not have made', async () => {
  const serverid = 7
  const created: Entry = { serverid, method: 'create_db', db: 'fruit' }
  const findingOf = async (entry: Entry) =>
    (await refusalOf(forged(serverid, [created], [created, entry])))?.finding
  expect(await findingOf({ ...created, serverid: 8 })).toEqual({
    line: 3,
    height: 1,
    index: 1,
    what: 'the entry has another server id',
  })
  // Control characters, reserved names and slashes are not allowed in names.
  expect(await findingOf({ ...created, db: 'a\nX\na' })).toMatchObject({ line: 3, index: 1 })
  expect(await findingOf({ ...created, db: 'ledgers' })).toMatchObject({ line: 3, index: 1 })
  expect(
    await findingOf({ serverid, method: 'create_item', db: 'fruit', item: { id: '../x' } }),
  ).toMatchObject({ line: 3, index: 1 })
  const attachment = { content_type: 'a/b', length: 1, name: 'a/\0', sha256: 'a'.repeat(64) }
  expect(
    await findingOf({ serverid, method: 'create_attachment', db: 'fruit', id: 'x', attachment }),
  ).toMatchObject({ line: 3, index: 1, what: expect.stringContaining('name of an attachment') })
  const nonsense = { ...created, more: 1 } as Entry
  expect(await findingOf(nonsense)).toMatchObject({ index: 1, what: 'it is not an entry' })
})

it('rejects the import of a chain with an impossible change, and leaves the folder unchanged', async () => {
  const folder = temporaryFolder()
  const { serverId: serverid } = openNodeKey(folder, true)
  const before = readdirSync(folder)
  const fig: Entry = { serverid, method: 'create_item', db: 'fruit', item: { id: 'fig' } }
  const chain = forged(serverid, [{ serverid, method: 'create_db', db: 'fruit' }, fig], [fig])
  const imported = importExport({ folder, chunks: chunksOf(chain), progress: noProgress })
  await expect(imported).rejects.toMatchObject({
    code: 'EXPORT_DAMAGED',
    message: 'line 3, height 1, entry 0: create_item does not apply to item fig of fruit',
  })
  expect(readdirSync(folder).filter((name) => name !== 'ledger.lock')).toEqual(before)
})

it('rejects a deeply nested line without crashing', async () => {
  const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`
  const { text } = await usedFolder()
  const [header = '', ...rest] = text.split('\n')
  for (const line of [deep, rest[1]?.replace('"🍎\\n"', () => deep) ?? '']) {
    const error = await refusalOf(Buffer.from([header, rest[0], line, ...rest.slice(2)].join('\n')))
    expect(error?.finding?.line).toBe(3)
  }
})

it('imports a chain into files that only the owner can read, and the node continues the chain', async () => {
  const { folder, text } = await usedFolder()
  const target = temporaryFolder()
  const key = findNodeKey(folder)?.privateKey.export({ format: 'pem', type: 'pkcs8' }) ?? ''
  writeFileSync(join(target, 'node.key'), key, { mode: 0o600 })
  // Creates leftovers of an interrupted import, which the import must ignore.
  mkdirSync(join(target, 'import.partial'))
  writeFileSync(join(target, 'import.partial', 'ledger.db'), 'half')

  const seen: number[] = []
  const done = await importExport({
    folder: target,
    chunks: chunksOf(Buffer.from(text)),
    progress: ({ entries }) => seen.push(entries),
  })
  expect(done).toMatchObject({ blocks: 4, entries: 5, size: 4 })
  expect(seen.at(-1)).toBe(5)
  expect(readdirSync(target).sort()).toEqual([
    'ledger.db',
    'ledger.lock',
    'node.key',
    'signed-head',
  ])
  expect(await verifyFolder(target)).toMatchObject({
    finding: null,
    blocks: 4,
    headId: done.headId,
  })
  expect(await exportOf(target)).toBe(text)

  const node = await startLedgerNode({ folder: target, clock: new HandClock(1_900_000_000_000) })
  expect((await node.send('POST', '/api/fruit', { id: 'pear' })).status).toBe(200)
  await node.close()
  expect(await verifyFolder(target)).toMatchObject({ finding: null, blocks: 5 })
})

it('imports only into a folder with the key of the chain and without a store or a WAL', async () => {
  const { folder, text } = await usedFolder()
  const codeIn = async (target: string) => {
    const chunks = chunksOf(Buffer.from(text))
    try {
      await importExport({ folder: target, chunks, progress: noProgress })
      return 'imported'
    } catch (error) {
      return (error as { code: string }).code
    }
  }
  const other = temporaryFolder()
  expect(await codeIn(other)).toBe('IMPORT_WITHOUT_KEY')
  openNodeKey(other, true)
  expect(await codeIn(other)).toBe('IMPORT_WITHOUT_KEY')
  expect(existsSync(join(other, 'ledger.db'))).toBe(false)
  writeFileSync(join(other, 'ledger.db-wal'), 'x')
  expect(await codeIn(other)).toBe('IMPORT_OVER_STORE')
  const node = await startLedgerNode({ folder })
  await node.send('POST', '/api/later')
  await node.close()
  expect(await codeIn(folder)).toBe('IMPORT_OVER_STORE')
})

it('verifies the store if the export is imported again', async () => {
  const { folder, text } = await usedFolder()
  const target = temporaryFolder()
  cpSync(join(folder, 'node.key'), join(target, 'node.key'))
  const run = () =>
    importExport({ folder: target, chunks: chunksOf(Buffer.from(text)), progress: noProgress })
  const first = await run()
  expect(await run()).toEqual(first)
  tamper(target, 'DELETE FROM items')
  await expect(run()).rejects.toMatchObject({ code: 'RESTORE_REFUSED' })
})

it('rejects the export of a damaged chain', async () => {
  const { folder } = await usedFolder()
  tamper(folder, `UPDATE blocks SET body = replace(body, 'plum', 'plus') WHERE height = 1`)
  await expect(exportOf(folder)).rejects.toMatchObject({
    code: 'CHAIN_DAMAGED',
    message: expect.stringContaining('height 1, entry 1'),
  })
})

it('rejects the export of an erased entry if no other entry erases it', async () => {
  const { folder } = await usedFolder()
  const node = await startLedgerNode({ folder })
  expect((await node.send('POST', '/api/fruit/plum/erase')).status).toBe(200)
  await node.close()
  expect(await refusalOf(Buffer.from(await exportOf(folder)))).toBeNull()
  tamper(folder, 'DELETE FROM erasures')
  await expect(exportOf(folder)).rejects.toMatchObject({
    code: 'CHAIN_DAMAGED',
    message:
      'the chain does not verify at height 1, entry 1: the entry has no blind, but no other entry erases it',
  })
})

it('rejects an export during which an entry is erased, because the export does not contain the erasure', async () => {
  const { folder } = await usedFolder()
  const node = await startLedgerNode({ folder })
  const store = await openStoreReader(folder, { frozen: false })
  onTestFinished(async () => {
    await store.close()
    await node.close()
  })
  const lines = exportLines(store, folder, noProgress)
  // The export covers the blocks at the time of its first line.
  await lines.next()
  expect((await node.send('POST', '/api/fruit/plum/erase')).status).toBe(200)
  store.refresh()
  await expect(lines.next()).rejects.toMatchObject({
    code: 'CHAIN_DAMAGED',
    message:
      'the chain does not verify at height 1, entry 1: the entry was erased during the export; export again',
  })
})

it('rejects an import into a folder whose signed head is damaged or has more blocks, and leaves the folder unchanged', async () => {
  const { folder, text } = await usedFolder()
  const node = await startLedgerNode({ folder })
  await node.send('POST', '/api/more')
  await node.close()
  const target = temporaryFolder()
  cpSync(join(folder, 'node.key'), join(target, 'node.key'))
  const importing = async () => {
    const chunks = chunksOf(Buffer.from(text))
    await importExport({ folder: target, chunks, progress: noProgress })
  }
  writeFileSync(join(target, 'signed-head'), 'damaged')
  await expect(importing()).rejects.toMatchObject({ code: 'LOG_HEAD_DAMAGED' })
  cpSync(join(folder, 'signed-head'), join(target, 'signed-head'))
  await expect(importing()).rejects.toMatchObject({ code: 'STORE_ROLLED_BACK' })
  expect(readdirSync(target).toSorted()).toEqual(['ledger.lock', 'node.key', 'signed-head'])
})
