import { expect, it } from 'vitest'
import { serializerCompiler } from './serializer.ts'
import { validatorCompiler } from './validator.ts'

const ROUTE = { method: 'POST', url: '/' }
const schema: object = { type: 'object', properties: { n: { type: 'integer' } } }

it('one schema takes a text for a number in a query and refuses it in a body, at every listener', () => {
  for (const compile of [validatorCompiler(), validatorCompiler()]) {
    const body = compile({ ...ROUTE, schema, httpPart: 'body' })
    const query = compile({ ...ROUTE, schema, httpPart: 'querystring' })
    const asked = { n: '5' }
    expect([query(asked), asked]).toEqual([true, { n: 5 }])
    expect(body({ n: '5' })).toBe(false)
    expect({ ...body }).toMatchObject({ errors: [{ instancePath: '/n', keyword: 'type' }] })
    expect(body({ n: 5 })).toBe(true)
  }
})

it('every listener writes a reply by the schema that it has for it', () => {
  const other: object = { type: 'object', properties: { m: { type: 'string' } } }
  for (const compile of [serializerCompiler(), serializerCompiler()]) {
    const [one, two] = [schema, other].map((each) => compile({ ...ROUTE, schema: each }))
    expect(one?.({ n: 5, m: 'x' })).toBe('{"n":5}')
    expect(two?.({ n: 5, m: 'x' })).toBe('{"m":"x"}')
  }
})
