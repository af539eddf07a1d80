import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import type { Entry } from '../../chain/index.ts'
import { openStore, openStoreReader } from '../open.ts'
import type { Finding } from '../verify/chain-walk.ts'
import { verifyStore } from '../verify/verify.ts'
import { appendEntries, CONTRACT_SERVER_ID, entry } from './test-store.ts'

export async function filledFolder(also: readonly Entry[] = []): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-test-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  await fillStore(folder, also)
  return folder
}

/** Creates a chain with every kind of entry, and a deleted database that is not purged yet. */
export async function fillStore(location: string, also: readonly Entry[] = []): Promise<void> {
  const store = await openStore({ location, serverId: CONTRACT_SERVER_ID, durable: false })
  await appendEntries(
    store,
    [entry.createDb('gone'), entry.create('gone', 'x'), entry.update('gone', 'x')],
    1_000,
  )
  await store.addIndex('gone', 'n')
  await appendEntries(
    store,
    [entry.createDb('fruit'), entry.create('fruit', 'a'), entry.create('fruit', 'b')],
    2_000,
  )
  await appendEntries(
    store,
    [entry.update('fruit', 'a', 'changed'), entry.create('fruit', 'c', [1, 2])],
    2_000,
    [{ key: 'aa'.repeat(32), fingerprint: 'bb'.repeat(32), index: 1, entries: 1 }],
  )
  await store.addIndex('fruit', 'n')
  while (await store.maintain());
  await appendEntries(
    store,
    [entry.remove('fruit', 'b'), entry.deleteDb('gone'), entry.createDb('veg')],
    3_000,
  )
  await appendEntries(store, [entry.create('veg', 'd'), entry.create('fruit', 'b', 'again')], 4_000)
  await appendEntries(
    store,
    [
      entry.attach('fruit', 'a', 'kept', 'one'),
      entry.attach('fruit', 'a', 'replaced', 'two'),
      entry.attach('fruit', 'a', 'replaced', 'three'),
      entry.attach('fruit', 'c', 'deleted', 'one'),
      entry.detach('fruit', 'c', 'deleted', 'one'),
      entry.attach('fruit', 'c', 'deleted', 'again'),
      ...also,
    ],
    5_000,
  )
  // Now the store has an index that is not built yet, a complete index, and an index of a deleted database.
  await store.addIndex('veg', 'n')
  await store.close()
}

/** An entry that erases the first revision of item a of fruit. */
export const ERASING = [entry.erase('fruit', 'a', ['1.1'])]

export async function findingIn(location: string): Promise<Finding | null> {
  const store = await openStoreReader(location, { frozen: true })
  try {
    return (await verifyStore(store)).finding
  } finally {
    await store.close()
  }
}
