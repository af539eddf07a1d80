import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { type LedgerNode, temporaryFolder } from './ledger-node.ts'

/** Settings of peers in tests: local addresses are allowed, and rounds are frequent. */
export const PEERS = { allowPrivate: true, intervalMs: 20 }

/** Makes the node `at` mirror the chain of the node `of`, and fetch it from `via`. */
export async function mirror(
  at: LedgerNode,
  of: LedgerNode,
  via: Pick<LedgerNode, 'url'> = of,
): Promise<void> {
  const peer = { vkey: of.service.log.verifierKey, url: via.url }
  expect((await at.send('POST', '/api/config/peers', peer)).json).toEqual({ status: true })
}

/** Returns a copy of the folder of a stopped node with the same files as a backup: the key and the store. */
export function backupOf(folder: string): string {
  const copy = temporaryFolder()
  for (const name of ['node.key', 'ledger.db']) copyFileSync(join(folder, name), join(copy, name))
  return copy
}
