import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, it, onTestFinished } from 'vitest'
import { packPosition } from '../../chain/index.ts'
import { attachmentEraser } from '../contract/test-blobs.ts'
import { appendEntries, CONTRACT_SERVER_ID, entry } from '../contract/test-store.ts'
import { openStore, openStoreReader } from '../open.ts'
import { toEffect } from '../port/effect.ts'
import { AttachmentComparison } from './record-comparisons.ts'

const ENTRIES = [
  entry.createDb('fruit'),
  entry.create('fruit', 'a'),
  entry.attach('fruit', 'a', 'n', 'one'),
  entry.attach('fruit', 'a', 'n', 'two'),
  entry.detach('fruit', 'a', 'n', 'two'),
  entry.attach('fruit', 'a', 'n', 'three'),
]

it('requires that an attachment is erased together with its deletion, and after the attachment that it replaced', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-test-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const store = await openStore({ location: folder, serverId: CONTRACT_SERVER_ID, durable: false })
  await appendEntries(store, ENTRIES)
  await store.close()
  const findings = async (gone: readonly number[], erased: readonly number[]) => {
    const database = new DatabaseSync(join(folder, 'ledger.db'))
    const erase = attachmentEraser(database)
    for (const index of gone) erase(packPosition(0, index))
    database.close()
    const reader = await openStoreReader(folder, { frozen: true })
    const comparison = new AttachmentComparison(reader.attachments)
    const found: string[] = []
    for (const [index, one] of ENTRIES.entries()) {
      const effect = toEffect(one, packPosition(0, index))
      if (!('attachment' in effect)) continue
      if (erased.includes(index)) continue
      found.push((await comparison.entry(effect, packPosition(0, 0))) ?? '')
    }
    found.push((await comparison.end()) ?? '')
    await reader.close()
    return found.filter((finding) => finding !== '')
  }
  expect(await findings([], [])).toEqual([])
  // Without the deletion (entry 4), the chain ends one attachment, but the store has ended two.
  expect(await findings([], [4])).toEqual([
    '2 attachments are stored as replaced or deleted; the chain has 1',
  ])
  // First only the replaced attachment (entry 2) is erased, then the deleted attachment (entry 3) too.
  expect(await findings([2], [2])).toEqual([])
  expect(await findings([2], [])).toEqual(['attachment n of item a of fruit is missing'])
  expect(await findings([2, 3], [2, 3])).toEqual([
    'attachment n of item a of fruit is deleted here, but is not stored',
  ])
  expect(await findings([2, 3], [2, 3, 4])).toEqual([])
  expect(await findings([2, 3], [2, 3, 4, 5])).toEqual([
    'attachment n of item a is stored as of 0.5, but the chain has none there',
  ])
})
