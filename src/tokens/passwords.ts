import { randomBytes } from 'node:crypto'
import { hash, parseOptions, verify } from '@node-rs/argon2'
import { TokenError } from './errors.ts'

/** Characters of a password at most. */
export const PASSWORD_LENGTH_MAX = 1024
/** Passwords looked at in one moment; each takes a thread and its memory. */
const AT_ONCE_MAX = 2
/** Passwords that wait for their turn; beyond, callers are told to come back. */
export const WAITING_MAX = 256

/**
 * argon2id with 19 MiB, two passes and one lane: the least that OWASP's password storage sheet
 * asks for. 2 is `Algorithm.Argon2id`, a const enum that erased types cannot read.
 */
const COST = { algorithm: 2, memoryCost: 19_456, timeCost: 2, parallelism: 1 } as const
/** What a hash made elsewhere may cost: a login must not take seconds or gigabytes. */
const COST_MAX = { memoryCost: 262_144, timeCost: 16, parallelism: 8 } as const

/**
 * The argon2id hash of `password` as a PHC text, e.g. `$argon2id$v=19$m=19456,t=2,p=1$…$…`.
 *
 * Errors: PASSWORD_UNUSABLE for a password that is empty, longer than PASSWORD_LENGTH_MAX, or has
 * control characters, which no login form or terminal sends the same way.
 */
export async function hashPassword(password: string): Promise<string> {
  if (password.length < 1 || password.length > PASSWORD_LENGTH_MAX) {
    throw new TokenError(
      'PASSWORD_UNUSABLE',
      `a password has 1 to ${PASSWORD_LENGTH_MAX} characters`,
    )
  }
  if (/[\u0000-\u001f\u007f]/.test(password) || !password.isWellFormed()) {
    throw new TokenError('PASSWORD_UNUSABLE', 'a password has no control characters')
  }
  return hash(password, COST)
}

/**
 * Whether `password` is the one that `passwordHash` was made of. Takes about as long either way.
 *
 * `passwordHash` must have passed `assertPasswordHash`, or come from `hashPassword` or `decoyHash`.
 */
export async function matchesPassword(passwordHash: string, password: string): Promise<boolean> {
  return password.length <= PASSWORD_LENGTH_MAX && verify(passwordHash, password)
}

/** Lets a hash made elsewhere pass. Errors: PASSWORD_HASH_UNUSABLE. */
export function assertPasswordHash(passwordHash: string): void {
  const fail = (why: string, cause?: unknown) => {
    throw new TokenError('PASSWORD_HASH_UNUSABLE', `a password hash ${why}`, { cause })
  }
  if (!/^\$argon2id\$v=19\$[\w=,]{1,40}\$[\w+/]{11,86}\$[\w+/]{22,86}$/.test(passwordHash)) {
    fail('is not an argon2id PHC text of version 19')
  }
  try {
    const cost = parseOptions(passwordHash)
    if (
      cost.memoryCost > COST_MAX.memoryCost ||
      cost.timeCost > COST_MAX.timeCost ||
      cost.parallelism > COST_MAX.parallelism
    ) {
      fail('costs more than m=262144, t=16 or p=8')
    }
  } catch (error) {
    if (error instanceof TokenError) throw error
    fail('cannot be decoded', error)
  }
}

/**
 * A hash that no password has and that costs as much as `like`: what an unknown name is compared
 * with, so that it answers as slowly as a known one.
 */
export function decoyHash(like: string | undefined): string {
  const cost = like === undefined ? COST : parseOptions(like)
  const text = (bytes: number) => randomBytes(bytes).toString('base64').replace(/=+$/, '')
  const { memoryCost, timeCost, parallelism } = cost
  return `$argon2id$v=19$m=${memoryCost},t=${timeCost},p=${parallelism}$${text(16)}$${text(32)}`
}

/**
 * Lets passwords be looked at two at a time, in the order they came: fifty logins at once must
 * leave processors for everyone else.
 */
export class PasswordTurns {
  #running = 0
  readonly #waiting: (() => void)[] = []

  /** Runs `work` when its turn has come. Errors: HASHING_BUSY when WAITING_MAX wait already. */
  async take<Result>(work: () => Promise<Result>): Promise<Result> {
    if (this.#running >= AT_ONCE_MAX) {
      if (this.#waiting.length >= WAITING_MAX) {
        throw new TokenError('HASHING_BUSY', 'too many logins at once; try again in a moment')
      }
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
    } else {
      this.#running += 1
    }
    try {
      return await work()
    } finally {
      // The turn is handed on as it is, so that nobody slips in between.
      const next = this.#waiting.shift()
      if (next === undefined) this.#running -= 1
      else next()
    }
  }
}
