import { UserError } from './errors.ts'

/** Users of one file at most. */
export const USERS_MAX = 1_000
/** Characters of a user name at most. */
export const NAME_LENGTH_MAX = 128

/** Someone who may log in. */
export interface User {
  readonly name: string
  /** An argon2id PHC text. */
  readonly passwordHash: string
  readonly admin: boolean
  /**
   * Milliseconds since the Unix epoch: tokens issued before are void, so that a new password or a
   * removed and re-added name ends old sessions. 0 where that moment is unknown.
   */
  readonly since: number
}

/** Users in the order they were added, no name twice. */
export type Users = readonly User[]

/** Lets a name pass. Errors: USER_NAME_UNUSABLE. */
function assertUserName(name: string): void {
  if (name.length < 1 || name.length > NAME_LENGTH_MAX) {
    throw new UserError('USER_NAME_UNUSABLE', `a user name has 1 to ${NAME_LENGTH_MAX} characters`)
  }
  if (/[\u0000-\u001f\u007f]/.test(name) || !name.isWellFormed()) {
    throw new UserError('USER_NAME_UNUSABLE', 'a user name has no control characters')
  }
}

/** `users` and `user`. Errors: USER_NAME_UNUSABLE, USER_EXISTS, USERS_FULL. */
export function addUser(users: Users, user: User): Users {
  assertUserName(user.name)
  if (users.some(({ name }) => name === user.name)) {
    throw new UserError('USER_EXISTS', `there is a user ${user.name} already`)
  }
  if (users.length >= USERS_MAX) {
    throw new UserError('USERS_FULL', `there are ${USERS_MAX} users already`)
  }
  return [...users, user]
}

/** `users` without the one of that name. Errors: USER_UNKNOWN. */
export function removeUser(users: Users, name: string): Users {
  assertKnown(users, name)
  return users.filter((user) => user.name !== name)
}

/** `users` with another password for one of them. Errors: USER_UNKNOWN. */
export function changePassword(
  users: Users,
  name: string,
  { passwordHash, since }: Pick<User, 'passwordHash' | 'since'>,
): Users {
  assertKnown(users, name)
  return users.map((user) => (user.name === name ? { ...user, passwordHash, since } : user))
}

function assertKnown(users: Users, name: string): void {
  if (!users.some((user) => user.name === name)) {
    throw new UserError('USER_UNKNOWN', `there is no user ${name}`)
  }
}
