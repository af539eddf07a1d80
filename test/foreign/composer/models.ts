// Generates model files and instances. The models use every declaration, type, option and relationship, and inheritance across files.
import type { Random } from './random.ts'

export type Kind = 'asset' | 'participant' | 'transaction' | 'event' | 'concept' | 'enum'

export interface Field {
  readonly name: string
  /** A built-in type, or the qualified name of a declared type. */
  readonly type: string
  readonly array: boolean
  readonly optional: boolean
  readonly relationship: boolean
  /** The options after the name, as written. */
  readonly options: string
  /** Whether a value is valid; without it, all values of the type are. */
  readonly accepts?: (value: unknown) => boolean
}

export interface Type {
  readonly kind: Kind
  readonly namespace: string
  readonly name: string
  readonly qualified: string
  readonly abstract: boolean
  readonly parent: Type | null
  /** The name of the identifying field; null for concepts and enums. */
  readonly id: string | null
  /** Own fields; the values of an enum. */
  readonly fields: readonly Field[]
  readonly values: readonly string[]
}

const NUMBERS = ['Integer', 'Long', 'Double']
export const PRIMITIVES = ['String', 'Boolean', 'DateTime', ...NUMBERS]

/** Returns own and inherited fields. */
export function allFields(type: Type): Field[] {
  return [...type.fields, ...(type.parent === null ? [] : allFields(type.parent))]
}

export function isA(type: Type, ancestor: Type): boolean {
  return type === ancestor || (type.parent !== null && isA(type.parent, ancestor))
}

/** A generated model: its types, and its files. */
export interface Model {
  readonly types: readonly Type[]
  readonly files: readonly string[]
}

/** Returns a valid model with two or three namespaces. Types refer only to types that are generated before them. */
export function generateModel(random: Random): Model {
  const types: Type[] = []
  const namespaces = random.pick([
    ['org.one', 'org.two'],
    ['org.one', 'org.one.deep', 'net.b_2'],
  ])
  const kinds: Kind[] = [
    ...(['enum', 'concept', 'participant', 'asset', 'transaction', 'event'] as const),
    ...random.several(0, 6, () =>
      random.pick([
        'enum',
        'concept',
        'participant',
        'asset',
        'asset',
        'transaction',
        'event',
      ] as const),
    ),
  ]
  for (const [at, kind] of random.shuffled(kinds).entries()) {
    types.push(generateType(random, kind, at, random.pick(namespaces), types))
  }
  const used = namespaces.filter((namespace) => types.some((type) => type.namespace === namespace))
  return { types, files: used.map((namespace) => formatFile(random, namespace, types)) }
}

function generateType(
  random: Random,
  kind: Kind,
  at: number,
  namespace: string,
  types: readonly Type[],
): Type {
  const name = `${random.pick(['T', 'Kind', 'On', 'a_', 'Ä'])}${at}`
  const common = { kind, namespace, name, qualified: `${namespace}.${name}` }
  if (kind === 'enum') {
    const values = random.several(1, 3, (n) => `${random.pick(['RED', 'blue', '_x'])}${n}`)
    return { ...common, abstract: false, parent: null, id: null, fields: [], values }
  }
  const parents = types.filter((type) => type.kind === kind)
  const parent = parents.length > 0 && random.chance(35) ? random.pick(parents) : null
  const abstract = random.chance(15) && parents.some((type) => !type.abstract)
  const needsId = kind === 'asset' || kind === 'participant'
  const own = needsId && (parent === null || parent.id === null)
  // An abstract type without a parent may leave the id to its subtypes.
  const hasId = own && !(abstract && random.chance(50))
  const id = hasId
    ? `id${at}`
    : (parent?.id ??
      (kind === 'transaction' ? 'transactionId' : kind === 'event' ? 'eventId' : null))
  const taken = parent === null ? [] : allFields(parent).map((field) => field.name)
  const fields = [
    ...(hasId
      ? [
          {
            name: `id${at}`,
            type: 'String',
            array: false,
            optional: false,
            relationship: false,
            options: '',
          },
        ]
      : []),
    ...random.several(0, 5, (n) => generateField(random, `f${at}${'abcdef'.charAt(n)}`, types)),
  ].filter((field) => !taken.includes(field.name))
  return { ...common, abstract, parent, id, fields, values: [] }
}

function generateField(random: Random, name: string, types: readonly Type[]): Field {
  const targets = types.filter(
    ({ kind, id }) => (kind === 'asset' || kind === 'participant') && id !== null,
  )
  const held = types.filter(
    ({ kind, abstract, id }) =>
      kind === 'enum' ||
      (kind === 'concept' && !abstract) ||
      (kind === 'asset' && id !== null && !abstract),
  )
  const array = random.chance(20)
  const optional = random.chance(45)
  const shared = { name, array, optional }
  if (targets.length > 0 && random.chance(25)) {
    return {
      ...shared,
      type: random.pick(targets).qualified,
      relationship: true,
      options: optional ? ' optional' : '',
    }
  }
  const type = held.length > 0 && random.chance(25) ? random.pick(held) : null
  if (type !== null) {
    const preset =
      type.kind === 'enum' && !array && random.chance(20)
        ? ` default="${random.pick(type.values)}"`
        : ''
    return {
      ...shared,
      type: type.qualified,
      relationship: false,
      options: preset + (optional ? ' optional' : ''),
    }
  }
  const primitive = random.pick(PRIMITIVES)
  return {
    ...shared,
    type: primitive,
    relationship: false,
    options: array
      ? optional
        ? ' optional'
        : ''
      : primitiveOptions(random, primitive) + (optional ? ' optional' : ''),
  }
}

/** Returns default and validator in Composer's order. The default fits the validator. */
function primitiveOptions(random: Random, type: string): string {
  const preset = random.chance(25)
  switch (type) {
    case 'String':
      return (
        (preset ? ` default="${random.pick(['Zed', 'Q', 'a b'])}"` : '') +
        (random.chance(20)
          ? ` regex=${preset ? '/./' : random.pick(['/^[A-Z]/', '/^\\w+$/', '/^(a|b)*$/', '/[0-9]{2}/'])}`
          : '')
      )
    case 'Boolean':
      return preset ? ` default=${random.pick(['true', 'false'])}` : ''
    case 'DateTime':
      return preset ? ' default="2016-10-13T14:49:47.971Z"' : ''
    case 'Double':
      return (
        (preset ? ` default=${random.pick(['1.5', '-0.25', '10.0'])}` : '') +
        (random.chance(25) ? ` range=${random.pick(['[-1.0,20.5]', '[-2.5,]', '[,100.25]'])}` : '')
      )
    default:
      return (
        (preset ? ` default=${random.pick(['0', '7', '-3'])}` : '') +
        (random.chance(25) ? ` range=${random.pick(['[-5,9]', '[-10,]', '[,100]'])}` : '')
      )
  }
}

function formatFile(random: Random, namespace: string, types: readonly Type[]): string {
  const own = types.filter((type) => type.namespace === namespace)
  const others = new Set<string>()
  const shown = (name: string) => {
    if (!name.includes('.')) return name
    if (!name.startsWith(`${namespace}.`) || name.slice(namespace.length + 1).includes('.'))
      others.add(name)
    return name.slice(name.lastIndexOf('.') + 1)
  }
  const declarations = own.map((type) => {
    const comment = random.pick([
      '',
      '',
      '// a comment\n',
      '/** A type.\n * @deprecated */\n',
      '@marked("x", 1, true)\n',
      '@one\n@two()\n',
    ])
    const head = `${type.abstract ? 'abstract ' : ''}${type.kind} ${type.name}`
    const by = type.fields.some(({ name }) => name === type.id) ? ` identified by ${type.id}` : ''
    const above = type.parent === null ? '' : ` extends ${shown(type.parent.qualified)}`
    const members =
      type.kind === 'enum'
        ? type.values.map((value) => `  o ${value}`)
        : type.fields.map(
            (field) =>
              `  ${random.chance(10) ? '@noted ' : ''}${field.relationship ? '-->' : 'o'} ${shown(field.type)}${field.array ? '[]' : ''} ${field.name}${field.options}`,
          )
    return `${comment}${head}${by}${above} {\n${members.join('\n')}\n}`
  })
  const star = new Set(
    random.chance(40) ? [...others].map((name) => name.slice(0, name.lastIndexOf('.'))) : [],
  )
  const imports = [
    ...[...star].map((each) => `import ${each}.*`),
    ...[...others]
      .filter((name) => !star.has(name.slice(0, name.lastIndexOf('.'))))
      .map((name) => `import ${name}`),
  ]
  return `namespace ${namespace}\n${imports.join('\n')}\n${declarations.join('\n\n')}\n`
}

export const IDS = ['a', 'b', 'c', 'x y', 'B2', 'é']

/** Levels of nested instances up to which optional fields are made. */
const DEPTH_MAX = 5

/** Generates instances of the types of a model. */
export class Instances {
  readonly #random: Random
  readonly #types: readonly Type[]
  readonly #ids: readonly string[]
  #nested = 0
  #depth = 0

  constructor(random: Random, types: readonly Type[], ids: readonly string[] = IDS) {
    this.#random = random
    this.#types = types
    this.#ids = ids
  }

  /** Returns a valid instance, or, in `wrong` of 100 calls, an instance with a member that is changed at random. */
  make(type: Type, id: string | null, wrong: number): Record<string, unknown> {
    const random = this.#random
    const made: Record<string, unknown> = { $class: type.qualified }
    for (const field of allFields(type)) {
      if (field.name === type.id && id !== null) made[field.name] = id
      else if (!field.optional || (this.#depth < DEPTH_MAX && random.chance(50))) {
        this.#depth += 1
        made[field.name] = this.value(field)
        this.#depth -= 1
      }
    }
    if (!random.chance(wrong)) return made
    const fields = allFields(type)
    const field = fields.length === 0 ? null : random.pick(fields)
    switch (random.below(field === null ? 2 : 7)) {
      case 0:
        made[random.pick(['extra', 'constructor', 'a.b'])] = 1
        break
      case 1:
        made.$class = random.pick([...this.#types.map((other) => other.qualified), 'org.none.X'])
        break
      case 2:
        delete made[field?.name ?? '']
        break
      case 3:
        made[field?.name ?? ''] = null
        break
      default:
        made[field?.name ?? ''] = this.#odd(field?.array === true)
    }
    return made
  }

  value(field: Field): unknown {
    const { accepts } = field
    if (accepts !== undefined) {
      for (let attempt = 0; attempt < 60; attempt += 1) {
        const value = this.#one(field)
        if (accepts(value)) return field.array ? [value] : value
      }
    }
    return field.array ? this.#random.several(0, 3, () => this.#one(field)) : this.#one(field)
  }

  #one({ type, relationship, options }: Field): unknown {
    const random = this.#random
    switch (type) {
      case 'String':
        return random.pick(
          options.includes('regex')
            ? ['Ab', 'Q12', 'a', 'ab']
            : ['', 'Ab', 'text with "quotes"', 'ü\n', '12', 'null'],
        )
      case 'Boolean':
        return random.chance(50)
      case 'DateTime':
        return random.pick([
          '2020-01-01T00:00:00.000Z',
          '1999-12-31T23:59:59.999Z',
          '2018-02-03T04:05:06Z',
          '2020-05-05',
          '2020-01-01T00:00:00+02:00',
        ])
      case 'Integer':
      case 'Long':
        return random.pick([0, 1, -1, 7, 42, 2 ** 31, -5, 9])
      case 'Double':
        return random.pick([0, 1.5, -0.25, 1e21, 3, 1e-7])
    }
    const declared = this.#types.find(({ qualified }) => qualified === type)
    if (declared === undefined) throw new Error(`there is no type ${type}`)
    if (declared.kind === 'enum') return random.pick(declared.values)
    if (relationship) {
      const id = random.pick(this.#ids)
      const concrete = this.#concrete(declared).qualified
      return random.pick([
        `resource:${concrete}#${encodeURI(id)}`,
        `resource:${concrete}#${encodeURI(id)}`,
        ...(declared.abstract ? [] : [id]),
        `${concrete}#${encodeURI(id)}`,
      ])
    }
    // Composer merges nested resources of the same id, so each has its own.
    this.#nested += 1
    const made = this.make(this.#concrete(declared), `n${this.#nested}`, 0)
    if (random.chance(30) && !declared.abstract) delete made.$class
    return made
  }

  /** Returns `declared`, or one of its subtypes if it is abstract. */
  #concrete(declared: Type): Type {
    if (!declared.abstract) return declared
    const found = this.#types.filter((type) => !type.abstract && isA(type, declared))
    return found.length === 0 ? declared : this.#random.pick(found)
  }

  #odd(isArray: boolean): unknown {
    const random = this.#random
    const odd = random.pick<unknown>([
      7,
      1.5,
      '7',
      'text',
      '',
      true,
      'true',
      [],
      {},
      '2020-13-45',
      'resource:org.none.X#a',
      -1e9,
      1e9,
      ['a'],
      [1],
      [null],
    ])
    return isArray && random.chance(50) ? [odd] : odd
  }
}
