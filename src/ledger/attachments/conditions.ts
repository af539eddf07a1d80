import type { Json } from '../../base/json.ts'
import type { Attachment } from '../../chain/index.ts'
import { LedgerError } from '../errors.ts'

/** The headers that make a request depend on what is there. */
export interface Conditions {
  readonly 'if-match'?: string | undefined
  readonly 'if-none-match'?: string | undefined
}

/** The entity tag of an attachment, strong: equal tags are equal bytes. */
export function tagOf({ sha256 }: Pick<Attachment, 'sha256'>): string {
  return `"${sha256}"`
}

/**
 * Whether a header of entity tags (`If-None-Match`, `If-Match`) names `tag`, which is written with its
 * quotes; `*` names any. `weak` lets `W/` pass, as for If-None-Match. Source: RFC 9110 section 13.1.
 */
export function namesTag(header: string, tag: string, weak: boolean): boolean {
  if (header.trim() === '*') return true
  return header.split(',').some((text) => {
    const one = text.trim()
    return one === tag || (weak && one === `W/${tag}`)
  })
}

/** The conditions of a change in one line, to go with it to the writer; empty when there are none. */
export function conditionsLine(conditions: Conditions): string {
  const { 'if-match': match, 'if-none-match': noneMatch } = conditions
  return match === undefined && noneMatch === undefined ? '' : JSON.stringify([match, noneMatch])
}

/**
 * Whether the conditions in `line` hold for what has the name, null for nothing.
 * Errors: PRECONDITION_FAILED.
 */
export function checkConditions(line: string, current: Attachment | null): void {
  if (line === '') return
  const lists: Json = JSON.parse(line)
  if (!Array.isArray(lists)) return
  const [match, noneMatch] = lists
  const names = (header: string, weak: boolean) =>
    current !== null && namesTag(header, tagOf(current), weak)
  const fails =
    (typeof match === 'string' && !names(match, false)) ||
    (typeof noneMatch === 'string' && names(noneMatch, true))
  if (!fails) return
  const what = current === null ? 'there is none' : `it is ${tagOf(current)}`
  throw new LedgerError('PRECONDITION_FAILED', `the attachment is another than was named: ${what}`)
}
