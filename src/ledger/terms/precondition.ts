import { positionText } from '../../chain/index.ts'
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

/** Whether `precondition` holds for an item of `revision`, a packed position; null when there is none. */
export function holds({ match, noneMatch }: Precondition, revision: number | null): boolean {
  return (match === null || names(match, revision)) && !matches(noneMatch, revision)
}

/**
 * Whether a read with `precondition` of what is at `revision` needs no body: the client has it (304).
 * Errors: PRECONDITION_FAILED when If-Match does not hold.
 */
export function isNotModified(precondition: Precondition, revision: number): boolean {
  const { match, noneMatch } = precondition
  if (match !== null && !names(match, revision)) {
    throw new LedgerError('PRECONDITION_FAILED', `the item is at ${positionText(revision)}`)
  }
  return matches(noneMatch, revision)
}

function matches(tags: EntityTags | null, revision: number | null): boolean {
  return tags !== null && names(tags, revision)
}

function names(tags: EntityTags, revision: number | null): boolean {
  if (revision === null) return false
  return tags === '*' || tags.includes(positionText(revision))
}
