// Runs inside a guest, after `resources.js`. Validates instances as Composer does, with its messages. The network
// validates all writes and events again.

/* global MODEL, RealDate, STATE, idOf, isInstance, requireContent */

/** Throws unless `value`, without its array, has the kind of `property`. A text is no date, a plain object no concept. */
function requireKind(property, name, value, shownId) {
  const { primitive, type, relationship, array } = property
  if (hasKind(property, value)) return
  const owner = `Model violation in instance ${shownId}`
  if (relationship) {
    throw new Error(`${owner} class ${type} has value ${value} expected a Relationship.`)
  }
  if (primitive === null && MODEL[type].kind !== 'enum') {
    throw new Error(`${owner} class ${type} has value ${value} expected a Resource or a Concept.`)
  }
  const expected = `${primitive ?? MODEL[type].name}${array ? '[]' : ''}`
  const isNumber = typeof value === 'number'
  const found = isNumber && Number.isNaN(value) ? 'Non-numeric (unknown)' : shownValue(value)
  throw new Error(`${owner} field ${name} has value ${found} expected type ${expected}`)
}

function hasKind({ primitive, type, relationship }, value) {
  switch (primitive) {
    case 'DateTime':
      return value instanceof RealDate
    case 'Boolean':
      return typeof value === 'boolean'
    case 'String':
      return typeof value === 'string'
    case null: {
      if (MODEL[type].kind === 'enum') return typeof value === 'string'
      const state = typeof value === 'object' && value !== null ? STATE.get(value) : undefined
      return state !== undefined && (!relationship || state.id !== null)
    }
    default:
      return typeof value === 'number' && !Number.isNaN(value)
  }
}

function shownValue(value) {
  const state = typeof value === 'object' && value !== null ? STATE.get(value) : undefined
  if (state !== undefined) return `${state.type}#${idOf(state)} (${state.type})`
  return `${value ? JSON.stringify(value) : value} (${typeof value})`
}

/** Throws unless `value` is valid for `property`. */
function requireField(property, name, value, shownId) {
  const { array, relationship, type, primitive, range, regex } = property
  if (array && !Array.isArray(value))
    requireKind({ ...property, primitive: 'Array' }, name, value, shownId)
  const fail = (text) => {
    throw new Error(`Validator error for field ${shownId} ${name}: ${text}`)
  }
  for (const item of array ? value : [value]) {
    requireKind(property, name, item, shownId)
    if (primitive === null) requireDeclared(type, relationship, name, item, shownId)
    if (range !== undefined && range.lower !== null && item < range.lower) {
      fail(`Value is outside lower bound ${item}`)
    }
    if (range !== undefined && range.upper !== null && item > range.upper) {
      fail(`Value is outside upper bound ${item}`)
    }
    if (regex !== undefined && !new RegExp(...regex).test(item)) {
      fail(`Value + '${item}' failed to match validation regex: /${regex.join('/')}`)
    }
  }
}

/** Throws unless `item` is a value of the enum `type`, or a valid instance of it or of a subtype. */
function requireDeclared(type, relationship, name, item, shownId) {
  const { values, kind, name: shortName } = MODEL[type]
  if (kind === 'enum') {
    if (values?.includes(item)) return
    throw new Error(`Instance ${shownId} invalid enum value ${item} for field ${shortName}`)
  }
  const found = STATE.get(item).type
  if (!isInstance(found, type)) {
    const wrong = `has property ${name} with type ${found} that is not derived from ${type}`
    throw new Error(`Instance ${shownId} ${wrong}`)
  }
  if (!relationship) requireValid(item, shownId)
}

/** Throws unless `instance` is valid. `above` is the id of the resource that contains it, if it is a concept. */
function requireValid(instance, above) {
  const state = STATE.get(instance)
  requireContent(state)
  const { type: name, id, values } = state
  const { properties, entries } = MODEL[name]
  const shownId = id === null ? above : `${name}#${idOf(state)}`
  for (const key of Object.keys(values)) {
    if (Object.hasOwn(properties, key) || key.startsWith('$')) continue
    const wrong = `has a property named ${key} which is not declared in ${name}`
    throw new Error(`Instance ${id === null ? above : idOf(state)} ${wrong}`)
  }
  if (id !== null && String(idOf(state)).trim() === '') {
    throw new Error(`Instance ${shownId} has an empty identifier.`)
  }
  for (const [key, property] of entries) {
    const value = Object.hasOwn(values, key) ? values[key] : null
    if (value !== undefined && value !== null) requireField(property, key, value, shownId)
    // As in requests, a missing array is empty.
    else if (!property.optional && !property.array) {
      throw new Error(`Instance ${shownId} missing required field ${key}`)
    }
  }
}

/** Throws unless `instance` can have `value` as its property `name`. `isItem`: as an element of the property. */
function requireFieldValue(instance, name, value, isItem) {
  const state = STATE.get(instance)
  if (state.isReference) return
  const { properties } = MODEL[state.type]
  const property = Object.hasOwn(properties, name) ? properties[name] : undefined
  const trying = `The instance with id ${idOf(state)} trying to`
  if (property === undefined) {
    throw new Error(`${trying} set field ${name} which is not declared in the model.`)
  }
  if (isItem && !property.array) {
    throw new Error(
      `${trying} add array item ${name} which is not declared as an array in the model.`,
    )
  }
  if (value === undefined || value === null) throw new Error('Pushing null data!')
  const shownId = state.id === null ? undefined : `${state.type}#${idOf(state)}`
  requireField(property, name, isItem ? [value] : value, shownId)
}
