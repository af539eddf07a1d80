import { Command, InvalidArgumentError, Option } from 'commander'
import {
  type IssuedToken,
  isSubject,
  issueApiToken,
  type TokenService,
} from '../../tokens/index.ts'
import { DURATION_EXPECTED, parseDuration, readSettings } from '../composition/settings.ts'
import { openNodeTokens } from '../composition/tokens.ts'
import { callNode } from '../node/node-client.ts'
import { addFolderOption, nodeFolder } from '../node/node-folder.ts'
import { addNodeOptions, LOCAL_NODE, type NodeFlags } from '../node/node-options.ts'
import { print } from '../output/output.ts'

/** Maximum lifetime of a token. */
const TTL_MAX_MS = 366 * 24 * 3_600_000
/** A token id, which is a UUID. */
const TOKEN_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

export function tokenCommand(): Command {
  const command = new Command('token').description(
    'manage the tokens of the node in SYSTEM_FOLDER; changes apply at once to a running node',
  )
  command
    .command('mint')
    .description('create a token for the ledger API')
    .requiredOption(
      '--scope <scopes...>',
      'scopes: db:<name or *>:read, :write or :admin, ledger:read, node:metrics, ' +
        'node:sync, node:admin',
    )
    .addOption(
      new Option('--ttl <time>', 'lifetime, such as 15m or 90d; at most 366d')
        .argParser(parseTtl)
        .default(24 * 3_600_000, '24h'),
    )
    .option('--subject <name>', 'subject of the token', parseSubject, 'operator')
    .option('--json', 'print one line of JSON')
    .action(mint)
  const listCommand = command
    .command('list')
    .description('list the tokens that the running node has issued or accepted since its start')
    .action(list)
  const aboutToken =
    'token with the scope node:admin, or a file that contains it; if omitted, the command uses a token ' +
    'that it signs with the key in the folder, valid for one minute'
  addNodeOptions(listCommand, LOCAL_NODE, aboutToken)
  command
    .command('revoke')
    .description('revoke a token')
    .argument('<jti>', 'id of the token (claim jti), logged when the token is issued', parseTokenId)
    .action(async (jti: string) => {
      await withNodeTokens((tokens) => tokens.revoke(jti))
      process.stdout.write(`revoked ${jti}\n`)
    })
  command
    .command('keys')
    .description('manage the keys that sign tokens')
    .command('rotate')
    .description('sign with a new key; existing tokens stay valid until they expire')
    .option('--drop-old', 'drop the old keys, which revokes every existing token')
    .action(async (flags: { dropOld?: boolean }) => {
      const dropOld = flags.dropOld === true
      const kid = await withNodeTokens((tokens) => tokens.rotate({ dropOld }))
      process.stdout.write(`key ${kid} is in use${dropOld ? '; the old keys are dropped' : ''}\n`)
    })
  return addFolderOption(command)
}

interface MintFlags {
  readonly scope: readonly string[]
  readonly ttl: number
  readonly subject: string
  readonly json?: boolean
}

async function mint({ scope: scopes, ttl, subject, json }: MintFlags): Promise<void> {
  const grant = { subject, scopes, lifeSeconds: ttl / 1000 }
  const issued = await withNodeTokens((tokens) => issueApiToken(tokens, grant), true)
  const { token, jti } = issued
  const expires_at = issued.expiresAt * 1000
  if (json !== true) {
    const until = new Date(expires_at).toISOString()
    process.stderr.write(`valid until ${until}; to revoke it: daicho token revoke ${jti}\n`)
  }
  print(json, { token, jti, subject, expires_at }, token)
}

interface ListFlags extends NodeFlags {
  readonly url: string
}

async function list({ url, token, json }: ListFlags): Promise<void> {
  const own = token === undefined ? await ownToken() : null
  const node = { url, token: token ?? own?.token }
  const reply = await callNode(node, 'GET /api/config/tokens', {})
  const tokens = reply.tokens.filter(({ jti }) => jti !== own?.jti)
  const lines = tokens.map(({ jti, subject, scopes, expires_at, last_used, revoked }) => {
    const use = last_used === null ? 'not used' : `used ${timeText(last_used)}`
    const end = revoked ? 'REVOKED' : `expires ${timeText(expires_at)}`
    return `${jti}  ${subject}  ${scopes.join(' ')}  ${use}  ${end}`
  })
  if (!reply.required)
    lines.push(
      'the node requires no tokens; to require tokens, start the node with TOKENS=required',
    )
  else if (lines.length === 0)
    lines.push('no tokens were issued or accepted since the start of the node')
  print(json, { ...reply, tokens }, lines.join('\n'))
}

/** Issues a token for one request. Returns null if neither SYSTEM_FOLDER nor SECRET is set. */
async function ownToken(): Promise<IssuedToken | null> {
  const { SYSTEM_FOLDER, SECRET } = readSettings(process.env)
  if (SYSTEM_FOLDER === null && SECRET === null) return null
  const grant = { subject: 'daicho token list', scopes: ['node:admin'], lifeSeconds: 60 }
  return withNodeTokens((tokens) => issueApiToken(tokens, grant), true)
}

const timeText = (ms: number) => `${new Date(ms).toISOString().slice(0, 19)}Z`

/**
 * Runs `work` on the tokens of the node in SYSTEM_FOLDER. With `isSecretEnough`, no folder is needed if SECRET is set,
 * because signing needs only the key.
 */
async function withNodeTokens<Result>(
  work: (tokens: TokenService) => Promise<Result>,
  isSecretEnough = false,
): Promise<Result> {
  const settings = readSettings(process.env)
  const { SYSTEM_FOLDER, SECRET } = settings
  const hasNoFolder = isSecretEnough && SYSTEM_FOLDER === null && SECRET !== null
  const folder = hasNoFolder ? null : nodeFolder(settings, { mayBeNew: false })
  const { tokens, close } = await openNodeTokens(settings, folder)
  try {
    return await work(tokens)
  } finally {
    await close()
  }
}

function parseTtl(text: string): number {
  const ms = parseDuration(text)
  if (ms === undefined) throw new InvalidArgumentError(`write ${DURATION_EXPECTED}.`)
  if (ms < 1_000 || ms > TTL_MAX_MS)
    throw new InvalidArgumentError('the lifetime must be from 1s to 366d.')
  return ms
}

function parseTokenId(text: string): string {
  if (TOKEN_ID.test(text)) return text
  throw new InvalidArgumentError(
    'it is not the id of a token, 32 hex digits with hyphens. `daicho token list` prints the ids.',
  )
}

function parseSubject(text: string): string {
  if (isSubject(text)) return text
  throw new InvalidArgumentError('a subject must have 1 to 256 bytes and no control character.')
}
