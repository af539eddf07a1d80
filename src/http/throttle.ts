import { isIPv6 } from 'node:net'
import type { FastifyRequest } from 'fastify'
import type { Clock } from '../base/clock.ts'

/** How many failures are borne in which time. */
export interface ThrottleLimits {
  /** Failures of one key within the window before it is held off. */
  readonly failuresMax: number
  /** Milliseconds over which failures count. */
  readonly windowMs: number
  /** Keys remembered at most; the oldest window goes first. */
  readonly keysMax: number
}

/**
 * Where `request` comes from; all whose connection is gone count as one, since nobody knows any more.
 * They get no answer, but what they asked for may still be under way.
 */
export function addressOf({ ip }: Pick<FastifyRequest, 'ip'>): string {
  // Fastify's type does not say that there may be none.
  const address: string | undefined = ip
  return address ?? ''
}

/** The client behind `address`: an IPv4 address, or the /64 network of an IPv6 one, which is given to one customer. */
export function clientOf(address: string): string {
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

/** Counts failures by key (an address, an address and a name) in fixed windows, within a bound. */
export class FailureThrottle {
  readonly #clock: Clock
  readonly #limits: ThrottleLimits
  readonly #windows = new Map<string, { endsAt: number; failures: number }>()

  /** `clock` is monotonic: a system clock that is set back would hold off for as long. */
  constructor(clock: Clock, limits: ThrottleLimits) {
    this.#clock = clock
    this.#limits = limits
  }

  /** Milliseconds until `key` may try again; 0 when it may now. */
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

  /** Remembers one failure of `key`. */
  fail(key: string): void {
    const now = this.#clock.now()
    const window = this.#windows.get(key)
    if (window !== undefined && window.endsAt > now) {
      window.failures += 1
      return
    }
    this.#windows.delete(key)
    if (this.#windows.size >= this.#limits.keysMax) {
      for (const oldest of this.#windows.keys()) {
        this.#windows.delete(oldest)
        break
      }
    }
    this.#windows.set(key, { endsAt: now + this.#limits.windowMs, failures: 1 })
  }

  /** Forgets the failures of `key`, after a success. */
  clear(key: string): void {
    this.#windows.delete(key)
  }
}
