import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { type LedgerNode, temporaryFolder } from './ledger-node.ts'

/** How nodes of tests mirror others: on this machine, and soon. */
export const PEERS = { allowPrivate: true, intervalMs: 20 }

/** Makes `at` mirror the chain of `of`, fetched from `via`. */
export async function mirror(at: LedgerNode, of: LedgerNode, via = of): Promise<void> {
  const peer = { vkey: of.service.log.verifierKey, url: via.url }
  expect((await at.send('POST', '/api/config/peers', peer)).json).toEqual({ status: true })
}

/** The folder of a node that is stopped as a backup has it: its key, and what it had stored. */
export function backupOf(folder: string): string {
  const copy = temporaryFolder()
  for (const name of ['node.key', 'ledger.db']) copyFileSync(join(folder, name), join(copy, name))
  return copy
}
