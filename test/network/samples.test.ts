// The public sample networks. Compares their models and their valid instances with an independent parser
// (`oracle.ts`).
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonObject } from '../../src/base/json.ts'
import { checkNetwork, readNetwork } from '../../src/network/index.ts'
import { checkInstance } from '../../src/network/model/validation.ts'
import {
  type OracleProperty,
  type OracleType,
  oracleAccepts,
  oracleIsA,
  oracleProperties,
  oracleTypes,
} from './oracle.ts'

const folder = fileURLToPath(new URL('../networks', import.meta.url))
const networks = readdirSync(folder).filter((name) => statSync(join(folder, name)).isDirectory())
const RUNS = 300

describe.each(networks)('%s', (name) => {
  const { definition, findings } = checkNetwork(readNetwork(join(folder, name)))
  const models = join(folder, name, 'models')
  const [file = ''] = readdirSync(models)
  const text = readFileSync(join(models, file), 'utf8')
  const types = oracleTypes(text)
  const namespace = /namespace\s+(\S+)/.exec(text)?.[1] ?? ''

  it('loads without errors, and with no warning but of a rule that a rule above it decides', () => {
    const redundant = 'rule NetworkAdminSystem never matches: rule SystemACL decides first'
    expect(findings.filter(({ message }) => message !== redundant)).toEqual([])
    expect(definition?.rules?.length).toBeGreaterThan(0)
  })

  it('has the types and properties that the reference parser finds', () => {
    expect(types.size).toBeGreaterThan(3)
    for (const type of types.values()) {
      const declared = definition?.model.type(`${namespace}.${type.name}`)
      expect([declared?.kind, declared?.abstract]).toEqual([type.kind, type.isAbstract])
      if (type.kind === 'enum') expect([...(declared?.values ?? [])]).toEqual(type.values)
      else {
        const names = oracleProperties(types, type).map((property) => property.name)
        expect([...(declared?.properties.keys() ?? [])].sort()).toEqual(names.sort())
      }
    }
  })

  it.each([true, false])(
    'accepts exactly the instances that the reference parser accepts, with strict numbers: %s',
    (strictNumbers) => {
      let taken = 0
      fc.assert(
        fc.property(anyInstance(types, namespace), ({ type, value }) => {
          const declared = definition?.model.type(`${namespace}.${type}`)
          if (definition === null || declared == null) throw new Error(`no type ${type}`)
          const { problems } = checkInstance(definition.model, declared, value, { strictNumbers })
          const expected = oracleAccepts(types, namespace, type, value, strictNumbers)
          expect(problems === null, JSON.stringify([type, value, problems])).toBe(expected)
          taken += Number(expected)
        }),
        { numRuns: RUNS },
      )
      // Checks that the generator produced both accepted and rejected instances.
      expect(taken).toBeGreaterThan(RUNS / 10)
      expect(taken).toBeLessThan(RUNS * 0.95)
    },
  )

  it('does not change a value that is already normalized', () => {
    fc.assert(
      fc.property(anyInstance(types, namespace), ({ type, value }) => {
        const declared = definition?.model.type(`${namespace}.${type}`)
        if (definition === null || declared == null) throw new Error(`no type ${type}`)
        const once = checkInstance(definition.model, declared, value, { strictNumbers: true })
        fc.pre(once.resource !== null)
        const twice = checkInstance(definition.model, declared, once.resource, {
          strictNumbers: true,
        })
        expect(twice.resource).toEqual(once.resource)
        expect(once.resource.$class).toMatch(/\.[A-Z]/)
      }),
      { numRuns: RUNS },
    )
  })
})

interface Generated {
  readonly type: string
  readonly value: JsonObject
}

/** Instances of concrete types. Most of them are valid, and the others have one error. */
function anyInstance(types: ReadonlyMap<string, OracleType>, namespace: string) {
  const concrete = [...types.values()].filter(
    ({ kind, isAbstract }) => kind !== 'enum' && !isAbstract,
  )
  return fc.constantFrom(...concrete).chain((type) =>
    fc.record<Generated>({
      type: fc.constant(type.name),
      value: fc.oneof(
        { weight: 2, arbitrary: instanceOf(type, 0, false) },
        { weight: 3, arbitrary: instanceOf(type, 0, true) },
      ),
    }),
  )

  function instanceOf(type: OracleType, depth: number, faulty: boolean): fc.Arbitrary<JsonObject> {
    const members = oracleProperties(types, type).map((property) => [
      property.name,
      memberOf(property, depth, faulty),
    ])
    const whole = fc.record({
      $class: fc.constant(`${namespace}.${type.name}`),
      ...Object.fromEntries(members),
    })
    if (!faulty) return whole
    const names = ['$class', ...members.map(([name]) => String(name))]
    return fc.tuple(whole, fc.constantFrom(...names), fc.integer({ min: 0, max: 7 })).map(spoiled)
  }

  function spoiled([value, name, how]: [JsonObject, string, number]): JsonObject {
    const { [name]: _gone, ...rest } = value
    switch (how) {
      case 0:
        return rest
      case 1:
        return { ...value, [name]: null }
      case 2:
        return { ...value, unknown: 1 }
      case 3:
        return { ...value, $class: `${namespace}.Nothing` }
      default:
        return value
    }
  }

  function memberOf(
    property: OracleProperty,
    depth: number,
    faulty: boolean,
  ): fc.Arbitrary<unknown> {
    const one = oneOf(property, depth, faulty)
    const right = property.isArray ? fc.array(one, { maxLength: 2 }) : one
    const sometimes = property.isOptional
      ? fc.oneof({ weight: 2, arbitrary: right }, { weight: 1, arbitrary: fc.constant(null) })
      : right
    if (!faulty) return sometimes
    return fc.oneof({ weight: 19, arbitrary: sometimes }, { weight: 1, arbitrary: WRONG })
  }

  function oneOf({ type, isReference }: OracleProperty, depth: number, faulty: boolean) {
    if (isReference) return reference(type)
    switch (type) {
      case 'String':
        return fc.string({ minLength: 1, maxLength: 8 })
      case 'Boolean':
        return fc.boolean()
      case 'Double':
        return fc.double({ noNaN: true, noDefaultInfinity: true })
      case 'Integer':
      case 'Long':
        return faulty ? fc.constantFrom(0, 7, -3, 1.5) : fc.integer()
      case 'DateTime':
        return fc.constantFrom(
          '2020-02-03T04:05:06Z',
          '2026-11-20T12:00:00.5+09:00',
          '2020-01-01T00:00',
        )
    }
    const declared = types.get(type)
    if (declared?.kind === 'enum') return fc.constantFrom(...declared.values)
    const fitting = [...types.values()].filter(
      (each) => !each.isAbstract && oracleIsA(types, each.name, type),
    )
    const [first] = fitting
    if (first === undefined || depth > 2) return fc.constant({})
    return fc.constantFrom(...fitting).chain((each) => instanceOf(each, depth + 1, false))
  }

  function reference(type: string): fc.Arbitrary<string> {
    const id = fc.constantFrom('a', 'b c', 'ä', 'x@y.z', '%41')
    return fc.oneof(
      id,
      id.map((each) => `${namespace}.${type}#${each}`),
      id.map((each) => `resource:${namespace}.${type}#${each}`),
    )
  }
}

const WRONG: fc.Arbitrary<unknown> = fc.constantFrom(
  ...['', 'NO_SUCH_VALUE', 'resource:', 'a#b', 'resource:x.Y#z', '2020-13-40T00:00:00Z', '{}'],
  ...[0, -1.5, true, [], {}, [[]], [null], { $class: 'x.Y' }, '\u0000'],
)
