import type { FastifyReply, FastifyRequest, onRequestHookHandler } from 'fastify'
import { parseIsoTime } from '../../base/iso-time.ts'
import { Type } from '../../base/shape.ts'
import { positionText } from '../../chain/index.ts'
import { HttpRefusal } from '../../http/index.ts'
import type { LedgerService } from '../node/service.ts'
import type { AsOf } from '../read/pages.ts'
import { readPrecondition, readStatus } from './conditions.ts'
import { VARY_BY_TOKEN } from './replies.ts'

/**
 * Headers of a reply about a past state. A cache must ask before it repeats the reply, because the content may have been
 * erased. Without `vary`, a browser would show the reply to its next user, too.
 */
export const PAST_HEADERS = { 'cache-control': 'private, no-cache', vary: VARY_BY_TOKEN } as const
const HEIGHT = /^\d{1,16}$/

/** The parameter `at` of reads of a past state. */
export const At = Type.Optional(
  Type.String({
    description:
      'Height of a block, or a time of RFC 3339: returns the state after this block, or after the last block up to this time',
    examples: ['1', '2026-12-31T23:59:59Z'],
  }),
)

/** The height that a reply belongs to, if the request has `at`. */
export const AtReply = Type.Optional(
  Type.Integer({ description: 'Height of the block to which the reply belongs' }),
)

/**
 * Refuses parameters that a path ignores: `at`, because the reply would show the current state, and every unknown
 * parameter of a change, because `DELETE /api/people?id=p1` would delete the database.
 */
export const refuseIgnoredParameters: onRequestHookHandler = (request, _reply, done) => {
  const { is404, method, query, routeOptions } = request
  if (is404) return done()
  const { querystring } = (routeOptions.schema ?? {}) as { querystring?: { properties?: object } }
  const isRead = method === 'GET' || method === 'HEAD'
  const known = { ...querystring?.properties, token: null }
  const isIgnored = (name: string) => (name === 'at' || !isRead) && !Object.hasOwn(known, name)
  if (!Object.keys(query as object).some(isIgnored)) return done()
  // Does not quote the parameter, which may be a secret.
  const message = isRead
    ? 'this path does not support at; it returns only the current state'
    : `nothing was changed: this path supports only these query parameters: ${Object.keys(known).join(', ')}`
  done(new HttpRefusal(400, 'REQUEST_INVALID', message))
}

/**
 * Returns the state that `at` names, or null if there is no `at`, and adds the headers of a reply about this state.
 * Errors: 400 for anything but a height or a time; HEIGHT_UNKNOWN.
 */
export async function requireState(
  ledger: LedgerService,
  at: string | undefined,
  reply: FastifyReply,
): Promise<AsOf | null> {
  if (at === undefined) return null
  const asOf = await findState(ledger, at)
  reply.headers({ 'ledger-height': asOf.height, ...PAST_HEADERS })
  return asOf
}

/** Returns the state that `at` names. Errors: as for `requireState`. */
export function findState({ read }: LedgerService, at: string): Promise<AsOf> {
  return isHeightText(at) ? read.asOfHeight(Number(at)) : read.asOfTime(requireTime(at))
}

/** Whether `at` is the height of a block, not a time. */
export function isHeightText(at: string): boolean {
  return HEIGHT.test(at) && Number.isSafeInteger(Number(at))
}

/** Parses a time of RFC 3339 to milliseconds since the Unix epoch. Errors: 400. */
function requireTime(at: string): number {
  const timeMs = /T/i.test(at) ? parseIsoTime(at) : null
  if (timeMs !== null) return timeMs
  const message = 'at must be the height of a block, or a time such as 2026-12-31T23:59:59Z'
  throw new HttpRefusal(400, 'REQUEST_INVALID', message)
}

/**
 * Adds the entity tag of a reply about past states, which changes with every erasure. Returns a reply with status 304 if
 * the client has the reply, else null; null also without a state. Call this after the errors 404, which `*` would hide.
 */
export async function findSameReply(
  { store }: LedgerService,
  reply: FastifyReply,
  headers: FastifyRequest['headers'],
  ...states: readonly (AsOf | null)[]
): Promise<FastifyReply | null> {
  const heights = states.flatMap((state) => state?.height ?? [])
  if (heights.length === 0) return null
  const eraser = await store.lastEraser()
  const tag = [...heights, ...(eraser === null ? [] : [positionText(eraser)])].join('-')
  reply.header('etag', `"${tag}"`)
  const precondition = readPrecondition({ headers })
  const isSame = precondition !== null && readStatus(precondition, tag) === 304
  return isSame ? reply.code(304).send() : null
}
