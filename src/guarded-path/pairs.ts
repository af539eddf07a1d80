import { readFile } from 'node:fs/promises'
import { isJsonObject, type Json } from '../base/json.ts'
import { parseStrictJson } from '../base/strict-json.ts'
import type { Credentials } from '../http/index.ts'
import { PairsError } from './errors.ts'

/** The one pair of credentials that each `id` accepts. */
export type Pairs = ReadonlyMap<string, Credentials>

/** Pairs of one file at most. */
const PAIRS_MAX = 10_000
/** Characters of an id, a name or a password at most. */
export const PART_LENGTH_MAX = 256

/** The pair there is while no file is configured, and only on a loopback address. */
export const PRESET_PAIR: { readonly id: string } & Credentials = {
  id: 'demo',
  name: 'demo',
  password: 'demo',
}

/** Where the pairs come from. */
export interface PairSources {
  /** The operator's file, JSON: `{"<id>": {"name": …, "password": …}}`; null where there is none. */
  readonly file: string | null
  /** Whether the listener can be reached from this machine only. */
  readonly loopback: boolean
}

/**
 * The pairs of this node, read once.
 *
 * Errors: HELLO_FILE_UNUSABLE, which names the file and the id; HELLO_NOT_CONFIGURED when there is
 * no file and others can reach the listener.
 */
export async function openPairs({ file, loopback }: PairSources): Promise<Pairs> {
  if (file !== null) return readPairsFile(file)
  if (loopback) return new Map([[PRESET_PAIR.id, PRESET_PAIR]])
  throw new PairsError(
    'HELLO_NOT_CONFIGURED',
    'the guarded path has no credentials, and its preset ones exist on loopback addresses only: ' +
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
    // Without the cause: a parser's message quotes the text, and the text holds passwords.
    fail('is not JSON')
  }
  if (!isJsonObject(table)) return fail('is not a JSON object of pairs by id')
  const entries = Object.entries(table)
  if (entries.length === 0 || entries.length > PAIRS_MAX) {
    fail(`holds ${entries.length} pairs; it needs 1 to ${PAIRS_MAX}`)
  }
  return new Map(
    entries.map(([id, pair]) => {
      const { name, password } = isJsonObject(pair) ? pair : {}
      const shown = id.slice(0, 40)
      if (!isPart(id)) return fail(`has an id that is empty, too long or unprintable: ${shown}`)
      if (!isPart(name) || name.includes(':')) {
        return fail(`needs, for id ${shown}, a name: a text without colons`)
      }
      if (!isPart(password)) return fail(`needs, for id ${shown}, a password: a text`)
      return [id, { name, password }]
    }),
  )
}

/** Whether `text` can be sent as a part of Basic credentials and be equal to itself. */
function isPart(text: Json | undefined): text is string {
  return (
    typeof text === 'string' &&
    text.length >= 1 &&
    text.length <= PART_LENGTH_MAX &&
    !/[\u0000-\u001f\u007f]/.test(text)
  )
}
