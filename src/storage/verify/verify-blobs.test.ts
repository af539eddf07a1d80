import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import type { BlobInventory } from '../blobs/blob-store.ts'
import { appendEntries, CONTRACT_SERVER_ID, entry } from '../contract/test-store.ts'
import { openStore } from '../open.ts'
import { verifyBlobFiles } from './verify-blobs.ts'

const CONTENT = Buffer.from('ripe')

/** Verifies a store that names one blob; `missing` says how often the blob is missing at first. */
async function findingIf(missing: number): Promise<string | undefined> {
  const location = mkdtempSync(join(tmpdir(), 'daicho-test-'))
  const store = await openStore({ location, serverId: CONTRACT_SERVER_ID, durable: false })
  onTestFinished(async () => {
    await store.close()
    rmSync(location, { recursive: true })
  })
  const attached = entry.attach('fruit', 'fig', 'label', CONTENT.toString())
  await appendEntries(store, [entry.createDb('fruit'), entry.create('fruit', 'fig'), attached])
  let checks = 0
  const inventory: BlobInventory = {
    async open() {
      checks += 1
      if (checks <= missing) return null
      const read = async (target: Uint8Array, at: number) => {
        const bytes = CONTENT.subarray(at)
        target.set(bytes)
        return bytes.length
      }
      return { length: CONTENT.length, read, close: async () => {} }
    },
    async *list() {},
    mayBeUnnamed: async () => false,
    close: async () => {},
  }
  const { finding } = await verifyBlobFiles(inventory, store, location, {})
  return finding?.what
}

it('accepts a blob that was erased and uploaded again during the verification', async () => {
  expect(await findingIf(1)).toBeUndefined()
})

it('reports a blob that stays missing', async () => {
  expect(await findingIf(9)).toMatch(/^blob \w+ is missing$/)
})
