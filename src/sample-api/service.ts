import { createHash } from 'node:crypto'
import type { Clock } from '../base/clock.ts'
import { FailureThrottle, toClientKey } from '../http/index.ts'
import {
  type IssuedToken,
  isSubject,
  matchesPassword,
  PasswordLimiter,
  TokenError,
  type TokenService,
} from '../tokens/index.ts'
import { sessionBinding, type User, type UserDirectory } from './users.ts'

/** Lifetime of a session token: 24 hours. Source: specification, “Limits”. */
const SESSION_SECONDS = 24 * 60 * 60
/**
 * The `aud` claim of session tokens. Because of this claim, other components reject session tokens, and this component
 * rejects other tokens.
 */
const SESSION_AUDIENCE = 'daicho:samples'
/** Text that replaces every password in replies. */
const PASSWORD_SHOWN = '********'

const WINDOW_MS = 5 * 60 * 1000
/** Limits of failed logins for one name from one address. */
const NAME_LIMITS = { failuresMax: 10, windowMs: WINDOW_MS, keysMax: 10_000 }
/** Limits of failed logins from one address for all names together. */
const ADDRESS_LIMITS = { failuresMax: 100, windowMs: WINDOW_MS, keysMax: 10_000 }

export type Login =
  | { readonly outcome: 'issued'; readonly issued: IssuedToken }
  | { readonly outcome: 'refused' }
  | { readonly outcome: 'throttled'; readonly waitSeconds: number }

export interface SampleServiceDeps {
  /** A monotonic clock for throttling, unaffected by changes of the system clock. */
  readonly monotonic: Clock
  readonly tokens: TokenService
  readonly users: UserDirectory
}

/** Issues and verifies session tokens. Source: specification, “Authentication”, T; docs/decisions/0015-passwords.md. */
export class SampleService {
  readonly #tokens: TokenService
  readonly #users: UserDirectory
  readonly #passwords = new PasswordLimiter()
  readonly #byName: FailureThrottle
  readonly #byAddress: FailureThrottle

  constructor({ monotonic, tokens, users }: SampleServiceDeps) {
    this.#tokens = tokens
    this.#users = users
    this.#byName = new FailureThrottle(monotonic, NAME_LIMITS)
    this.#byAddress = new FailureThrottle(monotonic, ADDRESS_LIMITS)
  }

  /**
   * Exchanges a name and a password, which may be any JSON values, for a token. A login with an unknown name takes as
   * long as a login with a wrong password. Failures are counted per client `address`. Errors: HASHING_BUSY,
   * SharedFileError.
   */
  async login(name: unknown, password: unknown, address: string): Promise<Login> {
    const addressKey = toClientKey(address)
    if (typeof name !== 'string' || typeof password !== 'string' || !isSubject(name)) {
      const throttled = this.#throttled(addressKey, '')
      if (throttled === null) this.#byAddress.fail(addressKey)
      return throttled ?? { outcome: 'refused' }
    }
    const nameKey = createHash('sha256').update(addressKey).update('\0').update(name).digest('hex')
    return (
      this.#throttled(addressKey, nameKey) ??
      this.#passwords.run(async () => {
        // Checked again, because concurrent logins may have failed while this login waited.
        const throttled = this.#throttled(addressKey, nameKey)
        if (throttled !== null) return throttled
        const user = await this.#userWith(name, password)
        if (user === null) {
          this.#byAddress.fail(addressKey)
          this.#byName.fail(nameKey)
          return { outcome: 'refused' }
        }
        this.#byName.clear(nameKey)
        return { outcome: 'issued', issued: await this.#issue(user) }
      })
    )
  }

  isUser(name: string): boolean {
    return this.#users.all().has(name)
  }

  /**
   * Whether `token`, which may be any JSON value, is a valid session token or token of an issuer. Errors:
   * ISSUER_UNAVAILABLE, SharedFileError.
   */
  async accepts(token: unknown): Promise<boolean> {
    if (typeof token !== 'string') return false
    try {
      const verified = await this.#tokens.verify(token, SESSION_AUDIENCE)
      if (verified.issuer !== undefined) return true
      const user = this.#users.all().get(verified.subject)
      return user !== undefined && verified.isBoundTo(sessionBinding(user))
    } catch (error) {
      if (error instanceof TokenError && error.code === 'TOKEN_INVALID') return false
      throw error
    }
  }

  /** Returns all users, without passwords. */
  users() {
    return [...this.#users.all().values()].map(({ name, admin }) => ({
      name,
      password: PASSWORD_SHOWN,
      admin,
    }))
  }

  async #userWith(name: string, password: string): Promise<User | null> {
    const user = this.#users.all().get(name)
    const matches = await matchesPassword(user?.passwordHash ?? this.#users.decoy(), password)
    return matches && user !== undefined ? user : null
  }

  #issue(user: User): Promise<IssuedToken> {
    const { name, admin } = user
    return this.#tokens.issue({
      audience: SESSION_AUDIENCE,
      subject: name,
      lifeSeconds: SESSION_SECONDS,
      claims: { name, admin },
      boundTo: sessionBinding(user),
    })
  }

  #throttled(addressKey: string, nameKey: string): Login | null {
    const waitMs = Math.max(this.#byAddress.waitMs(addressKey), this.#byName.waitMs(nameKey))
    return waitMs === 0 ? null : { outcome: 'throttled', waitSeconds: Math.ceil(waitMs / 1000) }
  }
}
