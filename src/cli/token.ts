import { Command } from 'commander'
import { systemClock } from '../base/clock.ts'
import { openTokens, type TokenService } from '../tokens/index.ts'
import { EXIT } from './exit.ts'
import { EXITS_OF_FILES, exitingWith, nodeFolder } from './node-folder.ts'
import { readSettings } from './settings.ts'

const EXITS = {
  ...EXITS_OF_FILES,
  TOKEN_ID_MALFORMED: EXIT.usage,
  SECRET_TOO_SHORT: EXIT.configuration,
  KEYS_FIXED: EXIT.configuration,
  KEY_RING_FULL: EXIT.finding,
  REVOCATIONS_FULL: EXIT.finding,
} as const

/** `daicho token`. */
export function tokenCommand(): Command {
  const command = new Command('token').description(
    'tokens of the node in SYSTEM_FOLDER; a running node sees changes at once',
  )
  command
    .command('revoke')
    .description('void one token')
    .argument('<jti>', 'its id: the claim jti, also logged when it was issued')
    .action((jti: string) =>
      withTokens(async (tokens) => {
        await tokens.revoke(jti)
        return `revoked ${jti}`
      }),
    )
  command
    .command('keys')
    .description('the keys that sign tokens')
    .command('rotate')
    .description('sign by a new key; tokens signed before stay valid until they expire')
    .option('--drop-old', 'drop the old keys, which voids every token there is')
    .action((flags: { dropOld?: boolean }) =>
      withTokens(async (tokens) => {
        const dropOld = flags.dropOld === true
        const kid = await tokens.rotate({ dropOld })
        return dropOld ? `key ${kid} is in use, alone` : `key ${kid} is in use`
      }),
    )
  return command
}

/** Runs `work` on the tokens of the node and prints what it says. */
async function withTokens(work: (tokens: TokenService) => Promise<string>): Promise<void> {
  const settings = readSettings(process.env)
  const folder = nodeFolder(settings, { mayBeNew: false })
  const said = await exitingWith(EXITS, async () =>
    work(await openTokens({ clock: systemClock, folder, secret: settings.SECRET })),
  )
  process.stdout.write(`${said}\n`)
}
