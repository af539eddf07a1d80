// Runs inside a guest: defines resources as a network's scripts see them. The files in this folder are joined (first
// resources, then program) to form the body of one function, so that their names cannot conflict with names in the
// network's scripts. The function has the constants `MODEL`, `host` (sends a request to the network) and `log`.
//
// Within one call, each resource (type and id) has one object, whether the resource was read, queried, referenced by a
// relationship or newly created. The network sends each resource with the resources to which it refers, up to a number
// of levels. If a script needs a resource or a member that was not sent, the call ends with `unresolved`, and the network
// repeats the call with more levels and all members.

/* global MODEL, FIXED, host, log, InternalError, requireFieldValue, requireKind, requireValid, randomId */

for (const type of Object.values(MODEL)) {
  type.entries = Object.entries(type.properties)
  type.presets = type.entries.filter(
    ([name, property]) => property.default !== null && name !== type.identifier,
  )
}
// The class behind the `Date` of scripts, which fixes the time, and which scripts may replace.
const RealDate = Date
// Without a prototype, names such as `constructor` are not found as types.
Object.setPrototypeOf(MODEL, null)

/** Sends a request to the network and returns the answer. Throws if the network refuses the request. */
async function ask(kind, fields) {
  if (CALL.unresolved) throw new Error('unresolved')
  const text = serialized(() => JSON.stringify({ ask: kind, ...fields() }))
  const answer = await host(text)
  // The answer to a write is empty.
  if (answer === '') return
  const { value, resolved } = JSON.parse(answer)
  take(resolved)
  return value
}

/**
 * The current call. `unresolved`: whether it needed a value that was not sent. `isShort`: whether long members were left out.
 * `acceptsResources`: whether a relationship in JSON may be a resource. `isMaking`: whether a script makes relationships.
 */
const CALL = { unresolved: false, isShort: false, acceptsResources: false, isMaking: false }
/** Contents of sent and written resources by type and id; null for a resource that does not exist. */
const CONTENTS = new Map()

function take(resolved) {
  for (const { type, id, resource } of resolved) CONTENTS.set(`${type}#${id}`, resource)
}

// Keeps a copy, because scripts may replace the global `InternalError`.
const EngineError = InternalError

/**
 * Returns the result of `serialize`. Cyclic resources overflow the stack and are rejected like deeply nested
 * resources.
 */
function serialized(serialize) {
  try {
    return serialize()
  } catch (error) {
    if (!(error instanceof EngineError) || error.message !== 'stack overflow') throw error
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

/**
 * Returns the object to which a relationship to `declared` refers: `resource:<type>#<id>`, `<type>#<id>`, or the id
 * alone.
 */
function resourceIn(text, declared) {
  const path = text.startsWith('resource:') ? text.slice('resource:'.length) : text
  const hash = path.indexOf('#')
  if (hash === path.length - 1) throw new Error('Missing id')
  if (hash === -1) return resourceAt(declared, path)
  const type = path.slice(0, hash)
  typeNamed(type)
  return resourceAt(type, decodeURIComponent(path.slice(hash + 1)))
}

/** Returns the current id of a resource, which a script may have changed; null for a concept. */
function idOf({ type, id, values }) {
  return id === null ? null : (values[MODEL[type].identifier] ?? id)
}

/** The methods of all instances. */
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
  setPropertyValue(name, value) {
    requireFieldValue(this, name, value, false)
    this[name] = value
  }
  addArrayValue(name, value) {
    requireFieldValue(this, name, value, true)
    if (this[name]) this[name].push(value)
    else this[name] = [value]
  }
  validate() {
    requireValid(this)
  }
  toJSON() {
    return jsonOf(this)
  }
}

class Concept extends Typed {
  isConcept() {
    return true
  }
}

/** The methods of instances with an identity. */
class Identified extends Typed {
  getIdentifier() {
    return idOf(STATE.get(this))
  }
  setIdentifier(id) {
    this[this.getIdentifierFieldName()] = id
  }
  isRelationship() {
    return STATE.get(this).isReference
  }
  isResource() {
    return !this.isRelationship()
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
  toJSON() {
    return jsonOf(this)
  }
  toString() {
    const kind = this.isRelationship() ? 'Relationship' : 'Resource'
    return `${kind} {id=${this.getFullyQualifiedIdentifier()}}`
  }
}

/** Copies the members of `json` to `values`. */
function fill(values, { entries }, json) {
  for (const [name, property] of entries) {
    const member = Object.hasOwn(json, name) ? json[name] : null
    if (member === undefined || member === null) continue
    values[name] = property.array
      ? Array.from(member, (element) => memberValue(property, element))
      : memberValue(property, member)
  }
}

/** Converts `json`, a member in its stored form or, as in Composer, in a form that can be read as its type. */
function memberValue({ primitive, relationship, type }, json) {
  if (relationship) {
    if (typeof json === 'string') return resourceIn(json, type)
    if (CALL.acceptsResources && json.$class) return populated(json, json.$class)
    throw new Error(`Invalid JSON data. Found a value that is not a string: ${json}`)
  }
  if (primitive === null && MODEL[type].kind !== 'enum') return populated(json, json.$class ?? type)
  switch (primitive) {
    case 'DateTime':
      return new RealDate(json)
    case 'Integer':
    case 'Long':
      return Number.parseInt(json, 10)
    case 'Double':
      return Number.parseFloat(json)
    case 'Boolean':
      return json === true || json === 'true'
    case 'String':
      return json.toString()
    default:
      return json
  }
}

/** Returns the object of the resource `id` of `type`. The content is loaded when a script first uses the content. */
function resourceAt(type, id) {
  const key = `${type}#${id}`
  if (!IDENTITIES.has(key)) {
    const resource = lazy(type, id)
    STATE.get(resource).isReference = true
    STATE.get(resource).isMade = CALL.isMaking
    IDENTITIES.set(key, resource)
  }
  const known = IDENTITIES.get(key)
  if (!CALL.isMaking) STATE.get(known).isMade = false
  return known
}

/** Calls `make`. The network does not send the resources of new relationships, even if the script runs again. */
function madeByScript(make) {
  CALL.isMaking = true
  try {
    return make()
  } finally {
    CALL.isMaking = false
  }
}

/** Returns a new object whose content is loaded when a script first uses a member that the object lacks. */
function lazy(type, id) {
  const values = instanceOf(type, id, false)
  const resource = new Proxy(values, LAZY)
  STATE.set(resource, STATE.get(values))
  return resource
}

/** Returns the object of a resource that was read: the existing object, or a new object with this content. */
function resourceWith(json) {
  const id = json[typeNamed(json.$class).identifier]
  const key = `${json.$class}#${id}`
  let resource = IDENTITIES.get(key)
  if (resource === undefined) {
    resource = CALL.isShort ? lazy(json.$class, id) : instanceOf(json.$class, id, false)
    // Registered before the content is loaded, because the content may refer to this resource.
    IDENTITIES.set(key, resource)
  }
  const state = STATE.get(resource)
  state.isReference = false
  if (CALL.isShort) fill(state.values, MODEL[state.type], json)
  else load(state, json)
  return resource
}

function load(state, json) {
  if (state.loaded) return
  state.loaded = true
  fill(state.values, MODEL[state.type], json)
}

/** Returns an object of the type `type` without content. If the type has an identity, the object has its id. */
function instanceOf(type, id, loaded) {
  const values = Object.create(id === null ? Concept.prototype : Identified.prototype)
  if (id !== null) values[MODEL[type].identifier] = id
  STATE.set(values, { type, id, loaded, values, isReference: false, isMade: false })
  return values
}

/** Loads the content of a resource, unless it is loaded already. Throws if the content was not sent. */
function requireContent(state) {
  if (state.loaded) return
  const { type: name, id } = state
  const json = CONTENTS.get(`${name}#${id}`)
  if (json === undefined) {
    if (state.isMade) {
      throw new Error(`Read ${name}#${id} from its registry: a new relationship has no content`)
    }
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
 * The proxy traps of a resource whose content is not loaded yet. The traps load the content when a script uses a
 * declared property, unless the script reads the identifier or a member that was sent. Reading any other property, such as `then` in an
 * `await`, does not load the content, as in Composer's InvalidRelationship.
 */
const LAZY = {}
for (const trap of ['get', 'has', 'getOwnPropertyDescriptor', 'ownKeys', 'set', 'deleteProperty']) {
  const isWrite = trap === 'set' || trap === 'deleteProperty'
  LAZY[trap] = (target, key, ...others) => {
    const state = STATE.get(target)
    const isDeclared = trap === 'ownKeys' || Object.hasOwn(MODEL[state.type].properties, key)
    if (isDeclared && (isWrite || !Object.hasOwn(target, key))) requireContent(state)
    return Reflect[trap](target, key, ...others)
  }
}

function kindOf({ kind }) {
  return kind.charAt(0).toUpperCase() + kind.slice(1)
}

const inNamespace = ({ name, namespace }) => `Type ${name} in namespace ${namespace}`

/** Returns a new instance of the asset, participant, transaction or event `name` with the default values. */
function newResource(name, id) {
  const type = typeNamed(name)
  if (typeof id !== 'string') {
    throw new Error(`Invalid or missing identifier for ${inNamespace(type)}`)
  }
  if (id.trim() === '') throw new Error(`Missing identifier for ${inNamespace(type)}`)
  if (type.kind === 'concept') throw new Error(`Use newConcept to create concepts ${name}`)
  return fresh(name, id)
}

/** Returns an event or a transaction with the time of now. */
function withTime(made) {
  made.timestamp = new RealDate(FIXED.nowMs)
  return made
}

/** Returns a new instance of the concept `name` with the default values. */
function newConcept(name) {
  if (typeNamed(name).kind !== 'concept') throw new Error(`Class is not a concept ${name}`)
  return fresh(name, null)
}

function fresh(name, id) {
  const type = typeNamed(name)
  if (type.abstract) {
    throw new Error(`Cannot instantiate Abstract ${inNamespace(type)}`)
  }
  if (type.kind === 'enum') throw new Error(`${name} is an enum`)
  const made = instanceOf(name, id, true)
  for (const [key, property] of type.presets) made[key] = memberValue(property, property.default)
  return made
}

/** Converts `json` to an instance, including nested instances. The instance may be invalid. */
function populated(json, name) {
  const { kind, identifier, properties } = typeNamed(name)
  if (kind === 'enum') {
    throw new Error('Attempting to create an ENUM declaration is not supported.')
  }
  const unexpected = Object.keys(json).filter(
    (key) => !key.startsWith('$') && json[key] != null && !Object.hasOwn(properties, key),
  )
  if (unexpected.length > 0) {
    throw new Error(`Unexpected properties for type ${name}: ${unexpected.join(', ')}`)
  }
  let made
  if (kind === 'concept') made = newConcept(name)
  else if (kind === 'transaction') made = newResource(name, json[identifier] || randomId())
  else if (kind === 'event') made = newResource(name, json[identifier] || 'valid')
  else made = newResource(name, json[identifier])
  if (kind === 'transaction' || kind === 'event') withTime(made)
  fill(made, MODEL[name], json)
  return made
}

/** Converts `json` to an instance, which is valid unless the option `validate` is false. */
function fromJson(json, { validate = true, acceptResourcesForRelationships = false } = {}) {
  if (!json.$class) {
    throw new Error('Invalid JSON data. Does not contain a $class type identifier.')
  }
  CALL.acceptsResources = acceptResourcesForRelationships
  const made = madeByScript(() => populated(json, json.$class))
  CALL.acceptsResources = false
  if (validate) requireValid(made)
  return made
}

/** Converts an instance to its stored form. */
function jsonOf(instance) {
  const state = STATE.get(instance)
  if (state === undefined) throw new Error('the value is not an instance of a type of the model')
  requireContent(state)
  const { values } = state
  const json = { $class: state.type }
  const { properties } = MODEL[state.type]
  const shownId = state.id === null ? undefined : `${state.type}#${idOf(state)}`
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined || value === null || name.startsWith('$')) continue
    const property = properties[name]
    // The network refuses an undeclared property with any value, so an object is sent as null.
    if (property === undefined) json[name] = typeof value === 'object' ? null : value
    else if (Array.isArray(value)) {
      json[name] = value.map((element) => jsonValueOf(name, property, element, shownId))
    } else json[name] = jsonValueOf(name, property, value, shownId)
  }
  return json
}

function jsonValueOf(name, property, value, shownId) {
  // Throws for NaN and infinity, because JSON would contain null, which means a missing value.
  if (typeof value === 'number' && !Number.isFinite(value)) {
    throw new Error(`${name} is not a finite number: ${value}`)
  }
  requireKind(property, name, value, shownId)
  if (value instanceof RealDate) return value.toISOString()
  if (typeof value !== 'object') return value
  return property.relationship ? relationshipText(STATE.get(value)) : jsonOf(value)
}
