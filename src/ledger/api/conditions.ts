import { hash } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { type Authorship, pickAuthorship } from '../../chain/index.ts'
import { toPlainTag } from '../../http/index.ts'
import { LedgerError } from '../errors.ts'
import { bodyText } from '../write/item.ts'
import {
  type EntityTags,
  holds,
  type KeyedRequest,
  type Precondition,
  type RequestConditions,
  type UploadConditions,
} from '../write/request-conditions.ts'
import { requireReason } from '../write/unit-of-work.ts'

type Request = Pick<FastifyRequest, 'method' | 'url' | 'headers' | 'body' | 'caller'>

/**
 * Returns the conditions, the author and the reason of a request that changes one item or attachment.
 * Errors: PRECONDITION_INVALID, IDEMPOTENCY_KEY_INVALID, REASON_INVALID.
 */
export function readItemConditions(request: Request): RequestConditions {
  return conditionsWith(readPrecondition(request), request)
}

/** Like `readItemConditions`, for changes that accept no precondition. */
export function readConditions(request: Request): RequestConditions {
  return conditionsWith(null, request)
}

/** Returns the conditions of an upload, before its body arrives. */
export function readUploadConditions(request: Request): UploadConditions {
  const precondition = readPrecondition(request)
  return { ...readAuthorship(request), precondition, keyed: keyedRequest(request) }
}

/** Returns the precondition of a request, or null. Errors: PRECONDITION_INVALID. */
export function readPrecondition({ headers }: Pick<Request, 'headers'>): Precondition | null {
  return parsePrecondition(headers['if-match'], headers['if-none-match'])
}

function conditionsWith(precondition: Precondition | null, request: Request): RequestConditions {
  const idempotency = keyedRequest(request)?.with(bodyText(request.body)) ?? null
  return { ...readAuthorship(request), precondition, idempotency }
}

/**
 * Returns the author, who is the owner of the verified token and nobody else, and the reason in the header
 * `Ledger-Reason`. Errors: REASON_INVALID.
 */
function readAuthorship({ headers, caller }: Pick<Request, 'headers' | 'caller'>): Authorship {
  const header = headers['ledger-reason']
  const reason = header === undefined ? undefined : parseReason(String(header))
  return pickAuthorship({ by: caller?.author, reason })
}

/** Decodes a percent-encoded text. Errors: REASON_INVALID. */
function parseReason(header: string): string {
  if (!/^[\x20-\x7e]*$/.test(header)) throw malformedReason()
  try {
    return requireReason(decodeURIComponent(header))
  } catch (error) {
    throw error instanceof URIError ? malformedReason() : error
  }
}

function malformedReason(): LedgerError {
  return new LedgerError('REASON_INVALID', 'Ledger-Reason must be percent-encoded UTF-8')
}

function keyedRequest({ method, url, headers, caller }: Request): KeyedRequest | null {
  const header = headers['idempotency-key']
  if (header === undefined) return null
  const { sub = '', iss } = caller?.author ?? {}
  return parseKey(String(header), iss === undefined ? [sub] : [iss, sub], {
    method,
    url,
    reason: headers['ledger-reason'],
  })
}

/** Matches the next element, which may be empty, of a list of entity tags (RFC 9110 section 8.8.3). */
const ENTITY_TAG = /[ \t]*(?:(W\/)?"([\x21\x23-\x7e\x80-\xff]*)"[ \t]*)?(?:,|$)/y

/**
 * Parses the headers `If-Match` and `If-None-Match`; returns null if both are absent. If-Match compares strongly,
 * so weak tags never match; If-None-Match compares weakly, so weak tags match like strong tags.
 * Errors: PRECONDITION_INVALID. Source: RFC 9110 sections 13.1.1 and 13.1.2.
 */
export function parsePrecondition(
  match: string | undefined,
  noneMatch: string | undefined,
): Precondition | null {
  if (match === undefined && noneMatch === undefined) return null
  return {
    match: match === undefined ? null : entityTags(match, 'If-Match', false),
    noneMatch: noneMatch === undefined ? null : entityTags(noneMatch, 'If-None-Match', true),
  }
}

function entityTags(text: string, name: string, weak: boolean): EntityTags {
  if (text.trim() === '*') return '*'
  const tags: string[] = []
  let named = 0
  ENTITY_TAG.lastIndex = 0
  while (ENTITY_TAG.lastIndex < text.length) {
    const found = ENTITY_TAG.exec(text)
    if (found === null) throw invalid(name)
    const [, isWeak, tag] = found
    if (tag === undefined) continue
    named += 1
    if (weak || isWeak === undefined) tags.push(toPlainTag(tag))
  }
  if (named === 0) throw invalid(name)
  return tags
}

function invalid(name: string): LedgerError {
  return new LedgerError(
    'PRECONDITION_INVALID',
    `${name} must be * or a list of entity tags, each in double quotes`,
  )
}

/**
 * Returns the status of a read of a resource with the entity tag `tag`. Source: RFC 9110 section 13.2.2.
 */
export function readStatus({ match, noneMatch }: Precondition, tag: string): 200 | 304 | 412 {
  if (!holds({ match, noneMatch: null }, tag)) return 412
  return holds({ match: null, noneMatch }, tag) ? 200 : 304
}

/** Maximum characters of an idempotency key. */
const KEY_LENGTH_MAX = 255
/** A string of RFC 8941 section 3.3.3: printable ASCII in double quotes, `\"` and `\\` escaped. */
const QUOTED = /^"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])+)"$/
const BARE = /^[A-Za-z0-9!#$%&'*+\-./:=^_`|~]+$/

/**
 * Parses the header `Idempotency-Key`. Equal keys of different owners of tokens do not match.
 * Errors: IDEMPOTENCY_KEY_INVALID. Source: draft-ietf-httpapi-idempotency-key-header, section 2.1.
 */
export function parseKey(
  header: string,
  owner: readonly string[],
  request: KeyedParts,
): KeyedRequest {
  const text = header.trim()
  const quoted = QUOTED.exec(text)?.[1]?.replace(/\\(.)/g, '$1')
  const chosen = quoted ?? (BARE.test(text) ? text : '')
  if (chosen === '' || chosen.length > KEY_LENGTH_MAX) {
    throw new LedgerError(
      'IDEMPOTENCY_KEY_INVALID',
      `Idempotency-Key must be 1 to ${KEY_LENGTH_MAX} printable ASCII characters in double quotes`,
    )
  }
  const key = hashParts(...owner, chosen)
  return { key, with: (body) => ({ key, fingerprint: hashRequest(request, body) }) }
}

/** The parts of a request that its idempotency key identifies, besides the body. */
interface KeyedParts {
  readonly method: string
  readonly url: string
  /** The header `Ledger-Reason`. */
  readonly reason?: string | readonly string[] | undefined
}

/** Returns a fingerprint that is equal for equal requests, even if their tokens differ. */
function hashRequest({ method, url, reason }: KeyedParts, body: string | null) {
  const [path = '', query = ''] = url.split(/\?(.*)/s)
  const parameters = new URLSearchParams(query)
  parameters.delete('token')
  const parts = [method, path, parameters.toString(), ...(reason === undefined ? [] : [reason])]
  // The body is not a part, because escaping it takes longer than hashing it.
  return hash('sha256', `${JSON.stringify(parts)}\n${body ?? ''}`, 'hex')
}

function hashParts(...parts: string[]): string {
  return hash('sha256', JSON.stringify(parts), 'hex')
}
