import { readFileSync } from 'node:fs'
import { EXIT, Exit, formatReason } from '../exit.ts'

interface Setting<Value> {
  readonly about: string
  /** Default if the variable is unset or empty. */
  readonly fallback: Value
  /** Completes “must be …” in error messages. */
  readonly expected: string
  /** Returns undefined if the text is invalid. */
  readonly parse: (text: string) => Value | undefined
  /** Whether the value is secret. Then `<NAME>_FILE` can be the path of a file with the value, and output masks it. */
  readonly isSecret?: boolean
}

const identity = (text: string) => text
const text = (about: string): Setting<string | null> => ({
  ...{ about, fallback: null, expected: 'a text', parse: identity },
})
const textOr = (fallback: string, about: string): Setting<string> => ({
  ...{ about, fallback, expected: 'a text', parse: identity },
})
const secret = (about: string): Setting<string | null> => ({ ...text(about), isSecret: true })

/** A text that must match `form`. For HTTP Basic, it excludes control characters, and colons in names (RFC 7617). */
const credential = (
  about: string,
  form: RegExp,
  expected: string,
  isSecret = false,
): Setting<string | null> => ({
  ...{ about, fallback: null, expected, isSecret },
  parse: (given) => (form.test(given) ? given : undefined),
})

const integer = (fallback: number, min: number, max: number, about: string): Setting<number> => ({
  ...{ about, fallback, expected: `an integer from ${min} to ${max}` },
  parse: (given) => {
    const value = /^\d{1,15}$/.test(given) ? Number(given) : Number.NaN
    return value >= min && value <= max ? value : undefined
  },
})

const choice = <Option extends string>(
  fallback: Option,
  options: readonly Option[],
  about: string,
): Setting<Option> => ({
  ...{ about, fallback, expected: `one of ${options.join(', ')}` },
  parse: (given) => options.find((option) => option === given),
})

const flag = (about: string): Setting<boolean> => ({
  ...{ about, fallback: false, expected: '0 or 1' },
  parse: (given) => ({ '0': false, '1': true })[given],
})

const UNIT_MS: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
}
export const DURATION_EXPECTED = 'a number followed by s, m, h or d, such as 4d'

/** Parses a duration such as `4d` into milliseconds; returns undefined if it is invalid. */
export function parseDuration(text: string): number | undefined {
  const [, count, unit = ''] = /^(\d{1,6})([smhd])$/.exec(text) ?? []
  const unitMs = UNIT_MS[unit]
  return unitMs === undefined ? undefined : Number(count) * unitMs
}

const duration = (fallback: number, about: string): Setting<number> => ({
  ...{ about, fallback, expected: DURATION_EXPECTED, parse: parseDuration },
})

/** A list separated by commas, whose elements must pass `isElement`. */
const list = (
  about: string,
  expected = 'a list separated by commas',
  isElement: (text: string) => boolean = () => true,
  elementsMax = Number.POSITIVE_INFINITY,
): Setting<readonly string[]> => ({
  ...{ about, fallback: [], expected },
  parse: (given) => {
    const elements = given
      .split(',')
      .map((part) => part.trim())
      .filter((part) => part !== '')
    return elements.length <= elementsMax && elements.every(isElement) ? elements : undefined
  },
})

/** Whether `text` is an exact origin as browsers send it: scheme, host in lower case, and port unless default. */
function isOrigin(text: string): boolean {
  return (
    /^https?:\/\/[a-z0-9.:[\]_-]+$/.test(text) &&
    URL.canParse(text) &&
    new URL(text).origin === text
  )
}

const ORIGINS_MAX = 100
const ISSUERS_MAX = 16

/**
 * Whether `text` can be the `iss` of an OpenID Connect issuer, at most 512 bytes as in an author. Source: OpenID Connect
 * Discovery 1.0, section 3.
 */
function isIssuer(text: string): boolean {
  const isAddress = /^https?:\/\/[^\s/?#@]+[^\s?#]*$/.test(text) && URL.canParse(text)
  return isAddress && Buffer.byteLength(text) <= 512
}

/** All environment variables of daicho. */
const SETTINGS = {
  HOST: textOr('127.0.0.1', 'Address to listen on'),
  PORT: integer(4126, 0, 65_535, 'Port of the ledger; 0 picks a free one'),
  SYSTEM_FOLDER: credential(
    'Folder for all data; if unset, data is lost when the process ends',
    // A shell would remove quotes and replace ~ and $HOME; the files of a service manager or container may not.
    /^(?!postgres(?:ql)?:\/\/)(?![~$"'\s])[^\u0000-\u001f\u007f]*(?<!\s)$/,
    'the path of a folder, without quotes, and without ~ or $ at its start; STORE takes the URL of a database',
  ),
  STORE: credential(
    'PostgreSQL database for the data; SYSTEM_FOLDER then has the key of the node',
    /^postgres(?:ql)?:\/\//,
    'a URL that begins with postgres:// or postgresql://',
    true,
  ),
  BASIC_USERNAME: credential(
    'User name for the dashboard',
    /^[^:\u0000-\u001f\u007f]+$/,
    'a name without colons or control characters',
  ),
  BASIC_PASSWORD: credential(
    'Password for the dashboard',
    /^[^\u0000-\u001f\u007f]+$/,
    'a password without control characters',
    true,
  ),
  PUBLIC_HOSTS: list(
    'Host names that browsers may use to reach this node',
    'host names separated by commas, without scheme and port',
    (name) => /^[A-Za-z0-9._-]+$/.test(name),
  ),
  ALLOW_ORIGINS: list(
    'Origins whose pages may call the components; none if unset',
    'up to 100 origins such as https://app.example, separated by commas, in lower case, without path or *',
    isOrigin,
    ORIGINS_MAX,
  ),
  ATTACHMENT_BYTES_MAX: integer(
    1024 * 1024 * 1024,
    0,
    1024 ** 4,
    'Maximum size of one attachment, in bytes',
  ),
  PEERS: list('Peers to mirror, as <verifier key> [<address> [push]], separated by commas'),
  PEERS_ALLOW_PRIVATE: flag('Set to 1 to allow peers and witnesses on private networks'),
  PEERS_INTERVAL_MS: integer(
    500,
    10,
    3_600_000,
    'Time between two polls of a peer, in milliseconds',
  ),
  WITNESSES: list('Witnesses of checkpoints, as <cosignature key> <address>, separated by commas'),
  WITNESS_OF: list('Verifier keys of logs that this node cosigns, besides the logs of its peers'),
  VERIFY_EVERY: {
    about: 'Time between two verifications of the store by the node, such as 24h; none if unset',
    fallback: null,
    expected: 'a number followed by m, h or d, from 1m to 24d',
    parse: (given: string) => {
      const ms = parseDuration(given)
      return ms !== undefined && ms >= 60_000 && ms <= 24 * 86_400_000 ? ms : undefined
    },
  } satisfies Setting<number | null>,
  TOKENS: choice('off', ['off', 'required'], 'Whether ledger requests require a token'),
  SECRET: secret('Key that signs tokens, at least 32 bytes; generated by daicho if unset'),
  OIDC_ISSUERS: list(
    'OpenID Connect issuers whose access tokens are accepted besides own tokens; none if unset',
    'up to 16 addresses such as https://login.example/realms/acme, separated by commas',
    isIssuer,
    ISSUERS_MAX,
  ),
  OIDC_AUDIENCE: text('Audience (claim aud) that tokens of issuers must have'),
  OIDC_SCOPE_CLAIM: textOr('scope', 'Claim of issuers with scopes of this node'),
  OIDC_SUBJECT_CLAIM: textOr('sub', 'Claim of issuers that names the subject'),
  OIDC_SCOPES_FILE: text('File that maps claims of issuers to scopes'),
  OIDC_ALLOW_PRIVATE: flag('Set to 1 to allow issuers on private networks, also with http'),
  OIDC_CLIENT_ID: text('Client id of the dashboard at the first issuer; no sign-in if unset'),
  OIDC_SIGN_IN_PARAMETERS: textOr(
    '',
    'Further parameters of the sign-in, as a query such as scope=openid+offline_access',
  ),
  USERS_FILE: text('File with the users of the sample API'),
  HELLO_FILE: text('File with the credentials of each id for the guarded path'),
  PRESENCE_FILTER: choice('0', ['0', '1'], 'Whether the samples require an Authorization header'),
  RATES_SOURCES: textOr(
    'ecb,frankfurter,lastgood,snapshot',
    'Sources of rates, in the order in which they are tried',
  ),
  RATES_STRICT: flag('Set to 1 to reply with 503 instead of stale rates'),
  RATES_STALE_AFTER: duration(6 * 86_400_000, 'Age from which rates are reported as stale'),
  RATES_RECORD: flag('Set to 1 to record accepted rates in the ledger database "rates"'),
  NETWORKS: list('Networks to deploy, as directories or .bna files; the bundled network if unset'),
  NETWORK: text('Network served at /api of the gateway; the first of NETWORKS if unset'),
  GATEWAY_API_KEY: secret(
    'Key that gateway requests must send in x-api-key; no key is required if unset',
  ),
  GATEWAY_AUTHENTICATION: flag(
    'Set to 1 to issue identities to participants, who send their secret as a bearer token',
  ),
  GATEWAY_NAMESPACES: choice(
    'required',
    ['always', 'never', 'required'],
    'When the explorer shows namespaces in type names',
  ),
  GATEWAY_OPEN: flag('Set to 1 to allow a gateway without a key on any address'),
  PROCESSOR_DEADLINE_MS: integer(
    1_000,
    10,
    60_000,
    'Time limit for the processors of one transaction, in milliseconds',
  ),
  DEFAULT_PX: integer(2, 1, 546, 'Side of a cell in pixels, unless the upload sets it'),
  DEFAULT_WIDTH: integer(100, 1, 16_384, 'Number of columns, unless the upload sets it'),
  LOG_LEVEL: choice(
    'info',
    ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'],
    'Log level; debug logs every request',
  ),
} as const

export type Settings = {
  readonly [Name in keyof typeof SETTINGS]: (typeof SETTINGS)[Name]['fallback']
}

export type Environment = Readonly<Record<string, string | undefined>>

/**
 * Reads `environment`. An empty variable counts as unset. Errors: Exit (configuration) with one line that names the
 * first invalid variable.
 */
export function readSettings(environment: Environment): Settings {
  const read = Object.entries<Setting<unknown>>(SETTINGS).map(([name, setting]) => {
    const { fallback, expected, parse, isSecret = false } = setting
    const given = isSecret ? givenSecret(environment, name) : environment[name] || null
    if (given === null) return [name, fallback]
    const value = parse(given)
    if (value !== undefined) return [name, value]
    const mayHoldPassword = isSecret || /^\w+:\/\/[^/]*@/.test(given)
    const shown = mayHoldPassword ? '' : `, not ${JSON.stringify(given.slice(0, 60))}`
    throw new Exit(EXIT.configuration, `${name} must be ${expected}${shown}`)
  })
  // The type is correct, because `read` has one entry for each name in SETTINGS.
  const settings = Object.fromEntries(read) as Settings
  if (settings.STORE === null || settings.SYSTEM_FOLDER !== null) return settings
  const message =
    'STORE needs SYSTEM_FOLDER: set it to the folder with the key and the last signed head of the node'
  throw new Exit(EXIT.configuration, message)
}

function givenSecret(environment: Environment, name: string): string | null {
  const value = environment[name] || null
  const path = environment[`${name}_FILE`] || null
  if (path === null) return value
  if (value !== null) throw new Exit(EXIT.configuration, `set ${name} or ${name}_FILE, not both`)
  const content = readSecret(path, name)
  if (content !== '') return content
  // An empty file must not count as unset, because daicho would then use the preset password.
  throw new Exit(EXIT.configuration, `${name}_FILE: ${path} is empty`)
}

function readSecret(path: string, name: string): string {
  try {
    return readFileSync(path, 'utf8').replace(/\r?\n$/, '')
  } catch (error) {
    const message = `${name}_FILE: ${path} cannot be read: ${formatReason(error)}`
    throw new Exit(EXIT.configuration, message, { cause: error })
  }
}

/** A setting as `daicho config` shows it. */
export interface ShownSetting {
  readonly name: string
  /** The value, or asterisks for a secret; null if the setting is unset. */
  readonly value: unknown
  readonly isDefault: boolean
  readonly about: string
}

export function shownSettings(settings: Settings): ShownSetting[] {
  return Object.entries<Setting<unknown>>(SETTINGS).map(([name, { isSecret, fallback, about }]) => {
    const value = settings[name as keyof Settings]
    const shown = isSecret && value !== null ? '********' : value
    return { name, value: shown, isDefault: value === fallback, about }
  })
}
