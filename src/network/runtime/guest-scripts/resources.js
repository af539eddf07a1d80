// Runs inside a guest: resources as the scripts of a network see them. The files of this folder are the
// body of one function, in the order resources, program, so that no name of theirs meets
// one of the network's. Its constants are `MODEL`, `host` (asks the network) and `log`.
//
// Within one call, one identity is one object, whether it was read, queried, named by a relationship or
// just made. Its content may not be there yet: the network sends resources together with those that
// their relationships lead to, as many levels as it was told. When a script needs one that was not sent,
// the call ends as `unresolved`, and the network calls again with more levels.

/* global MODEL, host, log, InternalError */

// A name that is no type's must not find what every object has.
Object.setPrototypeOf(MODEL, null)

/** Asks the network. Throws its refusals. */
async function ask(kind, fields) {
  if (CALL.unresolved) throw new Error('unresolved')
  const text = serialized(() => JSON.stringify({ ask: kind, ...fields() }))
  const { value, resolved } = JSON.parse(await host(text))
  take(resolved)
  return value
}

/** The call that runs; `unresolved` is whether it needed a resource that was not sent. */
const CALL = { unresolved: false }
/** Contents of resources that were sent or written, by type and id; null for those that do not exist. */
const CONTENTS = new Map()

function take(resolved) {
  for (const { type, id, resource } of resolved) CONTENTS.set(`${type}#${id}`, resource)
}

// Scripts may replace the global.
const StackOverflow = InternalError

/** The result of `serialize`. Cyclic resources, which fill the stack, are rejected like too deep ones. */
function serialized(serialize) {
  try {
    return serialize()
  } catch (error) {
    if (!(error instanceof StackOverflow) || error.message !== 'stack overflow') throw error
    throw new Error('nesting exceeds 64 levels')
  }
}

const IDENTITIES = new Map()
const STATE = new WeakMap()

function typeNamed(name) {
  const type = MODEL[name]
  if (type === undefined) throw new Error(`Type "${name}" is not declared`)
  return type
}

function isInstance(name, ancestor) {
  for (let at = name; at !== null; at = MODEL[at].superType) if (at === ancestor) return true
  return false
}

function relationshipText(state) {
  return `resource:${state.type}#${encodeURI(idOf(state)).replaceAll('#', '%23')}`
}

/** The object that a relationship leads to. */
function resourceIn(text) {
  const hash = text.indexOf('#')
  return resourceAt(text.slice('resource:'.length, hash), decodeURIComponent(text.slice(hash + 1)))
}

/** The current id of a resource, which a script may have changed; null without identity. */
function idOf({ type, id, values }) {
  return id === null ? null : (values[MODEL[type].identifier] ?? id)
}

/** Everything a model type can do, beside its properties. */
class Typed {
  getType() {
    return MODEL[STATE.get(this).type].name
  }
  getNamespace() {
    return MODEL[STATE.get(this).type].namespace
  }
  getFullyQualifiedType() {
    return STATE.get(this).type
  }
  get $type() {
    return this.getType()
  }
  get $namespace() {
    return this.getNamespace()
  }
  instanceOf(name) {
    return isInstance(STATE.get(this).type, name)
  }
  toJSON() {
    return jsonOf(this)
  }
}

/** What also has an identity. */
class Identified extends Typed {
  getIdentifier() {
    return idOf(STATE.get(this))
  }
  getIdentifierFieldName() {
    return MODEL[STATE.get(this).type].identifier
  }
  getFullyQualifiedIdentifier() {
    const state = STATE.get(this)
    return `${state.type}#${idOf(state)}`
  }
  get $identifier() {
    return this.getIdentifier()
  }
  toURI() {
    return relationshipText(STATE.get(this))
  }
  toString() {
    return `Resource {id=${this.getFullyQualifiedIdentifier()}}`
  }
}

/** Puts `json`, as the network keeps it, into `values`. */
function fill(values, { properties }, json) {
  for (const [name, property] of Object.entries(properties)) {
    const member = json[name]
    if (member === undefined) continue
    values[name] = property.array
      ? member.map((element) => heldValue(property, element))
      : heldValue(property, member)
  }
}

function heldValue({ primitive, relationship }, json) {
  if (relationship) return resourceIn(json)
  if (primitive === 'DateTime') return new Date(json)
  return typeof json === 'object' ? fromJson(json) : json
}

/** The object of an identity; its content is taken when it is needed. */
function resourceAt(type, id) {
  const key = `${type}#${id}`
  if (!IDENTITIES.has(key)) {
    const values = instanceOf(type, id, false)
    const resource = new Proxy(values, LAZY)
    STATE.set(resource, STATE.get(values))
    IDENTITIES.set(key, resource)
  }
  return IDENTITIES.get(key)
}

/** The object of a resource that was read: the one that exists already, or a new one with this content. */
function resourceWith(json) {
  const id = json[typeNamed(json.$class).identifier]
  const key = `${json.$class}#${id}`
  let resource = IDENTITIES.get(key)
  if (resource === undefined) {
    resource = instanceOf(json.$class, id, false)
    // Before its content, which may lead back to it.
    IDENTITIES.set(key, resource)
  }
  load(STATE.get(resource), json)
  return resource
}

function load(state, json) {
  if (state.loaded) return
  state.loaded = true
  fill(state.values, MODEL[state.type], json)
}

/** An object of a type, with its id if it has an identity, and nothing else yet. */
function instanceOf(type, id, loaded) {
  const values = Object.create(id === null ? Typed.prototype : Identified.prototype)
  if (id !== null) values[MODEL[type].identifier] = id
  STATE.set(values, { type, id, loaded, values })
  return values
}

/** Loads the content of a resource from those that were sent. */
function requireContent(state) {
  if (state.loaded) return
  const { type: name, id } = state
  const json = CONTENTS.get(`${name}#${id}`)
  if (json === undefined) {
    CALL.unresolved = true
    throw new Error('unresolved')
  }
  if (json === null) throw missing(name, id)
  load(state, json)
}

function missing(name, id) {
  const registry = `${kindOf(MODEL[name])}:${name}`
  return new Error(`Object with ID '${id}' in collection with ID '${registry}' does not exist`)
}

/**
 * Stands in front of a resource that a relationship named before its content was needed: that is when a
 * declared property is used, but for a read of the identifier. Any other property is the same with and
 * without the content, as with Composer's InvalidRelationship; `await` reads `then`.
 */
const LAZY = {}
for (const trap of ['get', 'has', 'getOwnPropertyDescriptor', 'ownKeys', 'set', 'deleteProperty']) {
  const isWrite = trap === 'set' || trap === 'deleteProperty'
  LAZY[trap] = (target, key, ...others) => {
    const state = STATE.get(target)
    const { identifier, properties } = MODEL[state.type]
    const isDeclared = trap === 'ownKeys' || Object.hasOwn(properties, key)
    if (isDeclared && (isWrite || key !== identifier)) requireContent(state)
    return Reflect[trap](target, key, ...others)
  }
}

function kindOf({ kind }) {
  return kind.charAt(0).toUpperCase() + kind.slice(1)
}

/** A new instance; `id` is null exactly for concepts. */
function fresh(name, id) {
  const type = typeNamed(name)
  if (type.abstract) throw new Error(`Cannot instantiate the abstract type "${name}"`)
  const made = instanceOf(name, id, true)
  for (const [key, property] of Object.entries(type.properties)) {
    if (property.default !== null) made[key] = heldValue(property, property.default)
  }
  return made
}

/** The instance that `json` describes, with all that it contains. */
function fromJson(json) {
  const type = typeNamed(json.$class)
  const id = type.identifier === null ? null : json[type.identifier]
  const made = instanceOf(json.$class, id, true)
  fill(made, type, json)
  return made
}

/** An instance as the network keeps it. */
function jsonOf(instance) {
  const state = STATE.get(instance)
  if (state === undefined) throw new Error('that is no instance of a type of the model')
  requireContent(state)
  const { values } = state
  const json = { $class: state.type }
  const { properties } = MODEL[state.type]
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined || value === null) continue
    const property = properties[name]
    // The network refuses properties that the model does not have, whatever their values.
    if (property === undefined) json[name] = typeof value === 'object' ? null : value
    else if (Array.isArray(value)) {
      json[name] = value.map((element) => jsonValueOf(name, property, element))
    } else json[name] = jsonValueOf(name, property, value)
  }
  return json
}

function jsonValueOf(name, property, value) {
  // JSON has no word for these, and null would mean that there is no value.
  if (typeof value === 'number' && !Number.isFinite(value)) {
    throw new Error(`${name} is no finite number: ${value}`)
  }
  if (value instanceof Date) return value.toISOString()
  if (typeof value !== 'object' || value === null) return value
  const state = STATE.get(value)
  if (state === undefined) return value
  return property.relationship ? relationshipText(state) : jsonOf(value)
}
