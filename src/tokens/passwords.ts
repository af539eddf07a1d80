import { randomBytes } from 'node:crypto'
import { hash, parseOptions, verify } from '@node-rs/argon2'
import { Semaphore } from '../base/semaphore.ts'
import { TokenError } from './errors.ts'

/** Maximum length of a password in characters. */
export const PASSWORD_LENGTH_MAX = 1024
/** Maximum number of concurrent checks. Each check occupies a thread and the memory that its hash requires. */
const CONCURRENCY_MAX = 2
/** Maximum number of pending checks. */
export const WAITING_MAX = 256

/**
 * Cost of new hashes: argon2id with 19 MiB, two passes and one lane, the minimum in OWASP's Password Storage Cheat
 * Sheet. `algorithm: 2` is `Algorithm.Argon2id`, a const enum that type stripping cannot import.
 */
const COST = { algorithm: 2, memoryCost: 19_456, timeCost: 2, parallelism: 1 } as const
/** Maximum cost of an imported hash, so that a login does not take seconds or gigabytes. */
const COST_MAX = { memoryCost: 262_144, timeCost: 16, parallelism: 8 } as const

/**
 * Returns the argon2id hash of `password` as a PHC string, e.g. `$argon2id$v=19$m=19456,t=2,p=1$…$…`. Errors:
 * PASSWORD_UNUSABLE for a password that is empty, longer than PASSWORD_LENGTH_MAX, or contains control characters,
 * because login forms and terminals send control characters in different ways.
 */
export async function hashPassword(password: string): Promise<string> {
  if (password.length < 1 || password.length > PASSWORD_LENGTH_MAX) {
    throw new TokenError(
      'PASSWORD_UNUSABLE',
      `a password must have 1 to ${PASSWORD_LENGTH_MAX} characters`,
    )
  }
  if (/[\u0000-\u001f\u007f]/.test(password) || !password.isWellFormed()) {
    throw new TokenError('PASSWORD_UNUSABLE', 'a password must not contain control characters')
  }
  return hash(password, COST)
}

/**
 * Whether `passwordHash` is the hash of `password`. Takes about the same time for either result. `passwordHash`
 * must have passed `requirePasswordHash`, or be a result of `hashPassword` or `decoyHash`.
 */
export async function matchesPassword(passwordHash: string, password: string): Promise<boolean> {
  return password.length <= PASSWORD_LENGTH_MAX && verify(passwordHash, password)
}

/** Throws unless an imported hash is argon2id and costs at most COST_MAX. Errors: PASSWORD_HASH_UNUSABLE. */
export function requirePasswordHash(passwordHash: string): void {
  const unusable = (why: string, cause?: unknown) =>
    new TokenError('PASSWORD_HASH_UNUSABLE', `a password hash ${why}`, { cause })
  if (!/^\$argon2id\$v=19\$[\w=,]{1,40}\$[\w+/]{11,86}\$[\w+/]{22,86}$/.test(passwordHash)) {
    throw unusable('is not an argon2id PHC string of version 19')
  }
  let cost: ReturnType<typeof parseOptions>
  try {
    cost = parseOptions(passwordHash)
  } catch (error) {
    throw unusable('cannot be decoded', error)
  }
  const { memoryCost, timeCost, parallelism } = COST_MAX
  const isCheap = cost.memoryCost <= memoryCost && cost.timeCost <= timeCost
  if (!isCheap || cost.parallelism > parallelism) {
    throw unusable('costs more than m=262144, t=16 or p=8')
  }
}

/**
 * Returns a hash that matches no password and costs as much to check as `like`. Callers check the password of an
 * unknown user against this hash, so that the reply takes as long as for an existing user.
 */
export function decoyHash(like: string | undefined): string {
  const cost = like === undefined ? COST : parseOptions(like)
  const text = (bytes: number) => randomBytes(bytes).toString('base64').replace(/=+$/, '')
  const { memoryCost, timeCost, parallelism } = cost
  return `$argon2id$v=19$m=${memoryCost},t=${timeCost},p=${parallelism}$${text(16)}$${text(32)}`
}

/** Runs at most two password checks at a time, in order, so that many logins leave CPU time for other requests. */
export class PasswordLimiter {
  readonly #semaphore = new Semaphore(CONCURRENCY_MAX, WAITING_MAX)

  /** Runs `work` when fewer than two checks are running. Errors: HASHING_BUSY if WAITING_MAX are waiting. */
  async run<Result>(work: () => Promise<Result>): Promise<Result> {
    if (!(await this.#semaphore.acquire())) {
      throw new TokenError('HASHING_BUSY', 'too many concurrent logins; try again shortly')
    }
    try {
      return await work()
    } finally {
      this.#semaphore.release()
    }
  }
}
