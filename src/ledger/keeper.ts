import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../base/clock.ts'
import {
  addressOf,
  type Credentials,
  equalCredentials,
  FailureThrottle,
  HttpRefusal,
  parseBasic,
} from '../http/index.ts'

/** Wrong credentials that one address may send before it is held off. */
const FAILURES = { failuresMax: 20, windowMs: 5 * 60_000, keysMax: 10_000 }

/** Refuses a request that does not carry the node's own credentials. Errors: HttpRefusal (401, 429). */
export type KeeperCheck = (request: FastifyRequest, reply: FastifyReply) => void

/** The check of the node's own Basic credentials; all that use it count failures together. */
export function keeperCheck(credentials: Credentials, monotonic: Clock): KeeperCheck {
  const throttle = new FailureThrottle(monotonic, FAILURES)
  return (request, reply) => {
    const address = addressOf(request)
    const wait = throttle.waitMs(address)
    if (wait > 0) {
      reply.header('retry-after', Math.ceil(wait / 1000))
      throw new HttpRefusal(429, 'TOO_MANY_FAILURES', 'too many wrong passwords; try again later')
    }
    const given = parseBasic(request.headers.authorization)
    if (given === null || !equalCredentials(given, credentials)) {
      if (given !== null) throttle.fail(address)
      reply.header('www-authenticate', 'Basic realm="daicho", charset="UTF-8"')
      throw new HttpRefusal(401, 'CREDENTIALS_NEEDED', 'a name and a password are needed')
    }
    throttle.clear(address)
  }
}
