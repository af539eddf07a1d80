// Networks whose files would block the node while they are checked. A defect makes a test exceed its time limit.
import { expect, it } from 'vitest'
import { checkNetwork } from '../../src/network/index.ts'

const LENGTH = 1_000_000

/** Returns the messages of all errors in a network with `files`. */
function errorsIn(files: Record<string, string>): string[] {
  const all = {
    'package.json': '{"name":"hostile","version":"1.0.0"}',
    'models/m.cto': 'namespace m\ntransaction T {}',
    ...files,
  }
  const texts = Object.entries(all).map(([path, text]) => [path, Buffer.from(text)] as const)
  const { findings } = checkNetwork({ files: new Map(texts), packed: null })
  return findings
    .filter(({ severity }) => severity === 'error')
    .map(({ line, column, message }) => `${line}:${column} ${message}`)
}

function repeated(text: string): string {
  return text.repeat(LENGTH / text.length)
}

function model(text: string): Record<string, string> {
  return { 'models/m.cto': `namespace m\n${text}` }
}

function rule(condition: string): Record<string, string> {
  const parts = 'description: "" participant: "ANY" operation: ALL resource: "**"'
  return { 'permissions.acl': `rule R { ${parts} condition: (${condition}) action: ALLOW }` }
}

it('accepts a condition with a long indentation after a parenthesis', () => {
  expect(errorsIn(rule(`(true)\n${repeated(' ')}&& true`))).toEqual([])
})

it('ends a condition after comments that contain a parenthesis or another comment', () => {
  expect(errorsIn(rule('(true) // ) action:\n && (true) /* ) action: */'))).toEqual([])
})

it.each([
  ['line comments', repeated(')//')],
  ['comments', repeated(')/**/')],
  ['unclosed comments', repeated(')/*')],
])('reports a condition with many %s after parentheses', (_, condition) => {
  expect(errorsIn(rule(condition))).toHaveLength(1)
})

it('rejects a default that its regular expression cannot match in time', () => {
  const text = `concept C { o String s default="${'a'.repeat(50)}!" regex=/^(a+)+$/ }`
  const message = 'the default of s does not match its regular expression'
  expect(errorsIn(model(text))).toEqual([`2:24 ${message}`])
})

it('rejects a default that cannot be recorded', () => {
  const text = 'concept C {\no String s default="\\ud800"\no Double d default=1e999 }'
  expect(errorsIn(model(text))).toEqual([
    '3:12 the default of s must be a string in quotes, without half of a surrogate pair',
    '4:12 the default of d must be a number',
  ])
})

it.each([
  ['unclosed doc comments', `\`${repeated('/** ')}\``],
  ['spaces after “function”', `/** @return */ (function${repeated(' ')}() {})`],
])('accepts a script with many %s', (_, text) => {
  expect(errorsIn({ 'lib/a.js': text })).toEqual([])
})

it.each([
  ['unclosed comments', repeated('/* ')],
  ['unclosed strings', repeated('"\\')],
])('reports a model with many %s', (_, text) => {
  expect(errorsIn(model(text))).toHaveLength(1)
})

it('reports at most 1,000 errors of a model', () => {
  const errors = errorsIn(model(repeated('concept C {}\n\n\n\n\n\n\n\n')))
  expect(errors).toHaveLength(1_000)
  expect(errors[0]).toBe('10:9 duplicate type C in m')
})

it('rejects a type with more than 100 super types', () => {
  const chain = (length: number) =>
    Array.from({ length }, (_, at) => `concept C${at} extends C${at + 1} {}`).join('\n')
  expect(errorsIn(model(`${chain(100)} concept C100 {}`))).toEqual([])
  expect(errorsIn(model(`${chain(101)} concept C101 {}`))).toEqual([
    '2:9 C0 has more than 100 super types',
  ])
  expect(errorsIn(model(`${chain(20_000)} concept C20000 {}`))).toHaveLength(1_000)
})

it('rejects a model whose types together have more than 50,000 properties', () => {
  const inherited = (types: number) =>
    `concept B { ${Array.from({ length: 1_000 }, (_, at) => `o String p${at}`).join(' ')} }\n` +
    Array.from({ length: types }, (_, at) => `concept C${at} extends B {}`).join('\n')
  const message =
    'the types together have more than 50000 properties, including inherited properties'
  expect(errorsIn(model(inherited(48)))).toEqual([])
  expect(errorsIn(model(inherited(20_000)))).toEqual([`51:9 ${message}`])
})
