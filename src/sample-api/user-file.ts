import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isJsonObject, type Json } from '../base/json.ts'
import { parseStrictJson } from '../base/strict-json.ts'
import { assertPasswordHash, hashPassword, type Kept, keptInFile } from '../tokens/index.ts'
import { UserError } from './errors.ts'
import { addUser, type User, type Users } from './users.ts'

/**
 * The users that `daicho user` keeps in `<folder>/users.json`, hashes only.
 * Errors, when they are read or changed: KeptError.
 */
export function usersInFolder(folder: string): Kept<Users> {
  return keptInFile({ path: join(folder, 'users.json'), initial: [], print, parse })
}

function print(users: Users): string {
  return `${JSON.stringify({ users }, null, 2)}\n`
}

function parse(text: string): Users {
  const file: Json = JSON.parse(text)
  const users = isJsonObject(file) ? file.users : undefined
  if (!Array.isArray(users)) throw new Error('no list of users')
  return users.reduce<Users>((read, user) => {
    if (!isJsonObject(user)) throw new Error('not a user')
    const { name, passwordHash, admin, since } = user
    if (typeof name !== 'string' || typeof passwordHash !== 'string') throw new Error('not a user')
    if (typeof admin !== 'boolean' || typeof since !== 'number') throw new Error('not a user')
    assertPasswordHash(passwordHash)
    return addUser(read, { name, passwordHash, admin, since })
  }, [])
}

/**
 * The users that an operator declares in a file of their own, JSON:
 * `[{"name": …, "password" or "passwordHash": …, "admin": true or false (default)}]`.
 *
 * It is read once; passwords are hashed here and forgotten.
 * Errors: USERS_FILE_UNUSABLE, which names the file and the place and quotes no value but names.
 */
export async function readUsersFile(path: string): Promise<Users> {
  const fail = (why: string, cause?: unknown): never => {
    throw new UserError('USERS_FILE_UNUSABLE', `the users file ${path} ${why}`, { cause })
  }
  const bytes = await readFile(path).catch((error: unknown) => fail('cannot be read', error))
  let list: Json = null
  try {
    list = parseStrictJson(bytes)
  } catch {
    // Without the cause: a parser's message quotes the text, and the text holds passwords.
    fail('is not JSON')
  }
  if (!Array.isArray(list)) return fail('is not a JSON array of users')
  let users: Users = []
  for (const [index, entry] of list.entries()) {
    try {
      users = addUser(users, await declaredUser(entry))
    } catch (error) {
      const why = error instanceof Error ? error.message.slice(0, REASON_LENGTH_MAX) : ''
      fail(`has a mistake in user ${index + 1}: ${why}`)
    }
  }
  return users
}

/** Characters of a reason that are shown: it names members, which may be of any length. */
const REASON_LENGTH_MAX = 300

const MEMBERS = new Set(['name', 'password', 'passwordHash', 'admin'])

async function declaredUser(entry: Json): Promise<User> {
  if (!isJsonObject(entry)) throw new Error('it is not an object')
  const unknown = Object.keys(entry).find((member) => !MEMBERS.has(member))
  if (unknown !== undefined) throw new Error(`it has an unknown member ${unknown}`)
  const { name, password, passwordHash, admin = false } = entry
  if (typeof name !== 'string') throw new Error('its name is not a text')
  if (typeof admin !== 'boolean') throw new Error('its admin is neither true nor false')
  if (typeof passwordHash === 'string' && password === undefined) {
    assertPasswordHash(passwordHash)
    return { name, passwordHash, admin, since: 0 }
  }
  if (typeof password !== 'string' || passwordHash !== undefined) {
    throw new Error('it needs either a password or a passwordHash, a text')
  }
  return { name, passwordHash: await hashPassword(password), admin, since: 0 }
}
