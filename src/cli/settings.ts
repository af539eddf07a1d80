import { readFileSync } from 'node:fs'
import { EXIT, Exit, reasonOf } from './exit.ts'

/** One environment variable. */
interface Setting<Value> {
  readonly about: string
  /** In force when the variable is unset or empty. */
  readonly fallback: Value
  /** Completes “must be …”. */
  readonly expected: string
  /** Returns undefined for an invalid text. */
  readonly parse: (text: string) => Value | undefined
  /** Also read from the file that `<NAME>_FILE` names; masked when printed. */
  readonly isSecret?: boolean
}

const identity = (given: string) => given
const text = (about: string): Setting<string | null> => ({
  ...{ about, fallback: null, expected: 'a text', parse: identity },
})
const textOr = (fallback: string, about: string): Setting<string> => ({
  ...{ about, fallback, expected: 'a text', parse: identity },
})
const secret = (about: string): Setting<string | null> => ({ ...text(about), isSecret: true })

/** Half of a pair of HTTP Basic credentials, which can hold no control characters (RFC 7617). */
const credential = (about: string, form: RegExp, expected: string): Setting<string | null> => ({
  ...{ about, fallback: null, expected },
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
export const DURATION_EXPECTED = 'a number and s, m, h or d, like 4d'

/** Parses a duration such as `4d`, in milliseconds; undefined for any other text. */
export function parseDuration(text: string): number | undefined {
  const [, count, unit = ''] = /^(\d{1,6})([smhd])$/.exec(text) ?? []
  const unitMs = UNIT_MS[unit]
  return unitMs === undefined ? undefined : Number(count) * unitMs
}

const duration = <Fallback extends number | null>(
  fallback: Fallback,
  about: string,
): Setting<number | Fallback> => ({
  ...{ about, fallback, expected: DURATION_EXPECTED, parse: parseDuration },
})

const splitList = (given: string): string[] =>
  given
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
const list = (about: string): Setting<readonly string[]> => ({
  ...{ about, fallback: [], expected: 'a list with commas', parse: splitList },
})
const hostNames = (about: string): Setting<readonly string[]> => ({
  ...{ about, fallback: [], expected: 'host names with commas, without scheme and port' },
  parse: (given) => {
    const names = splitList(given)
    return names.every((name) => /^[A-Za-z0-9._-]+$/.test(name)) ? names : undefined
  },
})

/** Every environment variable that daicho reads. */
const SETTINGS = {
  HOST: textOr('127.0.0.1', 'Address to listen on'),
  PORT: integer(4126, 0, 65_535, 'Port of the ledger; 0 takes any free one'),
  SYSTEM_FOLDER: text('Folder of all data; without it data is lost when the process ends'),
  BASIC_USERNAME: credential(
    'Name for the dashboard',
    /^[^:\u0000-\u001f\u007f]+$/,
    'a name without colon and control characters',
  ),
  BASIC_PASSWORD: {
    ...credential(
      'Password for the dashboard',
      /^[^\u0000-\u001f\u007f]+$/,
      'a password without control characters',
    ),
    isSecret: true,
  },
  PUBLIC_HOSTS: hostNames('Host names under which browsers may reach this node'),
  LEDGER_DIFFICULTY: integer(0, 0, 4, 'Leading hexadecimal zeros of block ids'),
  ATTACHMENT_BYTES_MAX: integer(
    1024 * 1024 * 1024,
    0,
    1024 ** 4,
    'The most bytes of one attachment',
  ),
  PEERS: list('Peers whose chains are mirrored, with commas: verifier key, address, push'),
  PEERS_ALLOW_PRIVATE: flag('1 lets peers be on a private network'),
  PEERS_INTERVAL_MS: integer(500, 10, 3_600_000, 'Milliseconds between two polls of a peer'),
  TOKENS: choice('off', ['off', 'required'], 'Whether calls of the ledger need a token'),
  SECRET: secret('Key that signs tokens, at least 32 bytes; without it daicho makes its own'),
  USERS_FILE: text('File of users of the sample API'),
  HELLO_FILE: text('File of the credentials that the guarded path takes, per id'),
  PRESENCE_FILTER: choice('0', ['0', '1'], 'Whether the samples want an Authorization header'),
  RATES_SOURCES: textOr(
    'ecb,frankfurter,lastgood,snapshot',
    'Where rates come from, in the order they are tried',
  ),
  RATES_STRICT: flag('1 refuses stale rates with 503'),
  RATES_STALE_AFTER: duration<number>(
    5 * 86_400_000,
    'Age at which replies say that rates are stale',
  ),
  RATES_MAX_STALE: duration(null, 'Refuse stale rates whose date is further back, like 4d'),
  RATES_BAND: choice('on', ['on', 'off'], 'Whether rates that jump need a second source'),
  RATES_RECORD: flag('1 records accepted rates in the ledger database "rates"'),
  RATES_ALLOW_PRIVATE: flag('1 lets url: sources be on a private network'),
  RATES_OPENEXCHANGERATES_APP_ID: secret('Key for the source openexchangerates'),
  NETWORKS: list(
    'Networks to deploy, directories or .bna files; without them the one that comes along',
  ),
  NETWORK: text('Name of the network at /api of the gateway, else the first of NETWORKS'),
  GATEWAY_API_KEY: secret(
    'Key that requests to the gateway show in x-api-key; without it it is open',
  ),
  GATEWAY_AUTHENTICATION: flag(
    '1 gives identities to participants, who show them as bearer tokens',
  ),
  GATEWAY_NAMESPACES: choice(
    'required',
    ['always', 'never', 'required'],
    'When the explorer shows the namespaces of types',
  ),
  GATEWAY_OPEN: flag('1 lets an open gateway listen on any address'),
  PROCESSOR_DEADLINE_MS: integer(
    1_000,
    10,
    60_000,
    'Milliseconds that the processors of one transaction may take',
  ),
  DEFAULT_PX: integer(2, 1, 546, 'Pixels of a cell, when an upload does not say'),
  DEFAULT_WIDTH: integer(100, 1, 16_384, 'Cells across, when an upload does not say'),
  LOG_LEVEL: choice(
    'info',
    ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'],
    'How much is logged; debug logs every request',
  ),
} as const

/** The settings in force. */
export type Settings = {
  readonly [Name in keyof typeof SETTINGS]: (typeof SETTINGS)[Name]['fallback']
}

export type Environment = Readonly<Record<string, string | undefined>>

/**
 * Reads `environment`; an empty variable counts as unset.
 * Errors: Exit (configuration) with one line that names the first bad variable.
 */
export function readSettings(environment: Environment): Settings {
  const read = Object.entries<Setting<unknown>>(SETTINGS).map(([name, setting]) => {
    const { fallback, expected, parse, isSecret = false } = setting
    const given = isSecret ? givenSecret(environment, name) : environment[name] || null
    if (given === null) return [name, fallback]
    const value = parse(given)
    if (value !== undefined) return [name, value]
    const shown = isSecret ? '' : `, not ${JSON.stringify(given.slice(0, 60))}`
    throw new Exit(EXIT.configuration, `${name} must be ${expected}${shown}`)
  })
  // Safe: there is one entry per name of the table.
  return Object.fromEntries(read) as Settings
}

function givenSecret(environment: Environment, name: string): string | null {
  const value = environment[name] || null
  const path = environment[`${name}_FILE`] || null
  if (path === null) return value
  if (value !== null) throw new Exit(EXIT.configuration, `set ${name} or ${name}_FILE, not both`)
  const content = readSecret(path, name)
  if (content !== '') return content
  // Taken as unset, it would let the preset in; taken as it is, it would let everybody in.
  throw new Exit(EXIT.configuration, `${name}_FILE: ${path} is empty`)
}

function readSecret(path: string, name: string): string {
  try {
    return readFileSync(path, 'utf8').replace(/\r?\n$/, '')
  } catch (error) {
    const message = `${name}_FILE: ${path} cannot be read: ${reasonOf(error)}`
    throw new Exit(EXIT.configuration, message, { cause: error })
  }
}

/** A setting as `daicho config` shows it. */
export interface ShownSetting {
  readonly name: string
  /** Secrets are masked; null when nothing is set. */
  readonly value: unknown
  readonly isDefault: boolean
  readonly about: string
}

/** All of `settings`, fit to be printed. */
export function shownSettings(settings: Settings): ShownSetting[] {
  return Object.entries<Setting<unknown>>(SETTINGS).map(([name, { isSecret, fallback, about }]) => {
    const value = settings[name as keyof Settings]
    const shown = isSecret && value !== null ? '********' : withoutAddresses(value)
    return { name, value: shown, isDefault: value === fallback, about }
  })
}

/** Masks all but the hosts of the operator's own addresses, which may hold keys. */
function withoutAddresses(value: unknown): unknown {
  if (typeof value !== 'string') return value
  return value.replace(/\burl:https:\/\/(?:[^,/@]*@)?([^,/?#]*)[^,]*/g, 'url:https://$1/********')
}
