import { errorMessage } from '../../base/errors.ts'
import {
  type DeclarationKind,
  type DeclarationNode,
  type Decorator,
  type ModelFile,
  PRIMITIVES,
  type Primitive,
  type PropertyNode,
  parseModelFile,
} from '../language/model-parser.ts'
import { Findings, type SourceFile } from '../language/source.ts'
import { isIdentified, Model, type Property, type TypeDeclaration } from './model.ts'
import { SYSTEM_MODEL, SYSTEM_NAMESPACE, SYSTEM_ROOTS, systemType } from './system.ts'
import { inRange, matchesPattern, normalizeInstant } from './validation.ts'

/** Resolves the names in one model file. */
class Scope {
  /** Maps short names to qualified names. The first entry for a name is kept. */
  readonly #names = new Map<string, string>()
  readonly #known: ReadonlySet<string>

  private constructor(known: ReadonlySet<string>) {
    this.#known = known
  }

  /** Returns the qualified name of a short or qualified name, or null if it is unknown. */
  resolve(name: string): string | null {
    return this.#names.get(name) ?? (this.#known.has(name) ? name : null)
  }

  /**
   * Returns the scope of `file`. If a short name could refer to several types, the first of these applies: a type of
   * the file, a type imported by name, a type in SYSTEM_ROOTS, a type imported with a star.
   */
  static of(
    file: ModelFile,
    namespaces: ReadonlyMap<string, readonly DeclarationNode[]>,
    known: ReadonlySet<string>,
    findings: Findings,
  ): Scope {
    const scope = new Scope(known)
    for (const { name } of file.declarations) scope.#add(name, `${file.namespace}.${name}`)
    for (const { namespace, type, at } of file.imports) {
      const declarations = namespaces.get(namespace)
      if (declarations === undefined) {
        findings.error(file.file, at, `there is no namespace ${namespace} to import from`)
      } else if (type !== null && !declarations.some(({ name }) => name === type)) {
        findings.error(file.file, at, `there is no type ${type} in ${namespace}`)
      } else if (type !== null && !scope.#add(type, `${namespace}.${type}`)) {
        const existing = scope.resolve(type)
        const message = `the imported ${namespace}.${type} conflicts with ${existing}`
        findings.error(file.file, at, message)
      }
    }
    for (const name of SYSTEM_ROOTS) scope.#add(name, `${SYSTEM_NAMESPACE}.${name}`)
    for (const { namespace, type } of file.imports) {
      if (type !== null) continue
      for (const { name } of namespaces.get(namespace) ?? []) {
        scope.#add(name, `${namespace}.${name}`)
      }
    }
    return scope
  }

  #add(name: string, qualifiedName: string): boolean {
    const before = this.#names.get(name)
    if (before === undefined) this.#names.set(name, qualifiedName)
    return before === undefined || before === qualifiedName
  }
}

interface Decorated {
  readonly kind: DeclarationKind
  readonly file: SourceFile
}

/** Checks the decorators that daicho uses: `@returns(Type)` and `@commit(true|false)`. Other decorators are ignored. */
function checkDecorators(
  decorators: readonly Decorator[],
  { kind, file }: Decorated,
  findings: Findings,
  typeNamed: (name: string) => unknown,
): void {
  const seen = new Set<string>()
  for (const { name, at, arguments: values } of decorators) {
    if (seen.has(name)) findings.error(file, at, `duplicate decorator @${name}`)
    seen.add(name)
    if (name === 'commit' && kind === 'transaction') {
      const [value] = values
      if (values.length !== 1 || typeof value !== 'boolean') {
        findings.error(file, at, '@commit needs one argument: true or false')
      }
    }
    if (name === 'returns' && kind === 'transaction') {
      const [type] = values
      if (values.length !== 1 || typeof type !== 'string') {
        findings.error(file, at, '@returns needs one argument: the name of a type')
        continue
      }
      const element = type.replace(/\[\]$/, '')
      const known = PRIMITIVES.some((primitive) => primitive === element)
      if (!known && typeNamed(element) === null) {
        findings.error(file, at, `@returns names the unknown type ${element}`)
      }
    }
  }
}

const NUMBERS: readonly string[] = ['Double', 'Integer', 'Long']

/** Reports an error and returns null, which replaces the rejected value. */
type Report = (at: number, message: string) => null

/** Checks default, regex and range of a property against its type. */
function checkedMeta(
  node: PropertyNode,
  primitive: Primitive | null,
  type: TypeDeclaration | null,
  report: Report,
): Pick<Property, 'default' | 'regex' | 'range'> {
  const range = checkedRange(node, primitive, report)
  const regex = checkedRegex(node, primitive, report)
  const preset = checkedDefault(node, primitive, type, report)
  const { default: declared, name } = node
  if (declared !== null && preset !== null) {
    const outside = typeof preset === 'number' && !inRange(preset, range)
    const unmatched =
      typeof preset === 'string' && regex !== null && matchesPattern(regex, preset) !== true
    if (outside) report(declared.at, `the default of ${name} is outside of its range`)
    if (unmatched)
      report(declared.at, `the default of ${name} does not match its regular expression`)
  }
  return { default: preset, regex, range }
}

function checkedRange(
  { range, name }: PropertyNode,
  primitive: Primitive | null,
  report: Report,
): Property['range'] {
  if (range === null) return null
  const { lower, upper, at } = range
  if (!NUMBERS.includes(primitive ?? ''))
    return report(at, `${name} cannot have a range: it is not a number`)
  if (lower === null && upper === null) return report(at, `the range of ${name} has no bound`)
  if (lower !== null && upper !== null && lower > upper) {
    return report(at, `the range of ${name} is empty: ${lower} is greater than ${upper}`)
  }
  const whole = (bound: number | null) => bound === null || Number.isSafeInteger(bound)
  if (primitive === 'Double' || (whole(lower) && whole(upper))) return { lower, upper }
  return report(at, `the bounds of the range of ${name} must be integers`)
}

function checkedRegex(
  { regex, name }: PropertyNode,
  primitive: Primitive | null,
  report: Report,
): RegExp | null {
  if (regex === null) return null
  const { source, flags, at } = regex
  if (primitive !== 'String') {
    return report(at, `${name} cannot have a regular expression: it is not a String`)
  }
  try {
    // Removes the flags `g` and `y`, because with these flags a test would start at the end of the previous match.
    return new RegExp(source, flags.replace(/[gy]/g, ''))
  } catch (error) {
    const reason = errorMessage(error)
    return report(at, `the regular expression of ${name} is invalid: ${reason}`)
  }
}

function checkedDefault(
  { default: declared, name, array, relationship }: PropertyNode,
  primitive: Primitive | null,
  type: TypeDeclaration | null,
  report: Report,
): string | number | boolean | null {
  if (declared === null) return null
  const { value, at } = declared
  const wrong = (expected: string) => report(at, `the default of ${name} must be ${expected}`)
  if (relationship || array || (primitive === null && type?.kind !== 'enum')) {
    return report(at, `${name} cannot have a default`)
  }
  switch (primitive) {
    case 'String':
      return typeof value === 'string' && value.isWellFormed()
        ? value
        : wrong('a string in quotes, without half of a surrogate pair')
    case 'Boolean':
      return typeof value === 'boolean' ? value : wrong('true or false')
    case 'DateTime':
      return (
        (typeof value === 'string' ? normalizeInstant(value) : null) ?? wrong('a date and time')
      )
    case 'Double':
      return Number.isFinite(value) ? value : wrong('a number')
    case 'Integer':
    case 'Long':
      return Number.isSafeInteger(value) ? value : wrong('an integer')
    case null:
      return type?.values.has(String(value)) === true ? value : wrong(`a value of ${type?.name}`)
  }
}

/** Maximum number of super types of a type. */
const SUPER_TYPES_MAX = 100
/** Maximum number of properties of all types together. Inherited properties count in each type that inherits them. */
const PROPERTIES_MAX = 50_000

/** A `TypeDeclaration` while it is being checked and completed. */
interface Draft extends TypeDeclaration {
  readonly node: DeclarationNode
  readonly file: SourceFile
  readonly scope: Scope
  superType: Draft | null
  identifier: string | null
  readonly properties: Map<string, Property>
  readonly values: Set<string>
  complete: boolean
}

/**
 * Checks model files and returns their model. Adds all problems to `findings`; the model omits the rejected types
 * and properties.
 * Source: the rules of Hyperledger Composer 0.20; docs/decisions/0027-networks-in-the-ledger.md.
 */
export function checkModel(files: readonly ModelFile[], findings: Findings): Model {
  const system = parseModelFile(SYSTEM_MODEL, new Findings())
  const all = system === null ? files : [system, ...files]
  const namespaces = collectNamespaces(all, findings)
  const drafts = toDrafts(all, namespaces, findings)
  for (const draft of drafts.values()) linkSuperType(draft, drafts, findings)
  for (const draft of drafts.values()) breakCycle(draft, findings)
  const total = { properties: 0 }
  for (const draft of drafts.values()) complete(draft, drafts, findings, total)
  for (const draft of drafts.values()) {
    checkDecorators(draft.node.decorators, draft, findings, (name) =>
      typeNamed(name, draft, drafts),
    )
  }
  return new Model(drafts)
}

function typeNamed(name: string, { scope }: Draft, drafts: ReadonlyMap<string, Draft>) {
  const qualifiedName = scope.resolve(name)
  return qualifiedName === null ? null : (drafts.get(qualifiedName) ?? null)
}

function collectNamespaces(files: readonly ModelFile[], findings: Findings) {
  const namespaces = new Map<string, readonly DeclarationNode[]>()
  for (const { namespace, namespaceAt, declarations, file } of files) {
    if (namespace === SYSTEM_NAMESPACE && file !== SYSTEM_MODEL) {
      findings.error(file, namespaceAt, `the namespace ${namespace} is reserved for system types`)
    } else if (namespaces.has(namespace)) {
      findings.error(file, namespaceAt, `another file already has the namespace ${namespace}`)
    } else {
      namespaces.set(namespace, declarations)
    }
  }
  return namespaces
}

function toDrafts(
  files: readonly ModelFile[],
  namespaces: ReadonlyMap<string, readonly DeclarationNode[]>,
  findings: Findings,
): Map<string, Draft> {
  const known = new Set(
    [...namespaces].flatMap(([namespace, list]) => list.map(({ name }) => `${namespace}.${name}`)),
  )
  const drafts = new Map<string, Draft>()
  for (const file of files) {
    // Of several files with the same namespace, only the first file is used.
    if (namespaces.get(file.namespace) !== file.declarations) continue
    const scope = Scope.of(file, namespaces, known, findings)
    for (const node of file.declarations) {
      const draft = toDraft(node, file, scope, findings)
      if (drafts.has(draft.qualifiedName)) {
        findings.error(file.file, node.at, `duplicate type ${node.name} in ${file.namespace}`)
      } else {
        drafts.set(draft.qualifiedName, draft)
      }
    }
  }
  return drafts
}

function toDraft(
  node: DeclarationNode,
  { file, namespace }: ModelFile,
  scope: Scope,
  findings: Findings,
): Draft {
  const { kind, name, abstract, decorators } = node
  const isSystem = file === SYSTEM_MODEL
  if (isPrimitive(name) || (!isSystem && SYSTEM_ROOTS.includes(name))) {
    findings.error(file, node.at, `${name} is a reserved name`)
  }
  const values = new Set<string>()
  for (const value of node.values) {
    if (values.has(value.name)) {
      findings.error(file, value.at, `duplicate value ${value.name} of ${name}`)
    }
    values.add(value.name)
  }
  const qualifiedName = `${namespace}.${name}`
  const empty = { superType: null, identifier: null, properties: new Map(), complete: false }
  const names = { kind, qualifiedName, namespace, name, abstract, decorators }
  return { node, file, scope, ...names, ...empty, values }
}

const ROOT_OF: Readonly<Record<string, string>> = {
  asset: systemType('Asset'),
  participant: systemType('Participant'),
  transaction: systemType('Transaction'),
  event: systemType('Event'),
}

function linkSuperType(draft: Draft, drafts: ReadonlyMap<string, Draft>, findings: Findings): void {
  const { node, file, kind, name } = draft
  const root = ROOT_OF[kind]
  if (node.superType === null) {
    const isRoot = root === undefined || root === draft.qualifiedName
    draft.superType = isRoot ? null : (drafts.get(root) ?? null)
    return
  }
  const { name: written, at } = node.superType
  const found = typeNamed(written, draft, drafts)
  if (found === null) {
    findings.error(file, at, `${name} extends the unknown type ${written}`)
  } else if (found.kind !== kind) {
    findings.error(file, at, `${name} (${kind}) cannot extend ${written} (${found.kind})`)
  } else {
    draft.superType = found
  }
}

/**
 * Reports a type that extends itself or has too many super types, and removes its super type, so that loops over super
 * types terminate.
 */
function breakCycle(draft: Draft, findings: Findings): void {
  const seen = new Set<Draft>()
  for (let at: Draft | null = draft; at !== null; at = at.superType) {
    if (seen.has(at)) {
      const { node, file, name } = at
      findings.error(file, node.superType?.at ?? node.at, `${name} extends itself`)
      at.superType = null
      return
    }
    if (seen.size > SUPER_TYPES_MAX) {
      const { node, file, name } = draft
      findings.error(file, node.at, `${name} has more than ${SUPER_TYPES_MAX} super types`)
      draft.superType = null
      return
    }
    seen.add(at)
  }
}

/** Adds the properties of `draft` and of its super types. `total` counts the properties of all types. */
function complete(
  draft: Draft,
  drafts: ReadonlyMap<string, Draft>,
  findings: Findings,
  total: { properties: number },
): void {
  if (draft.complete) return
  draft.complete = true
  const { node, file, name, superType } = draft
  if (superType !== null) complete(superType, drafts, findings, total)
  const before = total.properties
  total.properties += node.properties.length + (superType?.properties.size ?? 0)
  if (total.properties > PROPERTIES_MAX) {
    const message = `the types together have more than ${PROPERTIES_MAX} properties, including inherited properties`
    if (before <= PROPERTIES_MAX) findings.error(file, node.at, message)
    return
  }
  if (superType !== null) {
    for (const [key, property] of superType.properties) draft.properties.set(key, property)
  }
  for (const property of node.properties) {
    if (draft.properties.has(property.name)) {
      const isInherited = superType?.properties.has(property.name) === true
      const verb = isInherited ? 'inherits' : 'has'
      findings.error(file, property.at, `${name} already ${verb} a property ${property.name}`)
      continue
    }
    const checked = checkedProperty(property, draft, drafts, findings)
    if (checked !== null) draft.properties.set(property.name, checked)
  }
  checkIdentifier(draft, findings)
}

function checkedProperty(
  node: PropertyNode,
  draft: Draft,
  drafts: ReadonlyMap<string, Draft>,
  findings: Findings,
): Property | null {
  const { file } = draft
  const { name, relationship, array, optional, decorators } = node
  const report: Report = (at, message) => {
    findings.error(file, at, message)
    return null
  }
  if (name.startsWith('$') || name === '__proto__') {
    return report(node.at, `${name} is not a valid name of a property`)
  }
  checkDecorators(decorators, draft, findings, (named) => typeNamed(named, draft, drafts))
  const primitive = isPrimitive(node.type) ? node.type : null
  const type = primitive === null ? typeNamed(node.type, draft, drafts) : null
  if (primitive === null && type === null) {
    return report(node.typeAt, `there is no type ${node.type}`)
  }
  if (relationship && (type === null || !isIdentified(type))) {
    const expected = 'an asset, a participant, a transaction or an event'
    return report(node.typeAt, `the target of a relationship must be ${expected}, not ${node.type}`)
  }
  const meta = checkedMeta(node, primitive, type, report)
  return { name, relationship, array, optional, primitive, type, decorators, ...meta }
}

function checkIdentifier(draft: Draft, findings: Findings): void {
  const { node, file, name, kind, superType } = draft
  const inherited = superType?.identifier ?? null
  draft.identifier = inherited
  const { identifiedBy } = node
  if (identifiedBy === null) {
    const needed = kind === 'asset' || kind === 'participant'
    const unresolved = node.superType !== null && superType === null
    if (needed && inherited === null && !draft.abstract && !unresolved) {
      findings.error(file, node.at, `${name} needs “identified by”, or a super type with it`)
    }
    return
  }
  const { name: field, at } = identifiedBy
  const isSystem = file === SYSTEM_MODEL
  if (kind === 'concept' || (!isSystem && (kind === 'transaction' || kind === 'event'))) {
    const reason =
      kind === 'concept' ? 'a concept has no identity' : `the server assigns the id of a ${kind}`
    findings.error(file, at, `${name} cannot have “identified by”: ${reason}`)
  } else if (inherited === field) {
    findings.error(file, at, `${name} already inherits “identified by ${inherited}”`)
  } else {
    draft.identifier = field
    checkIdentifying(draft, field, at, findings)
  }
}

function checkIdentifying(draft: Draft, field: string, at: number, findings: Findings): void {
  const { node, file, name } = draft
  const property = draft.properties.get(field)
  if (property === undefined) {
    // The property is declared but invalid, which `checkedProperty` has already reported.
    if (node.properties.some((declared) => declared.name === field)) return
    findings.error(file, at, `${name} is identified by ${field}, but has no such property`)
  } else if (property.primitive !== 'String' || property.array) {
    findings.error(file, at, `${field} identifies ${name}, so it must be a String`)
  } else if (property.optional) {
    findings.error(file, at, `${field} identifies ${name}, so it must not be optional`)
  }
}

function isPrimitive(name: string): name is Primitive {
  return PRIMITIVES.some((primitive) => primitive === name)
}
