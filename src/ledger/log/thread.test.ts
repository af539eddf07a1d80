// Tests that no two signed heads contradict each other, even if the process is killed between a commit and the
// publication of its signature.
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { startLedgerNode, temporaryFolder } from '../../../test/support/ledger-node.ts'
import { tamper } from '../../../test/support/tampered.ts'
import {
  type Checkpoint,
  logOrigin,
  nodeVerifySignature,
  openCheckpoint,
  openNote,
  parseCheckpoint,
  proveConsistency,
  verifyConsistency,
} from '../../chain/index.ts'
import { openStoreReader, type StoreReader } from '../../storage/index.ts'
import { findNodeKey, temporaryNodeKey } from './node-key.ts'
import { type SignedHead, signedHeadFile } from './signed-head.ts'
import { LogSigner } from './thread.ts'

const signKey = temporaryNodeKey()

/** Starts a node in a new folder. `write` adds blocks to its chain. `key` is a log key that is not the node's own. */
async function writtenFolder() {
  const folder = temporaryFolder()
  const node = await startLedgerNode({ folder })
  const { serverId } = node.service
  let made = 0
  const write = async (blocks: number) => {
    for (let n = 0; n < blocks; n += 1) {
      made += 1
      expect((await node.send('POST', `/api/db${made}`)).status).toBe(200)
    }
  }
  const verifier = { name: logOrigin(serverId), publicKey: signKey.publicKey }
  const key = { verifier, privateKey: signKey.privateKey }
  return { folder, node, write, key }
}

async function expectConsistent(store: StoreReader, heads: readonly Checkpoint[]): Promise<void> {
  store.refresh()
  const read = (nodes: Parameters<StoreReader['treeNodes']>[1]) =>
    store.treeNodes(store.serverId, nodes)
  const sorted = heads.toSorted((a, b) => a.size - b.size)
  for (const [at, head] of sorted.entries()) {
    const next = sorted[at + 1] ?? head
    const proof = await proveConsistency(head.size, next.size, read)
    expect(verifyConsistency(head, next, proof)).toBe(true)
  }
}

class Killed extends Error {}

const FAULTS: [string, boolean, (real: SignedHead, die: () => never) => SignedHead['write']][] = [
  ['before the head is stored', false, (_, die) => () => die()],
  [
    'after the head is stored, before the note is published',
    true,
    (real, die) => (note) => {
      real.write(note)
      die()
    },
  ],
]

it.each(FAULTS)(
  'contradicts no published head if the signer was killed %s',
  async (_, isKept, fault) => {
    const { folder, node, write, key } = await writtenFolder()
    const store = await openStoreReader(folder, { frozen: false })
    // The tested head is in another folder, because an idle node signs the log in its own folder.
    const real = signedHeadFile(temporaryFolder())
    const given: Checkpoint[] = []
    const give = async (note: string) =>
      given.push(await openCheckpoint(nodeVerifySignature, key.verifier, note))

    for (let round = 0; round < 5; round += 1) {
      await write(3)
      const signer = await LogSigner.open(store, real, key)
      await give((await signer.advance()).note)
      await write(2)
      const before = real.read()
      const dying = await LogSigner.open(
        store,
        {
          read: real.read,
          write: fault(real, () => {
            throw new Killed()
          }),
        },
        key,
      )
      await expect(dying.advance()).rejects.toThrow(Killed)
      expect(real.read()?.size).toBe(isKept ? 5 * round + 5 : before?.size)
      // The next signer signs the missing blocks, and another signer makes the same note for the same size.
      const whole = await LogSigner.open(store, real, key)
      const { note, size } = await whole.advance()
      expect(size).toBe(5 * round + 5)
      expect((await (await LogSigner.open(store, real, key)).advance()).note).toBe(note)
      await give(note)
    }
    await expectConsistent(store, given)
    await store.close()
    await node.close()
  },
)

it('after a kill while a head is written, the file contains the old head or the new head', async () => {
  const { folder, node, write, key } = await writtenFolder()
  const store = await openStoreReader(folder, { frozen: false })
  const folderOfHead = temporaryFolder()
  const kept = signedHeadFile(folderOfHead)
  await write(3)
  await (await LogSigner.open(store, kept, key)).advance()
  const file = join(folderOfHead, 'signed-head')
  expect(statSync(file).mode & 0o777).toBe(0o600)
  await write(2)
  // Simulates a kill before the rename: half of the new file exists next to the old file.
  writeFileSync(`${file}.new`, 'daicho/1\n5')
  expect(kept.read()?.size).toBe(3)
  expect((await (await LogSigner.open(store, kept, key)).advance()).size).toBe(5)
  expect(kept.read()?.size).toBe(5)
  expect(existsSync(`${file}.new`)).toBe(false)
  await store.close()
  await node.close()
})

it('does not sign a store in which an entry, a header or a tree node was changed', async () => {
  for (const sql of [
    "UPDATE blocks SET body = replace(body, 'db2', 'db9') WHERE height = 1",
    'UPDATE blocks SET nonce = 7 WHERE height = 2',
    'UPDATE tree SET hashes = zeroblob(32) WHERE height = 2',
    'DELETE FROM tree WHERE height = 0',
  ]) {
    const { folder, node, write, key } = await writtenFolder()
    await write(4)
    tamper(folder, sql)
    const store = await openStoreReader(folder, { frozen: false })
    const kept = signedHeadFile(temporaryFolder())
    const signer = await LogSigner.open(store, kept, key)
    await expect(signer.advance()).rejects.toMatchObject({ code: 'LOG_CONTRADICTED' })
    await expect(signer.advance()).rejects.toMatchObject({ code: 'LOG_CONTRADICTED' })
    expect(kept.read()).toBeNull()
    const path = `/api/ledgers/${node.service.serverId}/checkpoint`
    const reply = await node.send('GET', path)
    expect([sql, reply.status, reply.json.code]).toEqual([sql, 503, 'LOG_CONTRADICTED'])
    await store.close()
    await node.close()
  }
})

it('does not start with an older copy of the store, and reports the reason', async () => {
  const { folder, node, write } = await writtenFolder()
  const path = `/api/ledgers/${node.service.serverId}/checkpoint`
  await write(3)
  expect((await node.send('GET', path)).status).toBe(200)
  await node.close()
  const older = temporaryFolder()
  for (const name of readdirSync(folder)) copyFileSync(join(folder, name), join(older, name))

  const again = await startLedgerNode({ folder })
  await again.send('POST', '/api/later')
  expect((await again.send('GET', path)).status).toBe(200)
  await again.close()

  // Combines the earlier store with the current signed head.
  copyFileSync(join(older, 'ledger.db'), join(folder, 'ledger.db'))
  await expect(startLedgerNode({ folder })).rejects.toMatchObject({
    code: 'STORE_ROLLED_BACK',
    message: expect.stringContaining('the store has 3 blocks, but this node has signed 4'),
  })
  // Creates a different history of the same length.
  const head = join(folder, 'signed-head')
  rmSync(head)
  const forked = await startLedgerNode({ folder })
  await forked.send('POST', '/api/other')
  await forked.close()
  const signature = `\n— daicho/5 ${Buffer.alloc(68).toString('base64')}\n`
  const text = (id: number) => `daicho/${id}\n4\n${Buffer.alloc(32).toString('base64')}\n`
  writeFileSync(head, text(again.service.serverId) + signature)
  await expect(startLedgerNode({ folder })).rejects.toMatchObject({ code: 'LOG_CONTRADICTED' })
  writeFileSync(head, 'daicho/5\n')
  await expect(startLedgerNode({ folder })).rejects.toMatchObject({ code: 'LOG_HEAD_DAMAGED' })
  writeFileSync(head, text(again.service.serverId))
  await expect(startLedgerNode({ folder })).rejects.toMatchObject({ code: 'LOG_HEAD_DAMAGED' })
  writeFileSync(head, text(5) + signature)
  await expect(startLedgerNode({ folder })).rejects.toMatchObject({ code: 'LOG_CONTRADICTED' })
  // Without a signed head, the node accepts any history of its chain.
  rmSync(head)
  const well = await startLedgerNode({ folder })
  expect((await well.send('GET', path)).status).toBe(200)
  await well.close()
})

it.each(['copy.partial', 'import.partial', 'rebuild.partial', 'restore.partial', 'restored.json'])(
  'does not start without a store after an interrupted command has left %s, and creates no files',
  async (name) => {
    const folder = temporaryFolder()
    mkdirSync(join(folder, name))
    const { code, message } = await startLedgerNode({ folder }).catch((error) => error)
    expect([code, message]).toEqual(['STORE_ROLLED_BACK', expect.stringContaining(name)])
    expect(readdirSync(folder).sort()).toEqual([name, 'ledger.lock'].sort())
  },
)

it('does not start if the store is lost or its file is empty, and creates no files', async () => {
  const none = await writtenFolder()
  await none.node.close()
  const some = await writtenFolder()
  await some.write(2)
  await some.node.close()
  for (const [{ folder }, signed] of [
    [none, ''],
    [some, ', with 2 signed blocks'],
  ] as const) {
    const moved = join(temporaryFolder(), 'ledger.db')
    renameSync(join(folder, 'ledger.db'), moved)
    const left = readdirSync(folder)
    for (const isKeyLost of [false, true]) {
      const key = readFileSync(join(folder, 'node.key'))
      if (isKeyLost) rmSync(join(folder, 'node.key'))
      const lost = {
        code: 'STORE_ROLLED_BACK',
        message: expect.stringContaining(
          `the store of ${folder}${signed} is missing or empty: put`,
        ),
      }
      await expect(startLedgerNode({ folder })).rejects.toMatchObject(lost)
      writeFileSync(join(folder, 'ledger.db'), '')
      await expect(startLedgerNode({ folder })).rejects.toMatchObject(lost)
      rmSync(join(folder, 'ledger.db'))
      writeFileSync(join(folder, 'node.key'), key)
    }
    expect(readdirSync(folder)).toEqual(left)
    renameSync(moved, join(folder, 'ledger.db'))
    await (await startLedgerNode({ folder })).close()
  }
})

it('writes the empty head at the next start if the node was killed after creating the store', async () => {
  const { folder, node } = await writtenFolder()
  await node.close()
  const kept = signedHeadFile(folder)
  const head = readFileSync(join(folder, 'signed-head'), 'utf8')
  const publicKey = findNodeKey(folder)?.publicKey ?? new Uint8Array()
  const key = { name: logOrigin(node.service.serverId), publicKey }
  expect(await openNote(nodeVerifySignature, key, head)).toBe(
    `daicho/${node.service.serverId}\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n`,
  )
  rmSync(join(folder, 'signed-head'))
  const again = await startLedgerNode({ folder })
  expect(readFileSync(join(folder, 'signed-head'), 'utf8')).toBe(head)
  await again.close()
  expect(kept.read()?.size).toBe(0)
})

it('signs the last writes when the node closes, so that an older store is detected later', async () => {
  const { folder, node, write } = await writtenFolder()
  await write(1)
  await node.close()
  const older = readFileSync(join(folder, 'ledger.db'))
  expect(signedHeadFile(folder).read()?.size).toBe(1)
  const again = await startLedgerNode({ folder })
  expect((await again.send('POST', '/api/later')).status).toBe(200)
  // Closes the node immediately, so no head was signed on request or when idle.
  await again.close()
  expect(signedHeadFile(folder).read()?.size).toBe(2)
  writeFileSync(join(folder, 'ledger.db'), older)
  await expect(startLedgerNode({ folder })).rejects.toMatchObject({
    code: 'STORE_ROLLED_BACK',
    message: expect.stringContaining('the store has 1 blocks, but this node has signed 2'),
  })
})

it('does not sign an invalid store when the node closes', async () => {
  const { folder, node, write } = await writtenFolder()
  await write(3)
  tamper(folder, 'UPDATE blocks SET nonce = 7 WHERE height = 1')
  await node.close()
  expect(signedHeadFile(folder).read()?.size).toBe(0)
})

it('signs heads under load with pauses in between, and each head continues the previous head', async () => {
  const { folder, node, write } = await writtenFolder()
  const heads = new Map<string, Checkpoint>()
  let writing = true
  const readers = Array.from({ length: 4 }, async () => {
    while (writing) {
      const reply = await node.send('GET', `/api/ledgers/${node.service.serverId}/checkpoint`)
      expect(reply.status).toBe(200)
      heads.set(reply.text, parseCheckpoint(reply.text.slice(0, reply.text.indexOf('\n\n') + 1)))
    }
  })
  let blocks = 0
  // Writes until there are two heads, because on a fast computer one pause is longer than many writes.
  do {
    await write(150)
    blocks += 150
  } while (heads.size < 2 && blocks < 6_000)
  writing = false
  await Promise.all(readers)
  const sizes = [...heads.values()].map(({ size }) => size)
  expect(new Set(sizes).size).toBe(sizes.length)
  expect(sizes.length).toBeGreaterThan(1)
  expect(sizes.length).toBeLessThan(blocks)
  const store = await openStoreReader(folder, { frozen: false })
  await expectConsistent(store, [...heads.values()])
  await store.close()
  await node.close()
})

it('throws if the signed head cannot be read, instead of treating it as missing', () => {
  const folder = temporaryFolder()
  expect(signedHeadFile(folder).read()).toBeNull()
  // Reading a symbolic link to itself fails, as on a failing disk.
  symlinkSync('signed-head', join(folder, 'signed-head'))
  expect(() => signedHeadFile(folder).read()).toThrow('ELOOP')
})
