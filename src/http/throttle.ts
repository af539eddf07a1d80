import { isIPv6 } from 'node:net'
import type { FastifyRequest } from 'fastify'
import type { Clock } from '../base/clock.ts'

export interface ThrottleLimits {
  /** Number of failures in one window after which a key is throttled. */
  readonly failuresMax: number
  readonly windowMs: number
  /** Maximum number of keys; above this, the oldest key is evicted. */
  readonly keysMax: number
}

/**
 * Limits for wrong passwords: after 20 from one client (see `toClientKey`) in 5 minutes, the client gets 429 until the 5
 * minutes end.
 */
export const PASSWORD_FAILURES: ThrottleLimits = {
  failuresMax: 20,
  windowMs: 5 * 60_000,
  keysMax: 10_000,
}

/** Returns the client's address, or an empty string if the connection was reset during the request. */
export function readAddress({ ip }: Pick<FastifyRequest, 'ip'>): string {
  // Fastify's type does not include undefined, but a reset socket has no address.
  const address: string | undefined = ip
  return address ?? ''
}

/** Returns a key for the client at `address`: an IPv4 address, or the /64 network of an IPv6 address. */
export function toClientKey(address: string): string {
  if (!isIPv6(address)) return address
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1]
  if (mapped !== undefined) return mapped
  const [head = '', tail] = address.toLowerCase().split('::')
  const groups = head === '' ? [] : head.split(':')
  const after = tail === undefined || tail === '' ? 0 : tail.split(':').length
  while (tail !== undefined && groups.length + after < 8) groups.push('0')
  if (tail !== undefined && tail !== '') groups.push(...tail.split(':'))
  return groups.slice(0, 4).join(':')
}

/** Counts failures per key, e.g. per address, in fixed time windows. */
export class FailureThrottle {
  readonly #clock: Clock
  readonly #limits: ThrottleLimits
  readonly #windows = new Map<string, { endsAt: number; failures: number }>()

  /** `clock` must be monotonic, because setting back the system clock would prolong the wait. */
  constructor(clock: Clock, limits: ThrottleLimits) {
    this.#clock = clock
    this.#limits = limits
  }

  /** Returns the milliseconds until `key` may try again, or 0. */
  waitMs(key: string): number {
    const window = this.#windows.get(key)
    if (window === undefined) return 0
    const left = window.endsAt - this.#clock.now()
    if (left <= 0) {
      this.#windows.delete(key)
      return 0
    }
    return window.failures >= this.#limits.failuresMax ? left : 0
  }

  fail(key: string): void {
    const now = this.#clock.now()
    const window = this.#windows.get(key)
    if (window !== undefined && window.endsAt > now) {
      window.failures += 1
      return
    }
    this.#windows.delete(key)
    if (this.#windows.size >= this.#limits.keysMax) {
      const [oldest = ''] = this.#windows.keys()
      this.#windows.delete(oldest)
    }
    this.#windows.set(key, { endsAt: now + this.#limits.windowMs, failures: 1 })
  }

  /** Resets the failures of `key`. */
  clear(key: string): void {
    this.#windows.delete(key)
  }
}
