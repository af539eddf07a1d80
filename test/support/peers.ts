import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { type LedgerNode, temporaryFolder } from './ledger-node.ts'

/** Peer settings of tests: local addresses and short delays. */
export const PEERS = { allowPrivate: true, intervalMs: 20 }

/** Makes `at` mirror the chain of `of`, fetched from `via`. */
export async function mirror(
  at: LedgerNode,
  of: LedgerNode,
  via: Pick<LedgerNode, 'url'> = of,
): Promise<void> {
  const peer = { vkey: of.service.log.verifierKey, url: via.url }
  expect((await at.send('POST', '/api/config/peers', peer)).json).toEqual({ status: true })
}

/** The folder of a stopped node as in a backup: its key and its store. */
export function backupOf(folder: string): string {
  const copy = temporaryFolder()
  for (const name of ['node.key', 'ledger.db']) copyFileSync(join(folder, name), join(copy, name))
  return copy
}
