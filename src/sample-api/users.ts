import { hash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { SUBJECT_BYTES_MAX } from '../base/author.ts'
import { CodedError } from '../base/coded-error.ts'
import { isJsonObject, type Json } from '../base/json.ts'
import { parseStrictJson } from '../base/strict-json.ts'
import {
  decoyHash,
  hashPassword,
  isSubject,
  requirePasswordHash,
  type SharedValue,
  sharedFile,
} from '../tokens/index.ts'

type UserErrorCode =
  | 'USERS_FILE_UNUSABLE' // the operator's file is missing or is not a list of users
  | 'USERS_NOT_CONFIGURED' // no user, and the preset user is only allowed on a loopback address
  | 'USER_NAME_UNUSABLE' // empty, too long, or with control characters
  | 'USER_EXISTS'
  | 'USER_UNKNOWN'
  | 'USERS_FULL'

/** An error about users. Its message never contains a password or a hash. */
class UserError extends CodedError<UserErrorCode> {
  override readonly name = 'UserError'
}

export const USERS_MAX = 1_000
/** Maximum characters of a reason in an error message, because a reason may contain a member name of any length. */
const REASON_LENGTH_MAX = 300

export interface User {
  readonly name: string
  /** An argon2id PHC string. */
  readonly passwordHash: string
  readonly admin: boolean
  /** SHA-256 of a password from the operator's file, whose `passwordHash` has another salt after each start. */
  readonly passwordDigest?: string
}

/**
 * Returns the text to which the sessions of `user` are bound, so that a new password ends them, as does another user
 * with the same name.
 */
export function sessionBinding({ passwordHash, passwordDigest }: User): string {
  return passwordDigest ?? passwordHash
}

/** Users in the order in which they were added, each with a different name. */
export type Users = readonly User[]

/** Returns `users` with `user` at the end. Errors: USER_NAME_UNUSABLE, USER_EXISTS, USERS_FULL. */
export function addUser(users: Users, user: User): Users {
  const { name } = user
  if (!isSubject(name) || !name.isWellFormed()) {
    const message = `a user name must have 1 to ${SUBJECT_BYTES_MAX} bytes, without control characters`
    throw new UserError('USER_NAME_UNUSABLE', message)
  }
  if (users.some((known) => known.name === name)) {
    throw new UserError('USER_EXISTS', `the user ${name} already exists`)
  }
  if (users.length >= USERS_MAX) {
    throw new UserError('USERS_FULL', `there are already ${USERS_MAX} users, the maximum`)
  }
  return [...users, user]
}

/** Returns `users` without the user `name`. Errors: USER_UNKNOWN. */
export function removeUser(users: Users, name: string): Users {
  requireKnown(users, name)
  return users.filter((user) => user.name !== name)
}

/** Returns `users` with a new password hash for the user `name`. Errors: USER_UNKNOWN. */
export function changePassword(users: Users, name: string, passwordHash: string): Users {
  requireKnown(users, name)
  return users.map((user) => (user.name === name ? { ...user, passwordHash } : user))
}

function requireKnown(users: Users, name: string): void {
  if (users.some((user) => user.name === name)) return
  throw new UserError('USER_UNKNOWN', `unknown user ${name}`)
}

/** Returns the users in `<folder>/users.json`, which `daicho user` changes. Its methods throw SharedFileError. */
export function usersInFolder(folder: string): SharedValue<Users> {
  return sharedFile({
    path: join(folder, 'users.json'),
    initial: [],
    format: (users) => `${JSON.stringify({ users }, null, 2)}\n`,
    parse: parseUsers,
  })
}

function parseUsers(text: string): Users {
  const file: Json = JSON.parse(text)
  const users = isJsonObject(file) ? file.users : undefined
  if (!Array.isArray(users)) throw new Error('users is not a list')
  return users.reduce<Users>((read, user) => {
    if (!isJsonObject(user)) throw new Error('not a user')
    const { name, passwordHash, admin } = user
    if (typeof name !== 'string' || typeof passwordHash !== 'string') throw new Error('not a user')
    if (typeof admin !== 'boolean') throw new Error('not a user')
    requirePasswordHash(passwordHash)
    return addUser(read, { name, passwordHash, admin })
  }, [])
}

/**
 * Reads the operator's file of users, and hashes the passwords. The file contains JSON: `[{"name": …, "password" or
 * "passwordHash": …, "admin": true or false (default)}]`. Errors: USERS_FILE_UNUSABLE. The message contains the path
 * of the file and the position of the user, but no passwords.
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
    // Omits the cause, because the parser's message quotes the text, which contains passwords.
    fail('is not JSON')
  }
  if (!Array.isArray(list)) return fail('is not a JSON array of users')
  let users: Users = []
  for (const [index, entry] of list.entries()) {
    try {
      users = addUser(users, await parseDeclaredUser(entry))
    } catch (error) {
      const why = error instanceof Error ? error.message.slice(0, REASON_LENGTH_MAX) : ''
      fail(`has an error in user ${index + 1}: ${why}`)
    }
  }
  return users
}

async function parseDeclaredUser(entry: Json): Promise<User> {
  if (!isJsonObject(entry)) throw new Error('it is not an object')
  const { name, password, passwordHash, admin = false, ...others } = entry
  const [unknown] = Object.keys(others)
  if (unknown !== undefined) throw new Error(`it has an unknown member ${unknown}`)
  if (typeof name !== 'string') throw new Error('its name is not a string')
  if (typeof admin !== 'boolean') throw new Error('its admin is neither true nor false')
  if (typeof passwordHash === 'string' && password === undefined) {
    requirePasswordHash(passwordHash)
    return { name, passwordHash, admin }
  }
  if (typeof password !== 'string' || passwordHash !== undefined) {
    throw new Error('it needs either a password or a passwordHash, as a string')
  }
  return withPassword({ name, admin }, password)
}

async function withPassword(user: Pick<User, 'name' | 'admin'>, password: string): Promise<User> {
  const passwordDigest = hash('sha256', password)
  return { ...user, passwordHash: await hashPassword(password), passwordDigest }
}

/** The only user if no user is configured and the listener has a loopback address. */
export const PRESET_USER = { name: 'demo', password: 'demo' } as const

const NO_USERS: Users = []

/**
 * The current users: the users in the operator's file, and the users of `daicho user`, including later changes. If both
 * have a user of the same name, the operator's file takes precedence. If there are no users, the preset user is used.
 */
export class UserDirectory {
  readonly #declared: Users
  readonly #stored: SharedValue<Users> | null
  readonly #preset: Users
  #merged: { readonly stored: Users; readonly users: ReadonlyMap<string, User> } | null = null

  /** Use `openUserDirectory` instead. */
  constructor(declared: Users, stored: SharedValue<Users> | null, preset: Users) {
    this.#declared = declared
    this.#stored = stored
    this.#preset = preset
  }

  /** Returns all users by name, in a stable order. */
  all(): ReadonlyMap<string, User> {
    const stored = this.#stored?.current() ?? NO_USERS
    // Comparing the lists by reference is enough, because `current` returns the same list until the file changes.
    if (this.#merged?.stored === stored) return this.#merged.users
    const users = new Map(this.#declared.map((user) => [user.name, user]))
    for (const user of stored) if (!users.has(user.name)) users.set(user.name, user)
    if (users.size === 0) for (const user of this.#preset) users.set(user.name, user)
    this.#merged = { stored, users }
    return users
  }

  /** Whether the preset user can log in now. */
  isPreset(): boolean {
    const [first] = this.all().values()
    return first !== undefined && first === this.#preset[0]
  }

  /** Returns a hash that matches no password. Checking it takes as long as checking the hash of the first user. */
  decoy(): string {
    const [first] = this.all().values()
    return decoyHash(first?.passwordHash)
  }
}

/**
 * Opens the users of this node. Errors: USERS_FILE_UNUSABLE; SharedFileError; USERS_NOT_CONFIGURED if there are no
 * users and the listener does not have a loopback address.
 */
export async function openUserDirectory(sources: {
  /** Path of the operator's file; null if it is not configured. */
  readonly file: string | null
  /** Folder with the users that `daicho user` has added; null if no folder is configured. */
  readonly folder: string | null
  readonly isLoopback: boolean
}): Promise<UserDirectory> {
  const { file, folder, isLoopback } = sources
  const declared = file === null ? [] : await readUsersFile(file)
  const stored = folder === null ? null : usersInFolder(folder)
  const { name, password } = PRESET_USER
  const preset = isLoopback ? [await withPassword({ name, admin: true }, password)] : []
  const users = new UserDirectory(declared, stored, preset)
  if (users.all().size > 0) return users
  throw new UserError(
    'USERS_NOT_CONFIGURED',
    'the sample API has no users, and the preset user works only on a loopback address: ' +
      'set USERS_FILE, or SYSTEM_FOLDER with users added by `daicho user add`',
  )
}
