import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { serverUrl } from '../../base/url.ts'
import {
  type IssuedToken,
  issueApiToken,
  type RevocationTarget,
  type TokenService,
} from '../../tokens/index.ts'
import { readSettings, type Settings } from '../composition/settings.ts'
import { openNodeTokens } from '../composition/tokens.ts'
import { EXIT, Exit } from '../exit.ts'
import { callNode } from '../node/node-client.ts'
import { nodeFolder } from '../node/node-folder.ts'
import type { NodeFlags } from '../node/node-options.ts'
import { print } from '../output/output.ts'

interface MintFlags {
  readonly scope: readonly string[]
  readonly ttl: number
  readonly subject: string
  readonly json?: boolean
}

export async function runTokenMint({
  scope: scopes,
  ttl,
  subject,
  json,
}: MintFlags): Promise<void> {
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

/** Host names of this computer. */
const LOCAL = /^(?:(?:.+\.)?localhost|127(?:\.\d+){3}|\[::1\])$/

interface ListFlags extends NodeFlags {
  readonly url: string
}

export async function runTokenList({ url, token, json }: ListFlags): Promise<void> {
  // Another computer must not get a token of this one.
  const isLocal = LOCAL.test(new URL(serverUrl(url)).hostname)
  const own = token === undefined && isLocal ? await ownToken() : null
  const node = { url, token: token ?? own?.token }
  const reply = await callNode(node, 'GET /api/config/tokens', {})
  const tokens = reply.tokens.filter(({ jti }) => jti !== own?.jti)
  const lines = tokens.map((token) => {
    const { jti, subject, issuer, scopes, expires_at, last_used, revoked } = token
    const use = last_used === null ? 'not used' : `used ${timeText(last_used)}`
    const end = revoked ? 'REVOKED' : `expires ${timeText(expires_at)}`
    const owner = issuer === undefined ? subject : `${subject} (${issuer})`
    return `${jti}  ${owner}  ${scopes.join(' ')}  ${use}  ${end}`
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

export async function runTokenRevoke(
  jti: string | undefined,
  { subject, issuer }: { readonly subject?: string; readonly issuer?: string },
): Promise<void> {
  const target = toRevoked(jti, subject, issuer)
  requireRevocations(readSettings(process.env))
  await withNodeTokens((tokens) => tokens.revoke(target))
  const revoked = jti ?? `the tokens of ${subject}`
  process.stdout.write(`revoked ${revoked}${issuer === undefined ? '' : ` of ${issuer}`}\n`)
}

/**
 * Throws Exit (configuration) if the node of the folder stores its data, and so its revoked tokens, in a database, but
 * STORE is not set.
 */
function requireRevocations({ STORE, SYSTEM_FOLDER: folder }: Settings): void {
  if (STORE !== null || folder === null || existsSync(join(folder, 'ledger.db'))) return
  if (!existsSync(join(folder, 'signed-head'))) return
  const message = `${folder} has no store: set STORE to the database of the node, which has its revoked tokens`
  throw new Exit(EXIT.configuration, message)
}

function toRevoked(
  jti: string | undefined,
  subject: string | undefined,
  issuer: string | undefined,
): RevocationTarget {
  if (jti !== undefined && subject === undefined)
    return issuer === undefined ? jti : { jti, issuer }
  if (jti === undefined && subject !== undefined)
    return issuer === undefined ? { subject } : { subject, issuer }
  throw new Exit(EXIT.usage, 'give the id of a token, or --subject')
}

export async function runKeyRotation(flags: { dropOld?: boolean }): Promise<void> {
  const dropOld = flags.dropOld === true
  const kid = await withNodeTokens((tokens) => tokens.rotate({ dropOld }))
  process.stdout.write(`key ${kid} is in use${dropOld ? '; the old keys are dropped' : ''}\n`)
}
