// Tests that a restore can be repeated after each of its steps.
import { hash } from 'node:crypto'
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import {
  type LedgerNode,
  startLedgerNode,
  temporaryFolder,
} from '../../../test/support/ledger-node.ts'
import { tamper } from '../../../test/support/tampered.ts'
import { systemClock } from '../../base/clock.ts'
import { PeerClient } from './peer-client.ts'
import { type RestoreSource, restoreChain } from './restore.ts'

async function nodeWith(folder: string, databases: number): Promise<LedgerNode> {
  const node = await startLedgerNode({ folder })
  onTestFinished(() => node.close())
  for (let n = 0; n < databases; n += 1) {
    await node.send('POST', `/api/db${n}`, n === 0 ? undefined : { id: 'a' })
  }
  const { blocks } = await node.service.read.chainSize()
  await node.service.log.consistency(0, blocks)
  return node
}

function restore(node: LedgerNode, folder: string, vkey: string | null, spoil = {}) {
  const { serverId } = node.service
  const source = new PeerClient({ url: node.url, serverId, allowPrivate: true })
  const spoiled: RestoreSource = {
    checkpoint: () => source.checkpoint(),
    blocks: (from, limit) => source.blocks(from, limit),
    consistency: (from, to) => source.consistency(from, to),
    tile: (tile) => source.tile(tile),
    blob: (sha256, from, length) => source.blob(sha256, from, length),
    ...spoil,
  }
  return restoreChain({
    ...{ folder, serverId, vkey, threads: 1, clock: systemClock },
    source: () => spoiled,
    progress: () => {},
  })
}

/** Writes other bytes in the place of a blob with the bytes of `text`, in the folder `attachments`. Returns the path. */
function writeWrong(attachments: string, text: string): string {
  const sha256 = hash('sha256', text)
  mkdirSync(join(attachments, sha256.slice(0, 2)), { recursive: true })
  const path = join(attachments, sha256.slice(0, 2), sha256.slice(2))
  writeFileSync(path, '?'.repeat(text.length))
  return path
}

it.each([0, 1])(
  'restores a chain of %i blocks under a new key, and can be repeated',
  async (size) => {
    const node = await nodeWith(temporaryFolder(), size)
    const folder = temporaryFolder()
    const vkey = node.service.log.verifierKey
    const first = await restore(node, folder, vkey)
    expect(first).toMatchObject({ own: { blocks: size, finding: null } })
    expect(await restore(node, folder, vkey)).toEqual(first)
  },
)

it('restores under a new key all attachments but the one whose file cannot be read', async () => {
  const node = await nodeWith(temporaryFolder(), 1)
  await node.send('POST', '/api/db0', { id: 'a' })
  for (const name of ['x', 'y']) {
    await node.send('PUT', `/api/db0/a/attachments/${name}`, name, { 'content-type': 'a/b' })
  }
  await node.service.log.consistency(0, 4)
  const { serverId, log } = node.service
  const folder = temporaryFolder()
  const sha256 = hash('sha256', 'x')
  const attachments = join(folder, 'mirrors', `${serverId}`, 'attachments')
  mkdirSync(join(attachments, sha256.slice(0, 2), sha256.slice(2)), { recursive: true })
  // Other bytes of the same length are replaced.
  const wrong = [attachments, join(folder, 'attachments')].map((path) => writeWrong(path, 'y'))
  expect(await restore(node, folder, log.verifierKey)).toMatchObject({
    own: { items: 1, finding: null },
    absent: 1,
  })
  expect(wrong.map((path) => readFileSync(path, 'utf8'))).toEqual(['y', 'y'])
})

it('reports a store that was damaged after the restore, and does not call it valid', async () => {
  const ownFolder = temporaryFolder()
  const node = await nodeWith(ownFolder, 1)
  await node.send('POST', '/api/db0', { id: 'fig' })
  await node.service.log.consistency(0, 2)
  const [withKey, withoutKey] = [temporaryFolder(), temporaryFolder()]
  copyFileSync(join(ownFolder, 'node.key'), join(withKey, 'node.key'))
  for (const [folder, vkey] of [
    [withKey, null],
    [withoutKey, node.service.log.verifierKey],
  ] as const) {
    await restore(node, folder, vkey)
    tamper(folder, `UPDATE items SET item = replace(item, 'fig', 'fog')`)
    await expect(restore(node, folder, vkey)).rejects.toMatchObject({ code: 'RESTORE_REFUSED' })
  }
})

it('a restore has the whole store in place if the source fails while attachments are fetched', async () => {
  const ownFolder = temporaryFolder()
  const node = await nodeWith(ownFolder, 1)
  await node.send('POST', '/api/db0', { id: 'a' })
  const type = { 'content-type': 'a/b' }
  for (let n = 0; n < 9; n += 1) {
    await node.send('PUT', `/api/db0/a/attachments/${n}`, `${n}`, type)
  }
  await node.service.log.consistency(0, 11)
  const folder = temporaryFolder()
  copyFileSync(join(ownFolder, 'node.key'), join(folder, 'node.key'))
  const cut = () => Promise.reject(new Error('cut'))
  await expect(restore(node, folder, null, { blob: cut })).rejects.toThrow('cut')
  expect(existsSync(join(folder, 'ledger.db'))).toBe(true)
  expect(await restore(node, folder, null)).toMatchObject({ own: { blocks: 11 }, absent: 0 })
  // Nor does a side folder of a killed restore prevent the next one.
  mkdirSync(join(folder, 'restore.partial'))
  const wrong = writeWrong(join(folder, 'attachments'), '3')
  expect(await restore(node, folder, null)).toMatchObject({ own: { blocks: 11 }, absent: 0 })
  expect(existsSync(join(folder, 'restore.partial'))).toBe(false)
  expect(readFileSync(wrong, 'utf8')).toBe('3')
})

it('a restored store has every entry that erased another, also of items that are erased during the restore', async () => {
  const ownFolder = temporaryFolder()
  const node = await nodeWith(ownFolder, 1)
  await node.send('POST', '/api/db0', { id: 'a', text: 'former' })
  await node.send('PATCH', '/api/db0/a', { text: 'current' })
  await node.service.log.consistency(0, 3)
  const source = new PeerClient({
    url: node.url,
    serverId: node.service.serverId,
    allowPrivate: true,
  })
  let isErased = false
  const blocks = async (from: number, limit: number) => {
    if (!isErased) await node.send('POST', '/api/db0/a/erase', {})
    isErased = true
    // As in a mirror, all blocks that the source shows are signed.
    await node.service.log.consistency(0, 4)
    return source.blocks(from, limit)
  }
  const [withKey, withoutKey] = [temporaryFolder(), temporaryFolder()]
  copyFileSync(join(ownFolder, 'node.key'), join(withKey, 'node.key'))
  expect(await restore(node, withKey, null, { blocks })).toMatchObject({ own: { blocks: 4 } })
  const mirrored = { blocks: 4, finding: null }
  expect(await restore(node, withoutKey, node.service.log.verifierKey)).toMatchObject({ mirrored })
})

it('a restore ends, and leaves out nothing, if the connection is lost while one attachment is fetched', async () => {
  const ownFolder = temporaryFolder()
  const node = await nodeWith(ownFolder, 1)
  await node.send('POST', '/api/db0', { id: 'a' })
  await node.send('PUT', '/api/db0/a/attachments/x', 'x', { 'content-type': 'a/b' })
  await node.service.log.consistency(0, 3)
  const [withKey, withoutKey] = [temporaryFolder(), temporaryFolder()]
  copyFileSync(join(ownFolder, 'node.key'), join(withKey, 'node.key'))
  for (const [folder, vkey] of [
    [withKey, null],
    [withoutKey, node.service.log.verifierKey],
  ] as const) {
    const cut = () => Promise.reject(new Error('cut'))
    await expect(restore(node, folder, vkey, { blob: cut })).rejects.toThrow('cut')
    expect(await restore(node, folder, vkey)).toMatchObject({ absent: 0 })
  }
})
