import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { runHere } from '../../../test/support/command.ts'
import { temporaryFolder } from '../../../test/support/ledger-node.ts'
import { tokenCommand } from './token.ts'

it('revokes no token in the folder of a node whose data are in a database, unless STORE is set', async () => {
  const folder = temporaryFolder()
  writeFileSync(join(folder, 'signed-head'), '')
  const revoke = ['revoke', '01a21a0f-31ef-75f4-9df4-ab1cd5c45495', '--folder', folder]
  const refused = await runHere(tokenCommand(), revoke)
  expect([refused.code, refused.stdout]).toEqual([78, ''])
  expect(refused.stderr).toContain('set STORE to the database of the node')
  writeFileSync(join(folder, 'ledger.db'), '')
  expect(await runHere(tokenCommand(), revoke)).toMatchObject({ code: 0 })
})

it('revokes no token with SECRET alone, because a node keeps its revocations in its folder', async () => {
  const variables = { SECRET: 'a secret of at least thirty-two characters' }
  const revoke = ['revoke', '01a21a0f-31ef-75f4-9df4-ab1cd5c45495']
  const refused = await runHere(tokenCommand(), revoke, variables)
  expect([refused.code, refused.stdout]).toEqual([78, ''])
  expect(refused.stderr).toContain('set the folder of the node with --folder or SYSTEM_FOLDER')
})
