// Generates `src/client/operations.ts`, the types of the ledger's operations, from the OpenAPI document that the
// ledger serves. Run this script after a change of a route or its schemas:
//   node scripts/make-client-types.ts
// test/client/operations.test.ts fails if the file is out of date.
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { pino } from 'pino'
import { systemClock } from '../src/base/clock.ts'
import { buildApp } from '../src/http/index.ts'
import { openLedger } from '../src/ledger/core.ts'
import { ledgerComponent } from '../src/ledger/index.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
export const OPERATIONS_FILE = join(root, 'src/client/operations.ts')

/** The JSON schema keywords that our routes use. */
interface Schema {
  readonly type?: string | readonly string[]
  readonly const?: unknown
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: boolean | Schema
  readonly description?: string
}

interface Operation {
  readonly summary?: string
  readonly parameters?: readonly {
    readonly in: string
    readonly name: string
    readonly required?: boolean
    readonly schema: Schema
  }[]
  readonly requestBody?: {
    readonly required?: boolean
    readonly content: Readonly<Record<string, { schema: Schema }>>
  }
  readonly responses: Readonly<
    Record<string, { content?: Readonly<Record<string, { schema: Schema }>> }>
  >
}

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
}

export async function operationsText(): Promise<string> {
  const { paths } = await documentOfLedger()
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) =>
      operationText(`${method.toUpperCase()} ${path}`, operation),
    ),
  )
  return formatted(
    '// Made by scripts/make-client-types.ts. Do not edit.\n' +
      '/** The input and the reply of each operation with JSON or text, by method and path. */\n' +
      `export interface Operations {\n${operations.filter((text) => text !== '').join('\n')}\n}\n`,
  )
}

async function documentOfLedger(): Promise<Document> {
  const ledger = await openLedger({ folder: null, clock: systemClock })
  const logger = pino({ level: 'silent' })
  const component = ledgerComponent({
    ledger: ledger.service,
    credentials: { name: '', password: '' },
    tokens: null,
    logger,
    clock: systemClock,
    monotonic: systemClock,
    version: '',
    close: () => ledger.close(),
  })
  const app = await buildApp(component, { logger, publicHosts: new Set() })
  try {
    const reply = await app.inject({ url: '/doc/json', headers: { host: 'localhost' } })
    return JSON.parse(reply.body)
  } finally {
    await app.close()
  }
}

/** Returns the type of an operation; empty unless its body is JSON, and its reply JSON or text. */
function operationText(key: string, operation: Operation): string {
  const { summary = '', parameters = [], requestBody, responses } = operation
  const body = requestBody?.content['application/json']?.schema
  const content = responses['200']?.content
  const reply = (content?.['application/json'] ?? content?.['text/plain'])?.schema
  const isForeign = requestBody !== undefined && body === undefined
  if (isForeign || reply === undefined) return ''
  const members = [
    ...parametersText('path', parameters),
    ...parametersText('query', parameters),
    ...(body === undefined ? [] : [`body${requestBody?.required ? '' : '?'}: ${typeOf(body)}`]),
  ]
  const input = members.length === 0 ? 'object' : `{ ${members.join('; ')} }`
  return `/** ${summary.replaceAll('*/', '* /')} */\n'${key}': { input: ${input}; reply: ${typeOf(reply)} }`
}

/** Returns the type of the parameters. Omits `token`, because the client sends the token in a header. */
function parametersText(place: 'path' | 'query', all: Operation['parameters'] = []): string[] {
  const own = all.filter((parameter) => parameter.in === place && parameter.name !== 'token')
  if (own.length === 0) return []
  const isNeeded = own.some(({ required }) => required === true)
  const members = own.map(
    ({ name, required, schema }) =>
      `${memberComment(schema)}${nameText(name)}${required === true ? '' : '?'}: ${typeOf(schema)}`,
  )
  return [`${place}${isNeeded ? '' : '?'}: { ${members.join('; ')} }`]
}

function typeOf(schema: Schema): string {
  const { const: value, enum: values, oneOf, anyOf = oneOf, type, items } = schema
  if (value !== undefined) return literal(value)
  if (values !== undefined) return values.map(literal).join(' | ')
  if (anyOf !== undefined) {
    const comments = new Set<string>()
    const once = (comment: string) => {
      if (comments.has(comment)) return ''
      comments.add(comment)
      return comment
    }
    const alternatives = anyOf.map((each) => typeOf(each).replace(/\n\/\*\* .* \*\/\n/g, once))
    return [...new Set(alternatives)].join(' | ')
  }
  if (Array.isArray(type)) return type.map((each) => typeOf({ ...schema, type: each })).join(' | ')
  switch (type) {
    case 'integer':
      return 'number'
    case 'string':
    case 'number':
    case 'boolean':
    case 'null':
      return String(type)
    case 'array':
      return `readonly (${typeOf(items ?? {})})[]`
    case 'object':
      return objectText(schema)
    default:
      return 'unknown'
  }
}

function objectText({ properties = {}, required = [], additionalProperties }: Schema): string {
  // Every reply has the status `true`: the client refuses any other.
  const own = Object.entries(properties).filter(
    ([name, member]) => name !== 'status' || typeOf(member) !== 'true',
  )
  const members = own.map(([name, member]) => {
    const mark = required.includes(name) ? '' : '?'
    return `${memberComment(member)}${nameText(name)}${mark}: ${typeOf(member)}`
  })
  if (additionalProperties === true) members.push('[member: string]: unknown')
  else if (typeof additionalProperties === 'object') {
    members.push(`[member: string]: ${typeOf(additionalProperties)}`)
  }
  return members.length === 0 ? 'object' : `{ ${members.join('; ')} }`
}

const literal = (value: unknown) =>
  typeof value === 'string' ? `'${value.replaceAll("'", "\\'")}'` : JSON.stringify(value)
const nameText = (name: string) => (/^[A-Za-z_]\w*$/.test(name) ? name : `'${name}'`)

function memberComment({ description }: Schema): string {
  if (description === undefined) return ''
  const [first = ''] = description.split('\n')
  return `\n/** ${first.replaceAll('*/', '* /')} */\n`
}

function formatted(text: string): string {
  const { stdout, stderr, status } = spawnSync(
    join(root, 'node_modules/.bin/biome'),
    ['check', '--write', '--colors=off', `--stdin-file-path=${OPERATIONS_FILE}`],
    { cwd: root, input: text, encoding: 'utf8' },
  )
  if (status !== 0) throw new Error(`biome cannot format the types: ${stderr}`)
  return stdout
}

if (import.meta.main) writeFileSync(OPERATIONS_FILE, await operationsText())
