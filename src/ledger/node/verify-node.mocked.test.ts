import { expect, it, vi } from 'vitest'
import { usedNodeFolder } from '../../../test/support/ledger-node.ts'
import { verifyNode } from './verify-node.ts'

vi.mock('../../storage/index.ts', async (original) => {
  const storage = await original<typeof import('../../storage/index.ts')>()
  const full = new storage.StoreError('STORE_FULL', 'the disk of the database is full')
  return { ...storage, verifyStore: () => Promise.reject(full) }
})

it('a verification that a full disk ends is unfinished, and no difference', async () => {
  const verification = verifyNode(await usedNodeFolder(), { signing: null })
  await expect(verification).rejects.toMatchObject({ code: 'STORE_FULL' })
})
