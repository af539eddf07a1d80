// Tests the commands that read and write data, on an empty chain and on a chain with deleted items.
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { runHere } from '../../../test/support/command.ts'
import { startLedgerNode, temporaryFolder } from '../../../test/support/ledger-node.ts'
import { backupCommand } from './backup.ts'
import { exportCommand } from './export.ts'
import { importCommand } from './import.ts'
import { verifyCommand } from './verify.ts'

it('backs up, exports, verifies and imports an empty chain', async () => {
  const [folder, to, target] = [temporaryFolder(), temporaryFolder(), temporaryFolder()]
  await (await startLedgerNode({ folder })).close()
  const file = join(to, 'export.jsonl')
  const outputs = [
    await runHere(verifyCommand(), [folder]),
    await runHere(backupCommand(), [folder, to, '--no-verify']),
    await runHere(exportCommand(), [folder, '--out', file]),
    await runHere(verifyCommand(), [file]),
  ]
  copyFileSync(join(folder, 'node.key'), join(target, 'node.key'))
  outputs.push(await runHere(importCommand(), [file], { SYSTEM_FOLDER: target }))
  for (const { code, stdout } of outputs)
    expect([code, stdout]).toEqual([0, expect.stringContaining('\nhead       (none)\n')])
  expect(outputs.map(({ stdout }) => stdout.split('\n')[0])).toEqual([
    'Everything is valid: 0 blocks, 0 entries, 0 databases with 0 items.',
    'Backed up: 0 blocks, not verified.',
    'Exported: 0 blocks, 0 entries.',
    'Everything is valid: 0 blocks, 0 entries, 0 databases with 0 items.',
    'Imported: 0 blocks, 0 entries; everything is valid.',
  ])
})

it('verify counts the databases and items that still exist, in a folder and in its export', async () => {
  const folder = temporaryFolder()
  const node = await startLedgerNode({ folder })
  for (const db of ['fruit', 'gone']) {
    await node.send('POST', `/api/${db}`)
    await node.send('POST', `/api/${db}`, [{ id: 'fig' }, { id: 'plum' }, { id: 'pear' }])
  }
  await node.send('DELETE', '/api/fruit/plum')
  await node.send('DELETE', '/api/gone')
  await node.close()
  const file = join(temporaryFolder(), 'export.jsonl')
  await runHere(exportCommand(), [folder, '--out', file])
  for (const target of [file, folder]) {
    const { stdout } = await runHere(verifyCommand(), [target, '--json'])
    expect(JSON.parse(stdout)).toMatchObject({ status: true, entries: 10, databases: 1, items: 2 })
  }
})
