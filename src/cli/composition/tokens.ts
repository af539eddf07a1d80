import { readFileSync } from 'node:fs'
import { type Clock, systemClock, systemSchedule } from '../../base/clock.ts'
import { errorMessage } from '../../base/errors.ts'
import { IssuerTokens, openTokens, parseScopeRules, type TokenService } from '../../tokens/index.ts'
import { EXIT, Exit } from '../exit.ts'
import type { Settings } from './settings.ts'

/** The tokens of a node. Close them after use. */
export interface NodeTokens {
  readonly tokens: TokenService
  close(): Promise<void>
}

/**
 * Opens the tokens of a node. The list of revoked tokens is in `folder`, or in the database STORE. `issuers` is null
 * for commands that verify no tokens. Errors: StoreError.
 */
export async function openNodeTokens(
  { STORE, SECRET: secret }: Settings,
  folder: string | null,
  clock = systemClock,
  issuers: IssuerTokens | null = null,
): Promise<NodeTokens> {
  if (STORE === null) {
    const tokens = await openTokens({ clock, folder, secret, revocations: null, issuers })
    return { tokens, close: async () => issuers?.close() }
  }
  const { openSharedText } = await import('../../storage/index.ts')
  const revocations = await openSharedText(STORE, 'token-revocations', systemSchedule)
  const tokens = await openTokens({ clock, folder, secret, revocations, issuers })
  return {
    tokens,
    close: async () => {
      issuers?.close()
      await revocations.close()
    },
  }
}

/** Starts to fetch the keys of OIDC_ISSUERS; null if there are none. Errors: Exit (configuration). */
export async function openIssuers(
  settings: Settings,
  clock: Clock,
  report: (message: string) => void,
): Promise<IssuerTokens | null> {
  const { OIDC_ISSUERS: issuers, OIDC_AUDIENCE: audience, OIDC_ALLOW_PRIVATE } = settings
  if (issuers.length === 0) return null
  if (audience === null) {
    const message = 'OIDC_ISSUERS needs OIDC_AUDIENCE, the audience of the access tokens'
    throw new Exit(EXIT.configuration, message)
  }
  const plain = issuers.find((name) => !name.startsWith('https:'))
  if (plain !== undefined && !OIDC_ALLOW_PRIVATE) {
    const message = `OIDC_ISSUERS: ${plain} must begin with https:, unless OIDC_ALLOW_PRIVATE=1`
    throw new Exit(EXIT.configuration, message)
  }
  const rules = readScopeRules(settings.OIDC_SCOPES_FILE)
  const { systemOutbound: outbound } = await import('../../http/outbound.ts')
  return new IssuerTokens({
    ...{ issuers, audience, rules, clock, schedule: systemSchedule, outbound, report },
    scopeClaim: settings.OIDC_SCOPE_CLAIM,
    subjectClaim: settings.OIDC_SUBJECT_CLAIM,
    allowPrivate: OIDC_ALLOW_PRIVATE,
  })
}

function readScopeRules(path: string | null) {
  if (path === null) return []
  try {
    return parseScopeRules(readFileSync(path, 'utf8'))
  } catch (error) {
    const message = `OIDC_SCOPES_FILE: ${path}: ${errorMessage(error)}`
    throw new Exit(EXIT.configuration, message, { cause: error })
  }
}
