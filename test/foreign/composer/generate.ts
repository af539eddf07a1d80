// Generates networks with rules, queries and processors, and the requests of several participants.
import {
  ASK_MODEL,
  ASK_SCRIPT,
  type Call,
  generateCalls,
  type Parameter,
  parameterValue,
} from './calls.ts'
import { CONDITION_SCRIPT, generateConditions } from './conditions.ts'
import { allFields, type Field, generateModel, IDS, Instances, type Type } from './models.ts'
import { generateMutations, type Mutated } from './mutations.ts'
import { generateProcessors } from './processors.ts'
import { Random } from './random.ts'
import { generateReturn, RETURN_MODEL, RETURN_SCRIPT } from './returns.ts'

/** A request. `caller` is the id of a participant, or null for the administrator. */
export type Request = { readonly caller: string | null } & (
  | { readonly kind: 'create'; readonly type: string; readonly body: Record<string, unknown> }
  | {
      readonly kind: 'update'
      readonly type: string
      readonly id: string
      readonly body: Record<string, unknown>
    }
  | {
      readonly kind: 'createAll'
      readonly type: string
      readonly body: readonly Record<string, unknown>[]
    }
  | {
      readonly kind: 'read' | 'exists' | 'remove' | 'resolve'
      readonly type: string
      readonly id: string
    }
  | { readonly kind: 'list'; readonly type: string }
  | { readonly kind: 'submit'; readonly type: string; readonly body: Record<string, unknown> }
  | {
      readonly kind: 'query'
      readonly name: string
      readonly parameters: Record<string, string | number | boolean>
    }
  | { readonly kind: 'historian' }
  | ({ readonly kind: 'check' } & Mutated)
  | { readonly kind: 'ask'; readonly calls: readonly Call[]; readonly rereads: boolean }
)

/** A network in parts that can be left out, and the requests to it. */
export interface Case {
  readonly seed: number
  /** The declarations that `kinds` of requests refer to. */
  readonly kinds: Readonly<Record<string, Type['kind']>>
  readonly identifiers: Readonly<Record<string, string | null>>
  readonly models: readonly string[]
  /** Null without a file of rules. */
  readonly rules: readonly string[] | null
  readonly queries: readonly string[]
  readonly scripts: readonly string[]
  /** The type and ids of the participants that have identities. */
  readonly people: {
    readonly type: string
    readonly ids: readonly string[]
    /** The participants. */
    readonly bodies: Readonly<Record<string, Record<string, unknown>>>
  } | null
  readonly requests: readonly Request[]
  /** What was generated on purpose that daicho may read in another way; names of explained differences. */
  readonly features: readonly string[]
}

const SYSTEM = 'org.hyperledger.composer.system'
const text = (value: unknown) => JSON.stringify(value)

/** Returns the files of a case by path, as the network `name`. */
export function formatFiles(
  { models, rules, queries, scripts }: Pick<Case, 'models' | 'rules' | 'queries' | 'scripts'>,
  name: string,
): Map<string, string> {
  const about = { name, version: '1.0.0', description: 'x', engines: { composer: '^0.20.0' } }
  const numbered = (folder: string, ending: string, files: readonly string[]) =>
    files.map((file, at) => [`${folder}/${at}.${ending}`, file] as const)
  return new Map([
    ...numbered('lib', 'js', scripts),
    ...numbered('models', 'cto', models),
    ['package.json', text(about)] as const,
    ...(rules === null ? [] : [['permissions.acl', rules.join('\n')] as const]),
    ...(queries.length === 0 ? [] : [['queries.qry', queries.join('\n')] as const]),
  ])
}

/** Returns the case with the number `seed`. */
export function generateCase(seed: number): Case {
  const random = new Random(seed)
  const { types, files } = generateModel(random)
  const people = choosePeople(random, types)
  const queries = generateQueries(random, types)
  const instances = new Instances(random, types)
  // Its own numbers, so that the other parts of a case stay as they are.
  const added = new Random(~seed)
  const bodies =
    people === null ? {} : { a: instances.make(people, 'a', 0), b: instances.make(people, 'b', 0) }
  const parts = {
    seed,
    kinds: Object.fromEntries(types.map((type) => [type.qualified, type.kind])),
    identifiers: Object.fromEntries(types.map((type) => [type.qualified, type.id])),
    models: [...files, ASK_MODEL, RETURN_MODEL],
    rules: random.chance(15) ? null : generateRules(random, types, people, added),
    queries: queries.map((query) => query.text),
    scripts: [
      ASK_SCRIPT + CONDITION_SCRIPT,
      RETURN_SCRIPT,
      ...generateProcessors(random, types, added),
    ],
    people: people === null ? null : { type: people.qualified, ids: ['a', 'b'], bodies },
  }
  const mutations = generateMutations(random, formatFiles(parts, 'mutated'), 2 + random.below(6))
  const requests = [
    ...mutations.map((mutated): Request => ({ kind: 'check', caller: null, ...mutated })),
    ...generateSubmissions(added, types, parts.people),
    ...generateRequests(random, types, queries, parts.people),
    { kind: 'historian', caller: null } as const,
  ]
  return { ...parts, requests, features: [...features(parts.rules ?? [])] }
}

/** A condition that may throw: a member of a missing value, or the variable of ANY. */
const MAY_THROW = /nothing\.x|\.\w+\.(?:get\w+|length|some|toString)|sameId\([rpt]\.|ANY.*\bp\./

function features(rules: readonly string[]): string[] {
  const isThrowing = rules.some((rule) => rule.includes('action: DENY') && MAY_THROW.test(rule))
  return isThrowing ? ['a condition that throws, in a DENY rule'] : []
}

function choosePeople(random: Random, types: readonly Type[]): Type | null {
  const people = types.filter(({ kind, abstract }) => kind === 'participant' && !abstract)
  return people.length === 0 ? null : random.pick(people)
}

// Rules

function generateRules(
  random: Random,
  types: readonly Type[],
  people: Type | null,
  added: Random,
): string[] {
  const plain = random.several(0, 5, (at) => generateRule(random, types, people, at))
  const conditional =
    people === null ? [] : added.several(0, 3, (at) => generateConditions(added, types, people, at))
  const rules = added.chance(50) ? [...conditional, ...plain] : [...plain, ...conditional]
  const system = `rule System { description: "" participant: "ANY" operation: ALL resource: "${SYSTEM}.**" action: ALLOW }`
  const admin = `rule Admin { description: "" participant: "${SYSTEM}.NetworkAdmin" operation: ALL resource: "**" action: ALLOW }`
  const oracle =
    'rule Oracle { description: "" participant: "ANY" operation: ALL resource: "org.oracle.**" action: ALLOW }'
  const rest =
    'rule Rest { description: "" participant: "ANY" operation: ALL resource: "**" action: ALLOW }'
  return [admin, system, oracle, ...rules, ...(random.chance(60) ? [rest] : [])]
}

function generateRule(
  random: Random,
  types: readonly Type[],
  people: Type | null,
  at: number,
): string {
  const named = (kinds: readonly Type['kind'][]) => types.filter(({ kind }) => kinds.includes(kind))
  const participants = named(['participant'])
  const participant = random.pick([
    'ANY',
    ...participants.map(({ qualified }) => qualified),
    ...(people === null ? [] : [`${people.qualified}#${random.pick(['a', 'b', 'none'])}`]),
    `${SYSTEM}.Participant`,
    `${random.pick(types).namespace}.*`,
    'org.**',
    '**',
  ])
  const resources = named(['asset', 'participant', 'transaction', 'event'])
  const target = random.pick(resources)
  const resource = random.pick([
    target.qualified,
    target.qualified,
    `${target.qualified}#${random.pick(IDS)}`,
    `${target.namespace}.*`,
    `${target.namespace}.**`,
    `${SYSTEM}.Asset`,
    'org.**',
    '**',
  ])
  const transactions = named(['transaction'])
  const operation = random.pick([
    'ALL',
    'CREATE',
    'READ',
    'UPDATE',
    'DELETE',
    'READ, CREATE',
    'CREATE,UPDATE,DELETE',
    'READ,UPDATE',
  ])
  const isConditional = random.chance(50)
  const during =
    transactions.length > 0 && random.chance(20)
      ? ` transaction${isConditional && random.chance(50) ? '(t)' : ''}: "${random.pick([random.pick(transactions).qualified, `${SYSTEM}.Transaction`, `${SYSTEM}.**`, 'org.oracle.Ask'])}"`
      : ''
  const action = random.pick(['ALLOW', 'ALLOW', 'DENY'])
  const head = `rule R${at} { description: "${random.pick(['', 'x', 'ü "'.replace('"', "'")])}"`
  if (!isConditional) {
    return `${head} participant: "${participant}" operation: ${operation} resource: "${resource}"${during} action: ${action} }`
  }
  return `${head} participant(p): "${participant}" operation: ${operation} resource(r): "${resource}"${during} condition: (${generateCondition(random, target)}) action: ${action} }`
}

function generateCondition(random: Random, target: Type): string {
  const fields = allFields(target).filter(({ name }) => name !== target.id)
  const own = fields.length > 0 ? [random.pick(fields)] : []
  return random.pick([
    'true',
    'false',
    'r.getIdentifier() === p.getIdentifier()',
    'r.getIdentifier() == "a"',
    // The random ids of transactions and events, which are longer than 30 characters, all match.
    "r.getIdentifier() < 'c' || r.getIdentifier().length > 30",
    'p.getIdentifier() === "a" && r.getIdentifier() !== "b"',
    'r.nothing.x',
    'p.getType() === r.getType()',
    `r.instanceOf("${target.qualified}")`,
    'r.getIdentifier()',
    '0',
    '(function () { return r.getNamespace().length > 7 })()',
    ...own.flatMap(({ name, relationship, array }) => [
      `r.${name}`,
      `typeof r.${name} === "undefined"`,
      ...(relationship && !array ? [`r.${name}.getIdentifier() === p.getIdentifier()`] : []),
    ]),
  ])
}

// Queries

interface Query {
  readonly name: string
  readonly text: string
  readonly statement: string | null
  readonly parameters: readonly Parameter[]
}

function generateQueries(random: Random, types: readonly Type[]): Query[] {
  const selected = types.filter(
    ({ kind, abstract }) => !abstract && (kind === 'asset' || kind === 'participant'),
  )
  if (selected.length === 0) return []
  return random.several(0, 4, (at) => {
    const writer = new QueryWriter(random, types, random.pick(selected))
    const statement = writer.statement()
    const name = `Q${at}`
    const { parameters } = writer
    return {
      name,
      text: `query ${name} { description: "x" statement: ${statement} }`,
      statement: parameters.length === 0 ? statement : null,
      parameters,
    }
  })
}

const LITERALS: Readonly<Record<string, readonly string[]>> = {
  String: ["'a'", "'Ab'", "'b'", "''", "'12'", '"Ab"'],
  Boolean: ['true', 'false'],
  DateTime: [
    "'2020-01-01T00:00:00.000Z'",
    "'1999-12-31T23:59:59.999Z'",
    "'2020-05-05T00:00:00.000Z'",
  ],
  Integer: ['0', '7', '1.5', '42'],
  Long: ['0', '7', '1.5', '42'],
  Double: ['0', '7', '1.5', '42'],
}

/** Writes one statement for resources of one type, and keeps the parameters that the statement needs. */
class QueryWriter {
  readonly parameters: Parameter[] = []
  readonly #random: Random
  readonly #types: readonly Type[]
  readonly #type: Type

  constructor(random: Random, types: readonly Type[], type: Type) {
    this.#random = random
    this.#types = types
    this.#type = type
  }

  statement(): string {
    const random = this.#random
    const from = random.chance(10) ? ` FROM ${this.#type.qualified}` : ''
    const where = random.chance(80) ? ` WHERE ${this.#where(this.#type, 0)}` : ''
    const rows = (word: string) => (random.chance(20) ? ` ${word} ${this.#rowCount()}` : '')
    return `SELECT ${this.#type.qualified}${from}${where}${this.#order()}${rows('LIMIT')}${rows('SKIP')}`
  }

  #rowCount(): string {
    const random = this.#random
    return random.chance(40) ? this.#parameter('count') : String(random.pick([0, 1, 2, 3, 50]))
  }

  #parameter(type: string): string {
    const name = `p${this.parameters.length}`
    this.parameters.push({ name, type })
    return `_$${name}`
  }

  #order(): string {
    const random = this.#random
    const fields = allFields(this.#type).filter(
      ({ array, relationship, type }) => !array && !relationship && type in LITERALS,
    )
    if (fields.length === 0 || random.chance(70)) return ''
    const direction = random.pick(['', ' ASC', ' DESC'])
    const names = random.shuffled(fields).slice(0, 1 + random.below(2))
    const parts = names.map(({ name }) => `${name}${direction}`)
    return ` ORDER BY ${parts.length === 1 && random.chance(50) ? parts[0] : `[${parts.join(', ')}]`}`
  }

  #where(type: Type, depth: number): string {
    const random = this.#random
    if (depth < 2 && random.chance(35)) {
      const parts = random.several(2, 2, () => this.#where(type, depth + 1))
      return `(${parts.join(random.pick([' AND ', ' OR ']))})`
    }
    const arrays = allFields(type).filter(({ array }) => array)
    if (arrays.length > 0 && random.chance(25)) return this.#contains(random.pick(arrays))
    const [path, field] = this.#single(type)
    const operator = random.pick(
      field.type === 'Boolean' ? ['==', '!='] : ['==', '!=', '<', '<=', '>', '>='],
    )
    const value = random.chance(25) ? this.#parameter(this.#valueType(field)) : this.#literal(field)
    return random.chance(15) ? `(${value} ${operator} ${path})` : `(${path} ${operator} ${value})`
  }

  /** Returns a path to a single value, which may be in a concept. */
  #single(type: Type): readonly [path: string, field: Field] {
    const random = this.#random
    const fields = allFields(type).filter(({ array }) => !array)
    const usable = fields.filter((field) => !this.#isCompound(field))
    const nested = fields.flatMap((field) => {
      const held = this.#declared(field)
      if (!this.#isCompound(field) || held?.kind !== 'concept') return []
      return allFields(held)
        .filter((inner) => !inner.array && !this.#isCompound(inner))
        .map((inner) => [`${field.name}.${inner.name}`, inner] as const)
    })
    if (nested.length > 0 && random.chance(25)) return random.pick(nested)
    const field = random.pick(usable.length > 0 ? usable : fields)
    return [field.name, field]
  }

  #declared(field: Field): Type | undefined {
    return this.#types.find(({ qualified }) => qualified === field.type)
  }

  #isCompound(field: Field): boolean {
    const declared = this.#declared(field)
    return declared !== undefined && declared.kind !== 'enum' && !field.relationship
  }

  #contains(field: Field): string {
    const random = this.#random
    const held = this.#declared(field)
    if (held !== undefined && this.#isCompound(field)) {
      const hasUsable = allFields(held).some((inner) => !inner.array && !this.#isCompound(inner))
      const inner = hasUsable ? this.#where(held, 2) : "(missing == 'a')"
      return `(${field.name} CONTAINS ${inner})`
    }
    const value = random.pick([
      () => this.#literal(field),
      () => `[${this.#literal(field)}]`,
      () => `[${this.#literal(field)}, ${this.#literal(field)}]`,
      () => this.#parameter(this.#valueType(field)),
    ])()
    return random.chance(15)
      ? `(${value} CONTAINS ${field.name})`
      : `(${field.name} CONTAINS ${value})`
  }

  #literal(field: Field): string {
    return this.#random.pick(
      LITERALS[field.type] ?? this.#values(field).map((value) => `'${value}'`),
    )
  }

  /** The values of an enum, or relationships. */
  #values(field: Field): string[] {
    const values = this.#declared(field)?.values ?? []
    return values.length > 0
      ? [...values]
      : [`resource:${field.type}#a`, `resource:${field.type}#b`]
  }

  /** A built-in type, or the possible values of an enum or a relationship, separated by commas. */
  #valueType(field: Field): string {
    return field.type in LITERALS ? field.type : this.#values(field).join()
  }
}

// Requests

function generateRequests(
  random: Random,
  types: readonly Type[],
  queries: readonly Query[],
  people: Case['people'],
): Request[] {
  const instances = new Instances(random, types)
  const registered = types.filter(
    ({ kind, abstract }) => !abstract && (kind === 'asset' || kind === 'participant'),
  )
  const transactions = types.filter(({ kind, abstract }) => !abstract && kind === 'transaction')
  const statements = queries.flatMap(({ statement }) => statement ?? [])
  const context = { random, types, instances, queries, statements }
  const caller = () => (people === null || random.chance(40) ? null : random.pick(people.ids))
  const resource = (wrong: number) => {
    const type = random.pick(registered)
    return { type: type.qualified, body: instances.make(type, random.pick(IDS), wrong) }
  }
  const identifier = (name: string) => types.find(({ qualified }) => qualified === name)?.id ?? ''
  const made = random.several(
    2,
    5,
    (): Request => ({ kind: 'create', caller: null, ...resource(0) }),
  )
  const rest = random.several(20, 34, (): Request => {
    const { type, body } = resource(25)
    const id = random.pick([...IDS, 'none'])
    const by = caller()
    switch (random.below(12)) {
      case 0:
      case 1:
        return { kind: 'create', caller: by, type, body }
      case 2:
        return { kind: 'update', caller: by, type, body, id: String(body[identifier(type)] ?? 'a') }
      case 3:
        return { kind: 'read', caller: by, type, id }
      case 4:
        return { kind: random.pick(['exists', 'resolve', 'remove'] as const), caller: by, type, id }
      case 5:
        return { kind: 'list', caller: by, type }
      case 6:
        return {
          kind: 'createAll',
          caller: by,
          type,
          body: random.several(1, 3, () =>
            instances.make(
              random.pick(registered.filter(({ qualified }) => qualified === type)),
              random.pick(IDS),
              5,
            ),
          ),
        }
      case 7:
        if (queries.length > 0) return generateQuery(random, queries, by)
        return { kind: 'list', caller: by, type }
      case 8:
      case 9:
        if (transactions.length > 0) {
          const submitted = random.pick(transactions)
          return {
            kind: 'submit',
            caller: by,
            type: submitted.qualified,
            body: instances.make(submitted, null, 15),
          }
        }
        return { kind: 'list', caller: by, type }
      default: {
        const rereads = random.chance(5)
        return { kind: 'ask', caller: by, calls: generateCalls(context, rereads), rereads }
      }
    }
  })
  return [...made, ...rest]
}

/** Returns valid transactions that refer to resources, which are created before, and lists of all resources. */
function generateSubmissions(
  random: Random,
  types: readonly Type[],
  people: Case['people'],
): Request[] {
  const ids = ['a', 'b']
  const instances = new Instances(random, types, ids)
  const concrete = types.filter(({ abstract }) => !abstract)
  const registered = concrete.filter(({ kind }) => kind === 'asset' || kind === 'participant')
  const transactions = concrete.filter(({ kind }) => kind === 'transaction')
  const caller = () => (people === null || random.chance(60) ? null : random.pick(people.ids))
  return [
    ...registered.flatMap((type) =>
      ids.map((id): Request => {
        const body = instances.make(type, id, 0)
        return { kind: 'create', caller: null, type: type.qualified, body }
      }),
    ),
    ...random.several(3, 8, (): Request => {
      const type = random.pick(transactions.length > 0 ? transactions : registered)
      if (type.id !== 'transactionId') return { kind: 'list', caller: null, type: type.qualified }
      const body = instances.make(type, null, 0)
      return { kind: 'submit', caller: caller(), type: type.qualified, body }
    }),
    { kind: 'historian', caller: caller() },
    ...random.several(
      2,
      5,
      (): Request => ({ kind: 'submit', caller: null, ...generateReturn(random) }),
    ),
    ...[...registered, ...transactions].map(
      ({ qualified }): Request => ({ kind: 'list', caller: null, type: qualified }),
    ),
  ]
}

function generateQuery(random: Random, queries: readonly Query[], caller: string | null): Request {
  const { name, parameters } = random.pick(queries)
  const given = parameters.map((each) => [each.name, parameterValue(random, each.type)])
  return { kind: 'query', caller, name, parameters: Object.fromEntries(given) }
}
