import { readFile } from 'node:fs/promises'
import { CodedError } from '../base/coded-error.ts'
import { isJsonObject, type Json } from '../base/json.ts'
import { parseStrictJson } from '../base/strict-json.ts'
import { type Credentials, equalCredentials, parseBasic } from '../http/index.ts'

type PairsErrorCode =
  | 'HELLO_FILE_UNUSABLE' // the operator's file is missing or is not a table of pairs
  | 'HELLO_NOT_CONFIGURED' // no file, and the preset pair is only allowed on a loopback address

/** An error about the credentials of the guarded path. Its message never contains a password. */
class PairsError extends CodedError<PairsErrorCode> {
  override readonly name = 'PairsError'
}

export type Pairs = ReadonlyMap<string, Credentials>

const PAIRS_MAX = 10_000
/** Maximum length of an id, a name or a password, in UTF-16 units. */
export const PART_LENGTH_MAX = 256

/** The only credentials if no file is configured and the listener has a loopback address. */
export const PRESET_PAIR = { id: 'demo', name: 'demo', password: 'demo' } as const

/**
 * Reads the credentials of each id from `file`, which contains JSON: `{"<id>": {"name": …, "password": …}}`. Without a
 * file, returns the preset credentials if the listener has a loopback address. Errors: HELLO_FILE_UNUSABLE, whose
 * message contains the file and the id; HELLO_NOT_CONFIGURED.
 */
export async function openPairs(sources: {
  readonly file: string | null
  readonly isLoopback: boolean
}): Promise<Pairs> {
  if (sources.file !== null) return readPairsFile(sources.file)
  if (sources.isLoopback) return new Map([[PRESET_PAIR.id, PRESET_PAIR]])
  throw new PairsError(
    'HELLO_NOT_CONFIGURED',
    'the guarded path has no credentials, and the preset credentials work only on a loopback address: ' +
      'set HELLO_FILE',
  )
}

async function readPairsFile(path: string): Promise<Pairs> {
  const fail = (why: string, cause?: unknown): never => {
    throw new PairsError('HELLO_FILE_UNUSABLE', `the credentials file ${path} ${why}`, { cause })
  }
  const bytes = await readFile(path).catch((error: unknown) => fail('cannot be read', error))
  let table: Json = null
  try {
    table = parseStrictJson(bytes)
  } catch {
    // Omits the cause, because the parser's message quotes the text, which contains passwords.
    fail('is not JSON')
  }
  if (!isJsonObject(table)) return fail('is not a JSON object of pairs by id')
  const entries = Object.entries(table)
  if (entries.length === 0 || entries.length > PAIRS_MAX) {
    fail(`contains ${entries.length} pairs; it must contain 1 to ${PAIRS_MAX}`)
  }
  return new Map(
    entries.map(([id, pair]) => {
      const { name, password } = isJsonObject(pair) ? pair : {}
      const shown = id.slice(0, 40)
      if (!isPart(id)) return fail(`has an id that is empty, too long or unprintable: ${shown}`)
      if (!isPart(name) || name.includes(':')) {
        return fail(`has no valid name for id ${shown}: a name must be a string without colons`)
      }
      if (!isPart(password))
        return fail(`has no valid password for id ${shown}: a password must be a string`)
      return [id, { name, password }]
    }),
  )
}

/** Whether `text` can be sent as a part of Basic credentials. */
function isPart(text: Json | undefined): text is string {
  if (typeof text !== 'string' || /[\u0000-\u001f\u007f]/.test(text)) return false
  return text.length >= 1 && text.length <= PART_LENGTH_MAX
}

/** Compared in place of an unknown id's credentials or an invalid header, so that the reply always takes as long. */
const NO_CREDENTIALS: Credentials = { name: '', password: '' }

/**
 * Whether the `Authorization` header contains the credentials of `id`. False if `id` is missing, or is a list because
 * the query contains `id` twice. Source: specification, “Authentication”, B.
 */
export function grants(pairs: Pairs, id: unknown, authorization: string | undefined): boolean {
  const pair = typeof id === 'string' ? pairs.get(id) : undefined
  const received = parseBasic(authorization)
  const isEqual = equalCredentials(received ?? NO_CREDENTIALS, pair ?? NO_CREDENTIALS)
  return isEqual && pair !== undefined && received !== null
}
