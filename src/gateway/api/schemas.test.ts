import { expect, it } from 'vitest'
import { networkOf } from '../../../test/support/gateway.ts'
import { Aliases } from '../service.ts'
import { documentedTypes, instanceExample, instanceSchema, returnedSchema } from './schemas.ts'

const { model } = networkOf(
  `namespace org.test
  enum Colour { o RED o GREEN }
  concept Size { o Integer width range=[5,9] o Long depth range=[,-3] o Double height range=[0.5,] }
  abstract concept Shape { o Colour colour }
  concept Circle extends Shape { o Double radius range=[,7.5] }
  abstract concept Idea { }
  asset Box identified by id {
    o String id regex=/^[a-z]+$/
    o String odd regex=/^[a-z]+$/i
    o String kind default="plain"
    o Boolean open
    o DateTime made
    o Integer count
    o Size size
    o Shape[] shapes
    o Idea idea optional
    o Colour colour
    o Colour[] colours
    o String[] labels optional
    --> Box next optional
    --> Person owner
  }
  participant Person identified by name { o String name }
  asset Loop identified by id { o String id o Knot knot }
  concept Knot { o Knot[] knots }
  transaction Pack { --> Box[] boxes }
  event Packed { }`,
)
const typeNamed = (name: string) => {
  const type = model.type(`org.test.${name}`)
  if (type === null) throw new Error(`unknown type ${name}`)
  return type
}

it('describes each property with its type, bounds and default', () => {
  const { properties, required, title } = instanceSchema(typeNamed('Box'))
  expect(title).toBe('Box')
  expect(required).toEqual([
    ...['id', 'odd', 'open', 'made', 'count', 'size', 'shapes', 'colour', 'colours', 'owner'],
  ])
  const related = (name: string, id: string) => ({
    type: 'string',
    description: `A relationship: resource:org.test.${name}#<id>, or the id alone`,
    example: `resource:org.test.${name}#${id}-1`,
  })
  expect(properties).toEqual({
    $class: { type: 'string', default: 'org.test.Box', description: 'The type' },
    id: { type: 'string', pattern: '^[a-z]+$' },
    odd: { type: 'string' },
    kind: { type: 'string', default: 'plain' },
    open: { type: 'boolean' },
    made: { type: 'string', format: 'date-time' },
    count: { type: 'integer', format: 'int64' },
    size: { $ref: '#/components/schemas/org.test.Size' },
    shapes: { type: 'array', items: { $ref: '#/components/schemas/org.test.Shape' } },
    idea: { $ref: '#/components/schemas/org.test.Idea' },
    colour: { type: 'string', enum: ['RED', 'GREEN'] },
    colours: { type: 'array', items: { type: 'string', enum: ['RED', 'GREEN'] } },
    labels: { type: 'array', items: { type: 'string' } },
    next: related('Box', 'id'),
    owner: related('Person', 'name'),
  })
  expect(instanceSchema(typeNamed('Size')).properties).toMatchObject({
    width: { type: 'integer', format: 'int64', minimum: 5, maximum: 9 },
    depth: { type: 'integer', format: 'int64', maximum: -3 },
    height: { type: 'number', format: 'double', minimum: 0.5 },
  })
  expect(instanceSchema(typeNamed('Idea'))).not.toHaveProperty('required', [])
})

it('marks the members of a transaction that the server assigns as read-only and not required', () => {
  const { properties, required } = instanceSchema(typeNamed('Pack'))
  expect(required).toEqual(['boxes'])
  expect(properties).toMatchObject({
    transactionId: { type: 'string', readOnly: true },
    timestamp: { type: 'string', format: 'date-time', readOnly: true },
  })
  expect(instanceExample(typeNamed('Pack'), model)).toEqual({
    $class: 'org.test.Pack',
    boxes: ['resource:org.test.Box#id-1'],
  })
})

it('gives an example with all required members, valid values and only concrete types', () => {
  expect(instanceExample(typeNamed('Box'), model)).toEqual({
    $class: 'org.test.Box',
    ...{ id: 'id-1', odd: 'odd-1', kind: 'plain', open: false, count: 1 },
    made: '2026-01-01T00:00:00.000Z',
    size: { $class: 'org.test.Size', width: 5, depth: -3, height: 0.5 },
    shapes: [{ $class: 'org.test.Circle', colour: 'RED', radius: 1 }],
    colour: 'RED',
    colours: ['RED'],
    owner: 'resource:org.test.Person#name-1',
  })
})

it('limits the depth of the example of a recursive type', () => {
  const text = JSON.stringify(instanceExample(typeNamed('Loop'), model))
  expect(text.match(/org\.test\.Knot/g)).toHaveLength(5)
  expect(text).toContain('"knots":[]')
})

it.each([
  ['String', { type: 'string' }],
  ['Boolean', { type: 'boolean' }],
  ['DateTime', { type: 'string', format: 'date-time' }],
  ['Double', { type: 'number', format: 'double' }],
  ['Integer', { type: 'integer', format: 'int64' }],
  ['Long', { type: 'integer', format: 'int64' }],
])(
  'describes the result of a transaction that returns %s or an array of this type',
  (name, schema) => {
    expect(returnedSchema({ name, array: false, type: null })).toEqual(schema)
    expect(returnedSchema({ name, array: true, type: null })).toEqual({
      type: 'array',
      items: schema,
    })
  },
)

it('describes the result of a transaction that returns a concept or an enum', () => {
  const schemaFor = (name: string) => returnedSchema({ name, array: false, type: typeNamed(name) })
  expect(schemaFor('Size')).toEqual({ $ref: '#/components/schemas/org.test.Size' })
  expect(schemaFor('Colour')).toEqual({ type: 'string', enum: ['RED', 'GREEN'] })
})

it('documents all types of the model except enums, and the system types that have paths', () => {
  const names = documentedTypes(model).map(({ qualifiedName }) => qualifiedName)
  expect(names).toContain('org.test.Shape')
  expect(names).not.toContain('org.test.Colour')
  const system = names.filter((name) => !name.startsWith('org.test.'))
  expect(system).toEqual(
    expect.arrayContaining([
      'org.hyperledger.composer.system.HistorianRecord',
      'org.hyperledger.composer.system.Identity',
    ]),
  )
  expect(names).toHaveLength(new Set(names).size)
})

it('finds a type by its qualified name, by its short name and by its plural, unless the name is ambiguous', () => {
  const { model: two } = networkOf(
    'namespace org.one\nasset Box identified by id { o String id }',
    {
      'models/two.cto': `namespace org.two
      asset Box identified by id { o String id }
      asset Day identified by id { o String id }
      asset Fly identified by id { o String id }
      asset Bus identified by id { o String id }
      asset Dish identified by id { o String id }
      asset flies identified by id { o String id }
      abstract asset Thing identified by id { o String id }
      concept Part { }`,
    },
  )
  const aliases = new Aliases(two)
  const found = (name: string) => aliases.find(name)?.qualifiedName ?? null
  expect(['org.one.Box', 'org.two.Box', 'Box', 'boxes'].map(found)).toEqual([
    ...['org.one.Box', 'org.two.Box', null, null],
  ])
  expect(['Day', 'days', 'Bus', 'buses', 'Dish', 'dishes'].map(found)).toEqual([
    ...['org.two.Day', 'org.two.Day', 'org.two.Bus', 'org.two.Bus'],
    ...['org.two.Dish', 'org.two.Dish'],
  ])
  // The name of a type takes precedence over a plural.
  expect(['flies', 'Fly'].map(found)).toEqual(['org.two.flies', 'org.two.Fly'])
  expect(['Thing', 'things', 'Part', 'org.two.Part', 'toString'].map(found)).toEqual([
    ...[null, null, null, null, null],
  ])
  const [box, day] = ['org.one.Box', 'org.two.Day'].map((name) => two.type(name))
  if (!box || !day) throw new Error('unknown types')
  expect([aliases.shown(box, 'never'), aliases.shown(day, 'never')]).toEqual(['org.one.Box', 'Day'])
  expect([aliases.shown(box, 'required'), aliases.shown(day, 'required')]).toEqual([
    ...['org.one.Box', 'Day'],
  ])
  expect(aliases.shown(day, 'always')).toBe('org.two.Day')
})

it('gives an example of a type whose nested types have very many members', () => {
  const level = (n: number, inner: string) =>
    `concept C${n} { ${Array.from({ length: 14 }, (_, at) => `o ${inner} p${at}`).join(' ')} }`
  const levels = [0, 1, 2, 3].map((n) => level(n, `C${n + 1}`)).join('\n')
  const wide = networkOf(`namespace org.test
    ${levels} ${level(4, 'String')} asset Wide identified by id { o String id o C0 inner }`).model
  const type = wide.type('org.test.Wide')
  expect(JSON.stringify(type && instanceExample(type, wide)).length).toBeLessThan(100_000)
})
