import type { FastifyRequest } from 'fastify'
import type { Json, JsonObject } from '../../base/json.ts'
import { utf8Text } from '../../base/strict-json.ts'
import { parseExactNumber } from '../../filter/index.ts'
import { type HttpApp, HttpRefusal, readBody } from '../../http/index.ts'
import type { Model, Property, TypeDeclaration } from '../../network/index.ts'

const FIELDS_MAX = 1_000
/** Maximum number of bracketed names in a field name, e.g. 2 in `size[unit][name]`. */
const BRACKETS_MAX = 16
const NAME = /^([^[\]]+)((?:\[[^[\]]*\])*)$/

/** A field of a form with its strings, as in `size=1`, and its members, as in `size[width]=1`. */
interface Field {
  readonly texts: string[]
  readonly members: Map<string, Field>
}

/** Makes `app` parse HTML forms (`application/x-www-form-urlencoded`) as a `Form`. */
export function acceptUrlEncodedForms(app: HttpApp): void {
  app.addContentTypeParser('application/x-www-form-urlencoded', async (request: FastifyRequest) => {
    const body = await readBody(request)
    return body.length === 0 ? undefined : Form.parse(utf8Text(body))
  })
}

/** An HTML form. `toInstance` converts its strings to the types in a model. */
export class Form {
  readonly #root = emptyField()

  /** Parses a form. Errors: 400. */
  static parse(text: string): Form {
    const form = new Form()
    const pairs = text.split('&', FIELDS_MAX + 1)
    if (pairs.length > FIELDS_MAX) throw malformed(`a form may have at most ${FIELDS_MAX} fields`)
    for (const pair of pairs) {
      if (pair === '') continue
      const equals = pair.indexOf('=')
      const name = decodePart(equals === -1 ? pair : pair.slice(0, equals))
      form.#add(name, equals === -1 ? '' : decodePart(pair.slice(equals + 1)))
    }
    return form
  }

  /**
   * Returns the form as an instance of `type`. A string that cannot be converted to the type of its property stays
   * a string, so that validation reports the property.
   */
  toInstance(type: TypeDeclaration, model: Model): JsonObject {
    return fieldInstance(this.#root, type, model)
  }

  #add(name: string, text: string): void {
    const [, first, brackets = ''] = NAME.exec(name) ?? []
    if (first === undefined) throw malformed(`invalid field name: ${name.slice(0, 64)}`)
    const inner = brackets === '' ? [] : brackets.slice(1, -1).split('][')
    if (inner.length > BRACKETS_MAX) {
      throw malformed(`a field name may have at most ${BRACKETS_MAX} pairs of brackets`)
    }
    // `tags[]` adds an element to `tags`.
    if (inner.at(-1) === '') inner.pop()
    let field = this.#root
    for (const part of [first, ...inner]) {
      const member = field.members.get(part) ?? emptyField()
      field.members.set(part, member)
      field = member
    }
    field.texts.push(text)
  }
}

function emptyField(): Field {
  return { texts: [], members: new Map() }
}

function fieldInstance({ members }: Field, declared: TypeDeclaration, model: Model): JsonObject {
  const [named] = members.get('$class')?.texts ?? []
  const type = (named === undefined ? null : model.type(named)) ?? declared
  const entries = [...members].map(
    ([name, field]) => [name, toMember(field, type.properties.get(name), model)] as const,
  )
  return Object.fromEntries(entries)
}

function toMember(field: Field, property: Property | undefined, model: Model): Json {
  const { texts, members } = field
  if (property?.array === true) {
    // Indexes such as 0 in `links[0][name]=a` are ignored. The elements have the order of the form.
    const elements = [...members.values()].map((element) => toValue(element, property, model))
    return [...texts.map((text) => parseValue(text, property)), ...elements].filter(
      (each) => each !== null,
    )
  }
  return toValue(field, property, model)
}

function toValue(field: Field, property: Property | undefined, model: Model): Json {
  const { texts, members } = field
  if (members.size > 0) {
    const type = property?.type ?? null
    if (type !== null) return fieldInstance(field, type, model)
    return Object.fromEntries([...members.keys()].map((name) => [name, '']))
  }
  const [only = ''] = texts
  return texts.length > 1 ? texts : parseValue(only, property)
}

function parseValue(text: string, property: Property | undefined): Json {
  // A blank field of a form means no value, except for a text.
  if (text === '' && property !== undefined && property.primitive !== 'String') return null
  switch (property?.primitive) {
    case 'Boolean':
      return text === 'true' || text === 'false' ? text === 'true' : text
    case 'Double':
    case 'Integer':
    case 'Long':
      return parseExactNumber(text) ?? text
    default:
      return text
  }
}

function decodePart(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    throw malformed('invalid percent-encoding in the form')
  }
}

function malformed(message: string): HttpRefusal {
  return new HttpRefusal(400, 'REQUEST_INVALID', message)
}
