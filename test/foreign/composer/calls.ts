// Generates calls of the API that a processor has: registries, factory, serializer, instances, queries, events.
import { allFields, type Field, IDS, type Instances, type Type } from './models.ts'
import type { Random } from './random.ts'

/** A parameter of a query, with the type of the field that it is compared with. */
export interface Parameter {
  readonly name: string
  readonly type: string
}

export interface CallContext {
  readonly random: Random
  readonly types: readonly Type[]
  readonly instances: Instances
  readonly queries: readonly { readonly name: string; readonly parameters: readonly Parameter[] }[]
  readonly statements: readonly string[]
}

/** One call: JavaScript that returns a value or throws, and the kind of call, which `explained.ts` names. */
export interface Call {
  readonly code: string
  readonly kind: string
  /** Whether the call writes to a registry. */
  readonly writes: boolean
}

const SHOW = `
function show(value, depth) {
  depth = depth || 0
  if (value === undefined) return 'undefined'
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return JSON.stringify(value)
  if (typeof value === 'number') return Object.is(value, -0) ? '-0' : String(value)
  if (typeof value === 'function') return 'function'
  if (value instanceof Date) return isNaN(value) ? 'Date(invalid)' : 'Date(' + value.toISOString() + ')'
  if (Array.isArray(value)) return '[' + value.map(function (each) { return show(each, depth + 1) }).join(',') + ']'
  if (typeof value.getFullyQualifiedType !== 'function') {
    return '{' + Object.keys(value).sort().map(function (key) { return key + ':' + show(value[key], depth + 1) }).join(',') + '}'
  }
  if (depth > 0 && value.getFullyQualifiedIdentifier) return '<' + value.getFullyQualifiedIdentifier() + '>'
  if (depth > 6) return '...'
  if (value.isRelationship && value.isRelationship()) return 'to<' + value.getFullyQualifiedIdentifier() + '>'
  const keys = Object.keys(value).filter(function (key) { return key.charAt(0) !== '$' }).sort()
  return value.getFullyQualifiedType() + '{' + keys.map(function (key) { return key + ':' + show(value[key], depth + 1) }).join(',') + '}'
}`

/** The model and the script of the transaction `Ask`, which evaluates calls and returns what each returned or threw. */
export const ASK_MODEL = `namespace org.oracle
@returns(String[])
transaction Ask { o String[] calls }
event Ran { o String name }
`
export const ASK_SCRIPT = `/**
 * Evaluates calls.
 * @param {org.oracle.Ask} tx the calls
 * @transaction
 */
async function askEach(tx) {
  const F = getFactory()
  const S = getSerializer()
  const kept = {}
  const registry = function (kind, type) { return kind === 'asset' ? getAssetRegistry(type) : getParticipantRegistry(type) }
  const made = function (json) { return S.fromJSON(json) }
  const answers = []
  for (const call of tx.calls) {
    try {
      answers.push(show(await eval('(async function () {' + call + '})()')))
    } catch (error) {
      answers.push('!' + error.message)
    }
  }
  return answers
}
${SHOW}
`

/** Returns calls for one transaction. A resource that was written is not read again, unless `rereads` is set. */
export function generateCalls(context: CallContext, rereads: boolean): Call[] {
  const { random } = context
  const calls: Call[] = []
  const written = new Set<string>()
  const count = 2 + random.below(9)
  while (calls.length < count) {
    const made = generateCall(context, rereads ? new Set() : written)
    if (made !== null) calls.push(made)
  }
  return calls
}

const text = (value: unknown) => JSON.stringify(value)

function generateCall(context: CallContext, written: Set<string>): Call | null {
  const { random } = context
  const read = (kind: string, code: string): Call => ({ kind, code, writes: false })
  switch (random.below(10)) {
    case 0:
    case 1:
      return registryRead(context, written)
    case 2:
      return registryWrite(context, written)
    case 3:
      return factoryCall(context)
    case 4:
    case 5:
      return serializerCall(context)
    case 6:
    case 7:
      return instanceCall(context)
    case 8:
      return random.chance(50) ? eventCall(context) : queryCall(context, written)
    default:
      return read(
        'globals',
        random.pick([
          'return getCurrentParticipant()',
          'return getCurrentIdentity() === null ? null : getCurrentIdentity().getFullyQualifiedType()',
          'return tx.getFullyQualifiedType()',
          'return tx.getIdentifier() === tx.transactionId',
          'return tx.timestamp instanceof Date',
          'return typeof tx.calls',
          'return [typeof getFactory, typeof query, typeof emit, typeof post, typeof request, typeof assert, typeof buildQuery]',
          'undeclaredName = 5; return undeclaredName',
          'return typeof this',
          'return nothing.x',
          'throw new Error("own text")',
          'throw new TypeError("own type")',
          'assert(false, "refused")',
          'assert.ok(0, "zero")',
          'assert.equal(1, 2, "differs")',
          'assert.deepEqual({ a: 1 }, { a: 1 }); return 1',
          'assert.strictEqual(1, "1", "strict")',
          'assert.throws(() => { throw new Error("x") }); return 2',
          'assert.notEqual(1, 1, "same")',
          'throw "a text"',
          'throw undefined',
          'throw { message: "own text" }',
          'return Promise.reject(new Error("own text"))',
          'return getAssetRegistry()',
          'return getAssetRegistry(5)',
          'return getParticipantRegistry("")',
          'return tx.toString() === "Resource {id=org.oracle.Ask#" + tx.transactionId + "}"',
          'return [typeof console, typeof process, typeof global, typeof setTimeout, typeof Buffer]',
          'return typeof require',
          'return getCurrentParticipant() === null ? null : getCurrentParticipant().toString()',
          'return (function () { return this === undefined })()',
          'return [1.5.toFixed(), (0.1 + 0.2), 1e21, 123456789012345680000, -1e-7]',
          'return [1,10,9].sort().concat(["b","a","B"].sort())',
          'return [..."aé😀"].length + "é".normalize("NFD").length',
          'return new Date(2020, 0, 31, 12).toISOString()',
          'return new Date("2020-02-30").getTime()',
          'return [Date.parse("2020-01-01"), Date.parse("2020-01-01T00:00"), Date.parse("Jan 1, 2020"), Date.parse("2020-1-1")]',
          'return new Date(0).toString() + new Date(0).toDateString()',
          'return JSON.stringify({ a: undefined, b: [undefined], c: new Date(0), d: NaN })',
          'return [parseInt("08"), parseFloat("1.5x"), Number(""), Number("0x10"), +"1e3"]',
          'return "x-y-z".split("-", 2).join() + "abc".substr(-2, 1) + "aXbX".replace(/x/gi, "$&$&")',
        ]),
      )
  }
}

function registered({ random, types }: CallContext): Type {
  return random.pick(types.filter(({ kind }) => kind === 'asset' || kind === 'participant'))
}

const concrete = (types: readonly Type[], ...kinds: Type['kind'][]) =>
  types.filter(({ kind, abstract }) => !abstract && kinds.includes(kind))

function registryRead(context: CallContext, written: Set<string>): Call | null {
  const { random } = context
  const type = registered(context)
  const id = random.pick([...IDS, 'none'])
  if (written.size > 0 && [...written].some((key) => key.startsWith(`${type.qualified}#`)))
    return null
  const open = `const r = await registry(${text(random.chance(95) ? type.kind : 'asset')}, ${text(random.chance(97) ? type.qualified : 'org.none.X')}); `
  const code = random.pick([
    `return r.get(${text(id)})`,
    `return r.get(${text(id)})`,
    `return r.exists(${text(id)})`,
    'return r.getAll()',
    'return (await r.getAll()).map((one) => one.getIdentifier())',
    `const a = await r.get(${text(id)}); return S.toJSON(a)`,
    `const a = await r.get(${text(id)}); return [a.getType(), a.getNamespace(), a.getIdentifier(), a.toString(), a.isResource(), a.isRelationship()]`,
    `const a = await r.get(${text(id)}); return a.instanceOf(${text(random.pick(context.types).qualified)})`,
    `const a = await r.get(${text(id)}); return a.toURI()`,
    'return [r.id, r.type, r.name]',
    `return r.resolve(${text(id)})`,
    'return r.resolveAll()',
    `return r.get(${random.pick(['undefined', 'null', '5', '{}', '""'])})`,
    `return r.exists(${random.pick(['undefined', 'null', '5', '{}', '""'])})`,
    `const [a, b] = await Promise.all([r.exists(${text(id)}), r.getAll()]); return [a, b.length]`,
    'return r.none()',
  ])
  return { kind: 'read', code: open + code, writes: false }
}

function registryWrite(context: CallContext, written: Set<string>): Call | null {
  const { random, instances } = context
  const type = registered(context)
  const id = random.pick(IDS)
  const key = `${type.qualified}#${id}`
  if (written.has(key)) return null
  written.add(key)
  const open = `const r = await registry(${text(type.kind)}, ${text(type.qualified)}); `
  const json = text(instances.make(type, id, 10))
  const fields = allFields(type).filter(({ name }) => name !== type.id)
  const field = fields.length > 0 ? random.pick(fields) : null
  const change =
    field === null ? '' : `a[${text(field.name)}] = made(${json})[${text(field.name)}]; `
  const code = random.pick([
    `await r.add(made(${json})); return 1`,
    `await r.add(made(${json})); return 1`,
    `return r.addAll([made(${json})])`,
    `await r.update(made(${json})); return 2`,
    `const a = await r.get(${text(id)}); ${change}await r.update(a); return 3`,
    `const a = await r.get(${text(id)}); ${change}await r.updateAll([a]); return 4`,
    `await r.remove(${text(id)}); return 5`,
    `await r.remove(await r.get(${text(id)})); return 6`,
    `await r.removeAll([${text(id)}]); return 7`,
    `const a = F.newResource(${text(type.namespace)}, ${text(type.name)}, ${text(id)}); await r.add(a); return 8`,
    `const a = made(${json}); a.undeclared = 1; await r.add(a); return 9`,
    field === null
      ? 'return 0'
      : `const a = made(${json}); a[${text(field.name)}] = ${odd(random)}; await r.add(a); return 10`,
    'await r.add({}); return 11',
    'await r.add(undefined); return 12',
    'await r.update("text"); return 13',
    `await r.addAll([made(${json}), made(${json})]); return 14`,
    'await r.addAll([]); await r.updateAll([]); await r.removeAll([]); return 15',
    'await r.addAll(undefined); return 16',
    'await r.addAll({}); return 17',
    'await r.remove(undefined); return 18',
    `await r.remove(made(${json})); return 19`,
    `await r.add(F.newRelationship(${text(type.namespace)}, ${text(type.name)}, ${text(id)})); return 20`,
    `const a = made(${json}); await r.add(a); a.$type; return a`,
    'await r.remove("none"); return 21',
  ])
  return { kind: 'write', code: open + code, writes: true }
}

function odd(random: Random): string {
  return random.pick([
    '5',
    '"5"',
    'true',
    'null',
    'undefined',
    '[]',
    '["a"]',
    '{}',
    'new Date(0)',
    '1.5',
    'NaN',
    'Infinity',
    '"text"',
    '-0',
    'function () {}',
  ])
}

function factoryCall({ random, types }: CallContext): Call {
  const type = random.pick(types)
  const id = random.pick(['"a"', '"b"', '""', '" "', '5', 'undefined', 'null', '"x y"'])
  const names = `${text(random.chance(95) ? type.namespace : 'org.none')}, ${text(type.name)}`
  const call = random.pick([
    `F.newResource(${names}, ${id})`,
    `F.newResource(${names}, ${id})`,
    `F.newRelationship(${names}, "a")`,
    `F.newRelationship(${names}, "x y").toURI()`,
    `F.newRelationship(${names}, "a").toString()`,
    `F.newConcept(${names})`,
    `F.newEvent(${names}).getFullyQualifiedType()`,
    `F.newResource(${names})`,
    `F.newResource(${names}, "a", { generate: "empty" })`,
    `F.newConcept(${names}, { includeOptionalFields: true })`,
    `F.newTransaction(${names}, "a").getFullyQualifiedType()`,
    `S.toJSON(F.newResource(${names}, ${id}))`,
    `S.toJSON(F.newRelationship(${names}, "a"))`,
    `F.newRelationship(${names}, "a").getFullyQualifiedIdentifier()`,
    `F.newRelationship(${names}, "a").${random.pick(['isRelationship', 'isResource', 'getType', 'getNamespace', 'getIdentifier', 'toJSON'])}()`,
  ])
  return { kind: 'factory', code: `return ${call}`, writes: false }
}

function serializerCall({ random, types, instances }: CallContext): Call {
  const type = random.pick(types)
  const json = text(instances.make(type, random.pick(IDS), 60))
  const code = random.pick([
    `return made(${json})`,
    `return made(${json})`,
    `return S.toJSON(made(${json}))`,
    `return S.toJSON(made(${json}))`,
    `return made({ ...${json}, $extra: 1 })`,
    'return S.toJSON({})',
    'return S.fromJSON({})',
    `const a = made(${json}); a.validate(); return 1`,
    `return S.fromJSON(${json}, { validate: false })`,
    `return S.toJSON(S.fromJSON(${json}, { validate: false }), { validate: false })`,
    `return S.toJSON(S.fromJSON(${json}, { validate: false }))`,
    `return S.fromJSON(${json}, { acceptResourcesForRelationships: true })`,
    `return S.toJSON(made(${json}), { convertResourcesToRelationships: true })`,
    `return S.toJSON(made(${json}), { permitResourcesForRelationships: true })`,
    `return S.toJSON(made(${json}), { deduplicateResources: true })`,
    `return S.toJSON(made(${json}), {})`,
    'return S.fromJSON()',
    'return S.fromJSON("text")',
    'return S.toJSON()',
    'return S.toJSON(null)',
  ])
  return { kind: 'serializer', code, writes: false }
}

function instanceCall({ random, types, instances }: CallContext): Call {
  const type = random.pick(
    concrete(types, 'asset', 'participant', 'concept', 'event', 'transaction'),
  )
  const id = random.pick(IDS)
  const made = `const a = made(${text(instances.make(type, id, 0))}); `
  const fields = allFields(type).filter(({ name }) => name !== type.id)
  const field = fields.length > 0 && random.chance(90) ? random.pick(fields) : null
  const name = text(field?.name ?? 'undeclared')
  const good = (one: Field) => `made(${text(instances.make(type, id, 0))})[${text(one.name)}]`
  const value = field === null || random.chance(50) ? odd(random) : good(field)
  const code = random.pick([
    `a.setPropertyValue(${name}, ${value}); return a`,
    `a.setPropertyValue(${name}, ${value}); return a`,
    `a.addArrayValue(${name}, ${value}); return a`,
    `a[${name}] = ${value}; return S.toJSON(a)`,
    `a[${name}] = ${value}; a.validate(); return a`,
    `return a.instanceOf(${text(random.pick(types).qualified)})`,
    'return [a.getType(), a.getNamespace(), a.getFullyQualifiedType()]',
    'return [a.$type, a.$namespace]',
    'return a.getFullyQualifiedIdentifier()',
    'return a.getIdentifier()',
    'return a.toString()',
    'return a.toURI()',
    'return [a.isRelationship(), a.isResource()]',
    'return a.isConcept()',
    'a.setIdentifier("new"); return [a.getIdentifier(), a.getFullyQualifiedIdentifier()]',
    'return JSON.parse(JSON.stringify(a))',
    'return a.toJSON()',
    'return a.$identifier',
    'return a.undeclared',
    'return Object.keys(a).filter((key) => key.charAt(0) !== "$").sort()',
    `delete a[${name}]; return S.toJSON(a)`,
  ])
  return { kind: 'instance', code: made + code, writes: false }
}

function eventCall({ random, types, instances }: CallContext): Call {
  const events = concrete(types, 'event')
  const fallback =
    'const e = F.newEvent("org.oracle", "Ran"); e.name = "x"; emit(e); return e.eventId === tx.transactionId + "#" + e.eventId.split("#")[1]'
  if (events.length === 0 || random.chance(20))
    return { kind: 'event', code: fallback, writes: false }
  const type = random.pick(events)
  const json = text({ ...instances.make(type, null, 15), eventId: 'x' })
  const code = random.pick([
    `const e = made(${json}); emit(e); return e.getIdentifier().split("#")[1]`,
    `const e = F.newEvent(${text(type.namespace)}, ${text(type.name)}); emit(e); return 1`,
    `const e = F.newEvent(${text(type.namespace)}, ${text(type.name)}); e.undeclared = 1; emit(e); return 1`,
    'emit({}); return 1',
  ])
  return { kind: 'event', code, writes: false }
}

function queryCall(context: CallContext, written: Set<string>): Call | null {
  const { random, queries, statements } = context
  if (written.size > 0) return null
  const shown = '.map((one) => one.getFullyQualifiedIdentifier()).sort()'
  if (queries.length === 0 || random.chance(30)) {
    const code = random.pick([
      ...statements.map(
        (statement) => `return (await query(buildQuery(${text(statement)})))${shown}`,
      ),
      'return query("none")',
      'return query(5)',
      'return query()',
    ])
    return { kind: 'query', code, writes: false }
  }
  const { name, parameters } = random.pick(queries)
  const given = Object.fromEntries(
    parameters.map((each) => [each.name, parameterValue(random, each.type)]),
  )
  return {
    kind: 'query',
    code: `return (await query(${text(name)}, ${text(given)}))${shown}`,
    writes: false,
  }
}

/** `type`: a built-in type, `count`, or values separated by commas. */
export function parameterValue(random: Random, type: string): string | number | boolean {
  switch (type) {
    case 'String':
      return random.pick(['a', 'Ab', 'b', '', '12'])
    case 'Boolean':
      return random.chance(50)
    case 'DateTime':
      return random.pick(['2020-01-01T00:00:00.000Z', '1999-12-31T23:59:59.999Z'])
    case 'count':
      return random.pick([0, 1, 2, 10])
    case 'Double':
      return random.pick([0, 1.5, 7])
    case 'Integer':
    case 'Long':
      return random.pick([0, 5, 7])
    default:
      return random.pick(type.split(','))
  }
}
