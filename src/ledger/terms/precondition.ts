import { LedgerError } from '../errors.ts'
import type { EntityTags, Precondition } from './terms.ts'

/** RFC 9110 section 8.8.3, from where the last one ended; empty elements of a list may be there too. */
const ENTITY_TAG = /[ \t]*(?:(W\/)?"([\x21\x23-\x7e\x80-\xff]*)"[ \t]*)?(?:,|$)/y

/**
 * What the headers `If-Match` and `If-None-Match` ask for, or null when there is neither.
 *
 * Errors: PRECONDITION_INVALID for what is neither `*` nor a list of entity tags.
 * Source: RFC 9110 sections 13.1.1 and 13.1.2. If-Match compares strongly, so weak tags never match;
 * If-None-Match compares weakly, so they match like others.
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
    if (weak || isWeak === undefined) tags.push(tag)
  }
  if (named === 0) throw invalid(name)
  return tags
}

function invalid(name: string): LedgerError {
  return new LedgerError(
    'PRECONDITION_INVALID',
    `${name} is * or a list of entity tags, each in double quotes`,
  )
}

/** Whether `precondition` holds for what has the entity tag `tag`; null when there is nothing. */
export function holds({ match, noneMatch }: Precondition, tag: string | null): boolean {
  return (match === null || names(match, tag)) && !(noneMatch !== null && names(noneMatch, tag))
}

/**
 * The status of a read with `precondition` of what has the entity tag `tag`: 304 when the client has
 * it already, 412 when it is another than If-Match names. Source: RFC 9110 section 13.2.2.
 */
export function readStatus({ match, noneMatch }: Precondition, tag: string): 200 | 304 | 412 {
  if (match !== null && !names(match, tag)) return 412
  return noneMatch !== null && names(noneMatch, tag) ? 304 : 200
}

function names(tags: EntityTags, tag: string | null): boolean {
  return tag !== null && (tags === '*' || tags.includes(tag))
}
