import { CodedError } from '../base/coded-error.ts'

/** Every way the users of the sample are refused. */
export type UserErrorCode =
  | 'USERS_FILE_UNUSABLE' // the operator's file is missing or is not a list of users
  | 'USERS_NOT_CONFIGURED' // no user, and the preset one must not be reachable from elsewhere
  | 'USER_NAME_UNUSABLE' // empty, too long, or with control characters
  | 'USER_EXISTS'
  | 'USER_UNKNOWN'
  | 'USERS_FULL'

/** Thrown where users are read or changed; messages never hold a password or a hash. */
export class UserError extends CodedError<UserErrorCode> {
  override readonly name = 'UserError'
}

/** The HTTP status of what a request can bring about; the other codes are the operator's. */
export const statusOf: Readonly<Record<string, number>> = {
  HASHING_BUSY: 429,
}
