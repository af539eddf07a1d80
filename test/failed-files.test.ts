// File operations that fail while a node serves. Requests get 503 with a code, and the node recovers without a
// restart.
import { createHash } from 'node:crypto'
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { type LedgerNode, startLedgerNode, temporaryFolder } from './support/ledger-node.ts'

const PATH = '/api/files/a/attachments/photo'
const BYTES = 'bytes of a photo'
const SHA256 = createHash('sha256').update(BYTES).digest('hex')

async function nodeIn(folder: string, log: string[] = []): Promise<LedgerNode> {
  const node = await startLedgerNode({ folder, log: (line) => log.push(line) })
  onTestFinished(() => node.close())
  await node.send('POST', '/api/files')
  await node.send('POST', '/api/files', { id: 'a' })
  return node
}

const put = (node: LedgerNode) => node.send('PUT', PATH, BYTES, { 'content-type': 'text/plain' })

it.each([
  ['the folder of all blobs cannot be created', 'attachments'],
  ['the folder for incoming blobs cannot be created', 'attachments/incoming'],
  ['the folder of the blob cannot be created', `attachments/${SHA256.slice(0, 2)}`],
])('rejects an upload with 503 while %s, and accepts uploads afterwards', async (_, path) => {
  const folder = temporaryFolder()
  const node = await nodeIn(folder)
  // A file at this path keeps the node from creating a folder there.
  mkdirSync(join(folder, path, '..'), { recursive: true })
  writeFileSync(join(folder, path), '')
  expect(await put(node)).toMatchObject({
    status: 503,
    json: {
      status: false,
      code: 'STORE_FAILED',
      message: expect.stringMatching(/^the disk failed: /),
    },
  })
  expect((await node.send('GET', '/api/files/a')).status).toBe(200)
  expect((await node.send('GET', PATH)).status).toBe(404)
  rmSync(join(folder, path))
  expect((await put(node)).status).toBe(200)
  expect(await fetch(node.url + PATH).then((reply) => reply.text())).toBe(BYTES)
})

it('returns 503 for an upload whose file cannot be renamed into place', async () => {
  const folder = temporaryFolder()
  const node = await nodeIn(folder)
  const place = join(folder, 'attachments', SHA256.slice(0, 2), SHA256.slice(2))
  mkdirSync(join(place, 'in the way'), { recursive: true })
  expect(await put(node)).toMatchObject({ status: 503, json: { code: 'STORE_FAILED' } })
  rmSync(place, { recursive: true })
  expect((await put(node)).status).toBe(200)
})

it('returns 503 for a download whose file cannot be opened', async () => {
  const folder = temporaryFolder()
  const log: string[] = []
  const node = await nodeIn(folder, log)
  await put(node)
  // A file in place of the blob's folder keeps the node from opening the blob.
  const start = join(folder, 'attachments', SHA256.slice(0, 2))
  renameSync(start, `${start}.kept`)
  writeFileSync(start, '')
  expect(await node.send('GET', PATH)).toMatchObject({
    status: 503,
    json: { code: 'STORE_FAILED' },
  })
  rmSync(start)
  renameSync(`${start}.kept`, start)
  expect((await fetch(node.url + PATH)).status).toBe(200)
  expect(log.map((line) => JSON.parse(line)).filter(({ level }) => level >= 50)).toMatchObject([
    { msg: 'STORE_FAILED', path: PATH },
  ])
})

it('returns 503 for a checkpoint while the signed head cannot be written, and a signed checkpoint afterwards', async () => {
  const folder = temporaryFolder()
  const node = await nodeIn(folder)
  const checkpoint = `/api/ledgers/${node.service.serverId}/checkpoint`
  mkdirSync(join(folder, 'signed-head.new'))
  expect(await node.send('GET', checkpoint)).toMatchObject({
    status: 503,
    json: { code: 'LOG_STOPPED', message: expect.stringMatching(/^nothing was signed: EISDIR/) },
  })
  rmSync(join(folder, 'signed-head.new'), { recursive: true })
  expect((await node.send('GET', checkpoint)).status).toBe(200)
})
