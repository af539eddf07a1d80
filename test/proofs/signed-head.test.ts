// Findings of `daicho verify <folder>` based on the node's last signed head.
import { copyFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { runDaicho } from '../support/daicho.ts'
import { startLedgerNode, temporaryFolder } from '../support/ledger-node.ts'

/** A node in `folder` records `items` one by one in the database `fruit`, and is closed. */
async function recorded(folder: string, items: readonly string[]): Promise<void> {
  const node = await startLedgerNode({ folder })
  await node.send('POST', '/api/fruit')
  for (const id of items) await node.send('POST', '/api/fruit', { id })
  await node.close()
}

async function found(folder: string) {
  const { code, stdout } = await runDaicho(['verify', folder, '--json'])
  return [code, JSON.parse(stdout).finding]
}
const nowhere = (what: string) => ({ height: null, index: null, what })

it('an older state of the store contradicts the last signed head', async () => {
  const folder = temporaryFolder()
  await recorded(folder, ['fig'])
  copyFileSync(join(folder, 'ledger.db'), join(folder, 'kept.db'))
  await recorded(folder, ['pear'])
  expect(await found(folder)).toEqual([0, null])
  copyFileSync(join(folder, 'kept.db'), join(folder, 'ledger.db'))
  const older =
    'the store has 2 blocks, but this node has signed 3: an older copy was restored; restore a ' +
    'copy with all signed blocks, because continuing would fork the chain'
  expect(await found(folder)).toEqual([1, nowhere(older)])
  const { stdout } = await runDaicho(['verify', folder])
  expect(stdout).toBe(`DIFFERENCE ${older}\n(2 blocks, 2 entries hold before it)\n`)
})

it('a different chain is consistent in itself, and contradicts the last signed head', async () => {
  const [folder, other] = [temporaryFolder(), temporaryFolder()]
  await recorded(folder, ['fig'])
  copyFileSync(join(folder, 'node.key'), join(other, 'node.key'))
  await recorded(other, ['pear', 'plum'])
  copyFileSync(join(other, 'ledger.db'), join(folder, 'ledger.db'))
  const another = 'the first 2 blocks of the store are not those that this node has signed'
  expect(await found(folder)).toEqual([1, nowhere(another)])
  writeFileSync(join(folder, 'signed-head'), 'no head')
  expect(await found(folder)).toEqual([1, nowhere('the file of the signed head is malformed')])
  rmSync(join(folder, 'signed-head'))
  expect(await found(folder)).toEqual([0, null])
})
