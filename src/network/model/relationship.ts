import { isA, type Model, type TypeDeclaration } from './model.ts'

/** What a relationship leads to; whether it is there is another question. */
export interface Target {
  /** Qualified name. */
  readonly type: string
  readonly id: string
}

const SCHEME = 'resource:'
/** An id that is written as it is. */
const PLAIN_ID = /^[\w.-]*$/

/**
 * The canonical text of a relationship, `resource:<qualified type>#<id>`. The id is written as in a
 * URI's fragment (RFC 3986), so what is no plain ASCII is percent-encoded.
 */
export function relationshipText({ type, id }: Target): string {
  const text = PLAIN_ID.test(id) ? id : encodeURI(id).replaceAll('#', '%23')
  return `${SCHEME}${type}#${text}`
}

/**
 * What the text of a relationship to `declared` leads to: `resource:ns.Type#id`, `ns.Type#id`, or a
 * bare id of the declared type. A text instead says why it leads nowhere.
 */
export function targetOf(text: string, declared: TypeDeclaration, model: Model): Target | string {
  const rest = text.startsWith(SCHEME) ? text.slice(SCHEME.length) : text
  const hash = rest.indexOf('#')
  if (hash === -1) {
    if (rest !== text) return `a relationship is written ${SCHEME}<type>#<id>`
    return rest === '' ? 'the id is empty' : { type: declared.qualifiedName, id: rest }
  }
  const type = model.type(rest.slice(0, hash))
  if (type === null) return `there is no type ${rest.slice(0, hash)}`
  if (!isA(type, declared)) return `${type.qualifiedName} is no ${declared.qualifiedName}`
  const id = decoded(rest.slice(hash + 1))
  return id === '' ? 'the id is empty' : { type: type.qualifiedName, id }
}

/** The target of a canonical text. */
export function targetOfCanonical(text: string): Target | null {
  const hash = text.indexOf('#')
  if (!text.startsWith(SCHEME) || hash === -1) return null
  return { type: text.slice(SCHEME.length, hash), id: decoded(text.slice(hash + 1)) }
}

function decoded(id: string): string {
  if (!id.includes('%')) return id
  try {
    return decodeURIComponent(id)
  } catch {
    // A percent sign that encodes nothing is one.
    return id
  }
}
