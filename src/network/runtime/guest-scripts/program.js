// Runs inside a guest, after `resources.js`. Defines the functions that a network's scripts call, runs processors, and
// evaluates conditions of access rules.

/* global MODEL, RealDate, withTime, CALL, CONTENTS, IDENTITIES, EngineError, STATE, ask, log, take, serialized, missing, typeNamed, isInstance, madeByScript, resourceAt, resourceWith, newResource, newConcept, fromJson, populated, requireValid, jsonOf, formatLocaleNumber, formatLocaleDate, compareLocale */

class Registry {
  constructor(type, kind) {
    this.id = type
    this.type = kind
    this.name = `${kind} registry for ${type}`
  }
  async #read(id, resolve) {
    const [json] = await ask('get', () => ({ type: this.id, id: String(id), resolve }))
    if (json === undefined) throw missing(this.id, String(id))
    return json
  }
  async get(id) {
    return resourceWith(await this.#read(id, false))
  }
  async exists(id) {
    return (await ask('get', () => ({ type: this.id, id: String(id) }))).length > 0
  }
  async getAll() {
    return (await ask('list', () => ({ type: this.id }))).map(resourceWith)
  }
  resolve(id) {
    return this.#read(id, true)
  }
  resolveAll() {
    return ask('list', () => ({ type: this.id, resolve: true }))
  }
  add(resource) {
    return this.addAll([resource])
  }
  async addAll(resources) {
    await this.#write('add', resources)
  }
  update(resource) {
    return this.updateAll([resource])
  }
  updateAll(resources) {
    return this.#write('update', resources)
  }
  remove(resource) {
    return this.removeAll([resource])
  }
  async removeAll(resources) {
    const ids = resources.map((resource) =>
      typeof resource === 'object' ? resource.getIdentifier() : String(resource),
    )
    await ask('remove', () => ({ type: this.id, ids }))
    for (const id of ids) {
      CONTENTS.set(`${this.id}#${id}`, null)
      IDENTITIES.delete(`${this.id}#${id}`)
    }
  }
  async #write(kind, resources) {
    for (const resource of resources) this.#requireType(resource)
    let written = []
    await ask(kind, () => {
      written = resources.map(jsonOf)
      return { resources: written }
    })
    for (const [at, json] of written.entries()) {
      const key = `${this.id}#${json[MODEL[this.id].identifier]}`
      CONTENTS.set(key, json)
      // From now on, the object with the written content represents the resource.
      IDENTITIES.set(key, resources[at])
    }
  }
  #requireType(resource) {
    if (STATE.get(resource)?.type === this.id) return
    throw new Error(`Expected a resource of type ${this.id} for this registry`)
  }
}

function registryOf(kind, name) {
  const type = MODEL[name]
  const title = kind.charAt(0).toUpperCase() + kind.slice(1)
  if (type?.kind === kind && !type.abstract) return new Registry(name, title)
  const id = `${title}:${name}`
  throw new Error(`Object with ID '${id}' in collection with ID '$sysregistries' does not exist`)
}

async function getAssetRegistry(name) {
  return registryOf('asset', name)
}
async function getParticipantRegistry(name) {
  return registryOf('participant', name)
}
async function getTransactionRegistry(name) {
  return registryOf('transaction', name)
}

const FACTORY = {
  newResource: (namespace, type, id) => newResource(`${namespace}.${type}`, id),
  newRelationship(namespace, type, id) {
    const name = `${namespace}.${type}`
    typeNamed(name)
    return madeByScript(() => resourceAt(name, id))
  },
  newConcept: (namespace, type) => newConcept(`${namespace}.${type}`),
  newTransaction: (namespace, type, id) =>
    newOf('transaction', `${namespace}.${type}`, id || randomId()),
  newEvent: (namespace, type) => newOf('event', `${namespace}.${type}`, 'valid'),
}
function newOf(kind, name, id) {
  const made = newResource(name, id)
  if (MODEL[name].kind === kind) return withTime(made)
  throw new Error(`${name} is not ${kind === 'event' ? 'an event' : 'a transaction'}`)
}
/** Returns a UUID, random as the transaction's random numbers are. */
function randomId() {
  const digit = () => Math.floor(Math.random() * 16).toString(16)
  return 'xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx'.replace(/x/g, digit)
}
const SERIALIZER = {
  toJSON(resource, { validate = true } = {}) {
    if (typeof resource !== 'object' || STATE.get(resource) === undefined) {
      throw new Error(
        'Serializer.toJSON only accepts Concept, Event, Asset, Participant or Transaction.',
      )
    }
    return serialized(() => {
      if (validate) requireValid(resource)
      return jsonOf(resource)
    })
  },
  fromJSON: fromJson,
}

function getFactory() {
  return FACTORY
}
function getSerializer() {
  return SERIALIZER
}
const EVENTS = []
/** Stores an event, with its id and time. An invalid event is an error. */
function emit(event) {
  event.setIdentifier(`${CURRENT.transactionId}#${EVENTS.length}`)
  withTime(event)
  EVENTS.push(SERIALIZER.toJSON(event))
}
/** The part of Node's `assert` that scripts use, which Composer gives them. */
function assert(value, message = 'the value is not true') {
  if (!value) throw new Error(message)
}
assert.ok = assert
// biome-ignore lint/suspicious/noDoubleEquals: Node's `equal` converts the types
assert.equal = (one, other, message) => assert(one == other, message ?? `${one} == ${other}`)
// biome-ignore lint/suspicious/noDoubleEquals: Node's `notEqual` converts the types
assert.notEqual = (one, other, message) => assert(one != other, message ?? `${one} != ${other}`)
assert.strictEqual = (one, other, message) =>
  assert(one === other, message ?? `${one} === ${other}`)
assert.notStrictEqual = (one, other, message) =>
  assert(one !== other, message ?? `${one} !== ${other}`)
const isDeepEqual = (one, other, isStrict) => {
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) {
    // biome-ignore lint/suspicious/noDoubleEquals: Node's `deepEqual` converts the types
    return isStrict ? Object.is(one, other) : one == other
  }
  if (one instanceof Date && other instanceof Date) return one.getTime() === other.getTime()
  const keys = Object.keys(one)
  if (Array.isArray(one) !== Array.isArray(other)) return false
  if (keys.length !== Object.keys(other).length) return false
  return keys.every((key) => isDeepEqual(one[key], other[key], isStrict))
}
for (const name of ['deepEqual', 'deepStrictEqual']) {
  const isStrict = name === 'deepStrictEqual'
  const title = name.charAt(0).toUpperCase() + name.slice(1)
  assert[name] = (one, other, message = `the values are not ${name}`) =>
    assert(isDeepEqual(one, other, isStrict), message)
  assert[`not${title}`] = (one, other, message = `the values are ${name}`) =>
    assert(!isDeepEqual(one, other, isStrict), message)
}
assert.throws = (run) => {
  try {
    run()
  } catch {
    return
  }
  throw new Error('Missing expected exception.')
}
assert.doesNotThrow = (run) => run()
assert.fail = (message = 'failed') => assert(false, message)

function buildQuery(text) {
  return { text }
}
async function query(nameOrQuery, parameters = {}) {
  const isBuilt = typeof nameOrQuery === 'object'
  if (!isBuilt && typeof nameOrQuery !== 'string') {
    throw new Error('Invalid query; expecting a built query or the name of a query')
  }
  const statement = isBuilt ? { text: nameOrQuery.text } : { name: nameOrQuery }
  const written = Object.entries(parameters).map(([name, value]) => [name, parameterValue(value)])
  const fields = { ...statement, parameters: Object.fromEntries(written) }
  return (await ask('query', () => fields)).map(resourceWith)
}
function parameterValue(value) {
  if (Array.isArray(value)) return value.map(parameterValue)
  const state = typeof value === 'object' && value !== null ? STATE.get(value) : undefined
  return state === undefined ? value : relationshipText(state)
}
function currentAt(identity) {
  if (identity === null) return null
  const { type, id } = identity
  // The caller is sent at once only to scripts that name these functions.
  if (!CONTENTS.has(`${type}#${id}`)) {
    CALL.unresolved = true
    throw new Error('unresolved')
  }
  return resourceAt(type, id)
}
function getCurrentParticipant() {
  return currentAt(CURRENT.participant)
}
function getCurrentIdentity() {
  return currentAt(CURRENT.identity)
}
async function post() {
  throw new Error(
    'a transaction cannot send requests, because each replay must have the same result',
  )
}
const request = post

/** The levels of lines, then methods whose lines have the level `log`. */
const LEVELS = ['log', 'info', 'warn', 'error', 'debug']
const METHODS = [...LEVELS, 'dir', 'table', 'trace', 'time', 'timeEnd', 'group', 'groupEnd']
const console = Object.fromEntries(
  METHODS.map((name) => [
    name,
    (...values) => {
      const text = values.map((value) => shown(value)).join(' ')
      log(JSON.stringify({ ask: 'log', level: LEVELS.includes(name) ? name : 'log', text }))
    },
  ]),
)

function shown(value) {
  if (typeof value === 'string') return value
  if (value instanceof Error) return `${value.name}: ${value.message}`
  try {
    return JSON.stringify(value) ?? String(value)
  } catch {
    return String(value)
  }
}

const CURRENT = { participant: null, identity: null, transactionId: '' }

/**
 * The time of the transaction or condition, and the state of the random number generator. The generator's seed is derived from the
 * transaction's id, so that every replay gives the same result.
 */
const FIXED = { nowMs: 0, chance: 0 }

function fixTimeAndChance() {
  const FixedDate = new Proxy(RealDate, {
    construct: (target, values, self) =>
      Reflect.construct(target, values.length === 0 ? [FIXED.nowMs] : values, self),
    apply: () => new RealDate(FIXED.nowMs).toString(),
  })
  RealDate.now = () => FIXED.nowMs
  RealDate.prototype.constructor = FixedDate
  globalThis.Date = FixedDate
  // The random number generator mulberry32.
  Math.random = () => {
    FIXED.chance = (FIXED.chance + 0x6d2b79f5) | 0
    let mixed = Math.imul(FIXED.chance ^ (FIXED.chance >>> 15), 1 | FIXED.chance)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
}

/** Converts `value` to `type`, the name in @returns, as Composer does; null if it cannot be converted. */
function toReturned(type, value) {
  if (type === 'String') return value?.toString() ?? null
  if (type === 'DateTime') return value instanceof RealDate ? value : null
  // In JSON, an object such as `new Number(1)` equals its value.
  return typeof value === 'object' && value?.valueOf() !== value ? null : value
}

/** Runs the processors of one transaction. Returns the result, null without @returns, and the events as JSON. */
async function processTransaction(call) {
  const { transaction, resolved, processors, participant, identity, nowMs, seed, returns } = call
  CURRENT.participant = participant
  CURRENT.identity = identity
  CURRENT.transactionId = transaction.transactionId
  FIXED.nowMs = nowMs
  FIXED.chance = seed | 0
  take(resolved)
  // Loads the contents now, because a write by the script replaces the content in CONTENTS.
  for (const { resource } of resolved) if (resource !== null) resourceWith(resource)
  try {
    const instance = populated(transaction, transaction.$class)
    let returned
    for (const name of processors) {
      const value = await globalThis[name](instance)
      if (returns === null || value === undefined) continue
      if (returned !== undefined) throw new Error('more than one function returned a value')
      returned = value
    }
    return serialized(() => {
      if (returns?.array && Array.isArray(returned)) {
        returned = Array.from(returned, (each) => toReturned(returns.name, each))
      } else if (returns !== null) returned = toReturned(returns.name, returned)
      return JSON.stringify({ returned: returned ?? null, events: EVENTS })
    })
  } catch (error) {
    if (!CALL.unresolved) throw error
  }
}

/** Evaluates the condition for each of `resources`: true, false, or null if it throws. Throws without memory. */
function evaluated({ condition, participant, transaction, resources, resolved, isShort, nowMs }) {
  CALL.isShort = isShort
  FIXED.nowMs = nowMs
  take(resolved)
  const test = new Function(`return ${condition}`)()
  return resources.map((resource) => {
    IDENTITIES.clear()
    try {
      const values = [participant, resource, transaction]
      return Boolean(test(...values.map((value) => value && resourceWith(value))))
    } catch (error) {
      // Without memory (the engine then throws null or its own error), the result says nothing about this resource.
      if (error === null || error instanceof EngineError) throw error
      return null
    }
  })
}

const byValue = { writable: true, configurable: true }
// The globals of a network's scripts.
for (const [name, value] of Object.entries({
  ...{
    getAssetRegistry,
    getParticipantRegistry,
    getTransactionRegistry,
    getFactory,
    getSerializer,
  },
  ...{ getCurrentParticipant, getCurrentIdentity },
  ...{ assert, emit, query, buildQuery, post, request, console },
  // The names by which libraries look for the global object.
  ...{ global: globalThis, self: globalThis },
})) {
  Object.defineProperty(globalThis, name, { value, ...byValue })
}

const define = (prototype, name, value) =>
  Object.defineProperty(prototype, name, { value, ...byValue })
define(Number.prototype, 'toLocaleString', function (_locales, options) {
  return formatLocaleNumber(Number(this), options)
})
const SHOWN = { toLocaleString: 'both', toLocaleDateString: 'date', toLocaleTimeString: 'time' }
for (const [name, shown] of Object.entries(SHOWN)) {
  define(Date.prototype, name, function (_locales, options) {
    return formatLocaleDate(this, options, shown)
  })
}
for (const name of ['toString', 'toTimeString']) {
  const plain = Date.prototype[name]
  define(Date.prototype, name, function () {
    const zone = Number.isNaN(this.getTime()) ? '' : ' (Coordinated Universal Time)'
    return plain.call(this) + zone
  })
}
define(String.prototype, 'localeCompare', function (other, _locales, options) {
  return compareLocale(String(this), String(other), options)
})

// Called before the network's scripts are loaded, because scripts may keep references to `Date` and `Math.random`.
fixTimeAndChance()

/** The entry of the guest. Returns the answer as JSON, or `unresolved` if a resource that it needs was not sent. */
async function program(requestText) {
  const call = JSON.parse(requestText)
  const isCondition = 'condition' in call
  const text = isCondition ? JSON.stringify(evaluated(call)) : await processTransaction(call)
  return CALL.unresolved ? 'unresolved' : text
}
