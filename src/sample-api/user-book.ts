import { decoyHash, hashPassword, type Kept } from '../tokens/index.ts'
import { UserError } from './errors.ts'
import { readUsersFile, usersInFolder } from './user-file.ts'
import type { User, Users } from './users.ts'

/** The user there is while nobody has configured one, and only on a loopback address. */
export const PRESET_USER: { readonly name: string; readonly password: string } = {
  name: 'demo',
  password: 'demo',
}

/** Where the users come from. */
export interface UserSources {
  /** The operator's file; null where there is none. */
  readonly file: string | null
  /** The folder in which `daicho user` keeps its own; null where there is none. */
  readonly folder: string | null
  /** Whether the listener can be reached from this machine only. */
  readonly loopback: boolean
}

const NOBODY: Users = []

/** What follows from one reading of the kept users. */
interface Merged {
  readonly of: Users
  readonly users: ReadonlyMap<string, User>
  readonly decoy: string
}

/**
 * Everyone who may log in now: those of the operator's file (which win where names meet), then
 * those of `daicho user`, also when added while this runs; while there are none at all, the preset.
 */
export class UserBook {
  readonly #declared: Users
  readonly #kept: Kept<Users> | null
  readonly #preset: Users
  #merged: Merged | null = null

  /** Use `openUserBook`. */
  constructor(declared: Users, kept: Kept<Users> | null, preset: Users) {
    this.#declared = declared
    this.#kept = kept
    this.#preset = preset
  }

  /** Everyone, by name, in a stable order. */
  all(): ReadonlyMap<string, User> {
    return this.#current().users
  }

  /** Whether the preset user can log in now. */
  isPreset(): boolean {
    const [first] = this.all().values()
    return first !== undefined && first === this.#preset[0]
  }

  /** A hash that is nobody's and costs as much as the first user's. */
  decoy(): string {
    return this.#current().decoy
  }

  #current(): Merged {
    const kept = this.#kept?.current() ?? NOBODY
    // `current` gives the same list until the file is another one.
    if (this.#merged?.of === kept) return this.#merged
    const users = new Map(this.#declared.map((user) => [user.name, user]))
    for (const user of kept) if (!users.has(user.name)) users.set(user.name, user)
    if (users.size === 0) for (const user of this.#preset) users.set(user.name, user)
    const [first] = users.values()
    // Made here and not per login: an unknown name must cost what a known one costs, no more.
    this.#merged = { of: kept, users, decoy: decoyHash(first?.passwordHash) }
    return this.#merged
  }
}

/**
 * Opens the users of this node.
 *
 * Errors: USERS_FILE_UNUSABLE; KeptError; USERS_NOT_CONFIGURED when there is nobody and others can
 * reach the listener, where a preset password would be an open door.
 */
export async function openUserBook({ file, folder, loopback }: UserSources): Promise<UserBook> {
  const declared = file === null ? [] : await readUsersFile(file)
  const kept = folder === null ? null : usersInFolder(folder)
  const { name, password } = PRESET_USER
  const preset = loopback
    ? [{ name, passwordHash: await hashPassword(password), admin: true, since: 0 }]
    : []
  const book = new UserBook(declared, kept, preset)
  if (book.all().size === 0) {
    throw new UserError(
      'USERS_NOT_CONFIGURED',
      'the sample API has no users, and its preset one exists on loopback addresses only: ' +
        'set USERS_FILE, or SYSTEM_FOLDER with users added by `daicho user add`',
    )
  }
  return book
}
