import { expect, it } from 'vitest'
import { runHere } from '../../../test/support/command.ts'
import { temporaryFolder } from '../../../test/support/ledger-node.ts'
import { addUser, usersInFolder } from '../../sample-api/index.ts'
import { hashPassword } from '../../tokens/index.ts'
import { userCommand } from './user.ts'

it('lists who may log in and who is an administrator, and never a password', async () => {
  const folder = temporaryFolder()
  const list = async (...flags: string[]) =>
    (await runHere(userCommand(), ['list', ...flags], { SYSTEM_FOLDER: folder })).stdout
  expect([await list(), await list('--json')]).toEqual(['', '[]\n'])
  const users = await usersInFolder(folder)
  const passwordHash = await hashPassword('brass: key')
  for (const [name, admin] of [
    ['ann', true],
    ['ben', false],
  ] as const) {
    await users.change((all) => addUser(all, { name, admin, passwordHash, since: 0 }))
  }
  expect(await list()).toBe('ann (admin)\nben\n')
  expect(await list('--json')).toBe('[{"name":"ann","admin":true},{"name":"ben","admin":false}]\n')
})
