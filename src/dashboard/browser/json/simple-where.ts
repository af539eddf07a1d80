import type { Texts } from '../language/english.ts'

/** What the value of a member may be compared by. */
export type Operator = keyof Texts['operators']

/**
 * The condition that `member` is as `operator` and `text` say, as JSON; null without a member.
 * A text that is JSON of a number, true, false or null stands for that, and for itself.
 */
export function simpleWhere(member: string, operator: Operator, text: string): string | null {
  const name = member.trim()
  if (name === '') return null
  const value = scalarOf(text)
  if (operator === 'eq' && value !== text) {
    return JSON.stringify({ or: [{ [name]: { eq: value } }, { [name]: { eq: text } }] })
  }
  if (operator === 'neq' && value !== text) {
    return JSON.stringify({ and: [{ [name]: { neq: value } }, { [name]: { neq: text } }] })
  }
  if (operator === 'exists') return JSON.stringify({ [name]: { exists: text !== 'false' } })
  const isText = operator === 'like' || operator === 'regexp'
  return JSON.stringify({ [name]: { [operator]: isText ? text : value } })
}

function scalarOf(text: string): string | number | boolean | null {
  if (text === 'true' || text === 'false') return text === 'true'
  if (text === 'null') return null
  return /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text) ? Number(text) : text
}
