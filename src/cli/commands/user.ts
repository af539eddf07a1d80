import { Command } from 'commander'
import { systemClock } from '../../base/clock.ts'
import {
  addUser,
  changePassword,
  removeUser,
  type Users,
  usersInFolder,
} from '../../sample-api/index.ts'
import { hashPassword, type SharedValue } from '../../tokens/index.ts'
import { EXIT } from '../exit.ts'
import { EXITS_OF_FILES, exitingWith, nodeFolder } from '../node-folder.ts'
import { readSettings } from '../settings.ts'
import { readNewPassword } from './password-prompt.ts'

const EXITS = {
  ...EXITS_OF_FILES,
  USER_NAME_UNUSABLE: EXIT.usage,
  PASSWORD_UNUSABLE: EXIT.usage,
  USER_EXISTS: EXIT.finding,
  USER_UNKNOWN: EXIT.finding,
  USERS_FULL: EXIT.finding,
} as const

const NO_PASSWORD = { passwordHash: '', since: 0 } as const

/** `daicho user`. */
export function userCommand(): Command {
  const command = new Command('user')
  const about = 'password: typed without echo, or the first line of standard input'
  command
    .command('add')
    .description(`add a user; ${about}`)
    .argument('<name>')
    .option('--admin', 'mark the user as an administrator')
    .action((name: string, flags: { admin?: boolean }) =>
      change(
        async (users) => {
          // Tried without a password first: nobody should type one for nothing.
          addUser(users.current(), { name, ...NO_PASSWORD, admin: false })
          const passwordHash = await hashPassword(
            await readNewPassword(process.stdin, process.stderr),
          )
          const since = systemClock.now()
          const user = { name, passwordHash, admin: flags.admin === true, since }
          await users.change((list) => addUser(list, user))
          return `added ${name}`
        },
        { mayBeNew: true },
      ),
    )
  command
    .command('passwd')
    .description(`change a password, which ends the user's sessions; ${about}`)
    .argument('<name>')
    .action((name: string) =>
      change(async (users) => {
        changePassword(users.current(), name, NO_PASSWORD)
        const passwordHash = await hashPassword(
          await readNewPassword(process.stdin, process.stderr),
        )
        const since = systemClock.now()
        await users.change((list) => changePassword(list, name, { passwordHash, since }))
        return `changed the password of ${name}`
      }),
    )
  command
    .command('remove')
    .description("remove a user, which ends the user's sessions")
    .argument('<name>')
    .action((name: string) =>
      change(async (users) => {
        await users.change((list) => removeUser(list, name))
        return `removed ${name}`
      }),
    )
  command
    .command('list')
    .description('list the users; passwords are kept as hashes and never shown')
    .option('--json', 'print them as one line of JSON')
    .action((flags: { json?: boolean }) =>
      change(async (users) => {
        const shown = users.current().map(({ name, admin }) => ({ name, admin }))
        if (flags.json === true) return JSON.stringify(shown)
        return shown.map(({ name, admin }) => (admin ? `${name} (admin)` : name)).join('\n')
      }),
    )
  return command
}

/** Runs `work` on the users of the node and prints what it says. */
async function change(
  work: (users: SharedValue<Users>) => Promise<string>,
  { mayBeNew } = { mayBeNew: false },
): Promise<void> {
  const folder = nodeFolder(readSettings(process.env), { mayBeNew })
  const said = await exitingWith(EXITS, () => work(usersInFolder(folder)))
  if (said !== '') process.stdout.write(`${said}\n`)
}
