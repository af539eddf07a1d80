import { Command, InvalidArgumentError, Option } from 'commander'
import { systemClock } from '../../base/clock.ts'
import { isSubject, issueApiToken, openTokens, type TokenService } from '../../tokens/index.ts'
import { EXIT } from '../exit.ts'
import { EXITS_OF_FILES, exitingWith, nodeFolder } from '../node-folder.ts'
import { DURATION_EXPECTED, durationOf, readSettings, type Settings } from '../settings.ts'

const EXITS = {
  ...EXITS_OF_FILES,
  TOKEN_ID_MALFORMED: EXIT.usage,
  SCOPE_UNKNOWN: EXIT.usage,
  SCOPES_TOO_LONG: EXIT.usage,
  SECRET_TOO_SHORT: EXIT.configuration,
  KEYS_FIXED: EXIT.configuration,
  KEY_RING_FULL: EXIT.finding,
  REVOCATIONS_FULL: EXIT.finding,
} as const

/** The longest life that a token may have, milliseconds: 366 days. */
const TTL_MAX_MS = 366 * 24 * 3_600_000

/** `daicho token`. */
export function tokenCommand(): Command {
  const command = new Command('token')
  command.addCommand(mintCommand())
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

interface MintFlags {
  readonly scope: readonly string[]
  readonly ttl: number
  readonly subject: string
  readonly json?: boolean
}

function mintCommand(): Command {
  return new Command('mint')
    .description('make a token for the API of the ledger')
    .requiredOption(
      '--scope <scopes...>',
      'what it allows: db:<name or *>:read, :write or :admin, ledger:read, node:metrics, ' +
        'node:sync, node:admin',
    )
    .addOption(
      new Option('--ttl <time>', 'how long it is valid, like 15m or 90d; at most 366d')
        .argParser(parseTtl)
        .default(24 * 3_600_000, '24h'),
    )
    .option('--subject <name>', 'on whose behalf it speaks', parseSubject, 'operator')
    .option('--json', 'print one line of JSON')
    .action((flags: MintFlags) =>
      withTokens(async (tokens) => {
        const { scope: scopes, ttl, subject } = flags
        const issued = await issueApiToken(tokens, { subject, scopes, lifeSeconds: ttl / 1000 })
        const { token, jti } = issued
        const expires_at = issued.expiresAt * 1000
        if (flags.json === true) return JSON.stringify({ token, jti, subject, expires_at })
        const until = new Date(expires_at).toISOString()
        process.stderr.write(`valid until ${until}; to void it: daicho token revoke ${jti}\n`)
        return token
      }, folderOrSecret),
    )
}

function parseTtl(text: string): number {
  const ms = durationOf(text)
  if (ms === undefined) throw new InvalidArgumentError(`write ${DURATION_EXPECTED}.`)
  if (ms < 1_000 || ms > TTL_MAX_MS) throw new InvalidArgumentError('it is 1s to 366d.')
  return ms
}

function parseSubject(text: string): string {
  if (isSubject(text)) return text
  throw new InvalidArgumentError(
    'a subject has 1 to 128 characters, none of them a control character.',
  )
}

/** Runs `work` on the tokens of the node and prints what it says. */
async function withTokens(
  work: (tokens: TokenService) => Promise<string>,
  folderOf = (settings: Settings): string | null => nodeFolder(settings, { mayBeNew: false }),
): Promise<void> {
  const settings = readSettings(process.env)
  const folder = folderOf(settings)
  const said = await exitingWith(EXITS, async () =>
    work(await openTokens({ clock: systemClock, folder, secret: settings.SECRET })),
  )
  process.stdout.write(`${said}\n`)
}

/** Whoever signs by a secret of their own needs no folder for that. */
function folderOrSecret(settings: Settings): string | null {
  const { SYSTEM_FOLDER: folder, SECRET: secret } = settings
  return folder === null && secret !== null ? null : nodeFolder(settings, { mayBeNew: false })
}
