import { createHash } from 'node:crypto'
import { isJsonObject, type JsonObject, parseJson } from '../../base/json.ts'
import { type AccessRule, checkRules } from '../access/control.ts'
import { NetworkError } from '../errors.ts'
import { type ModelFile, parseModelFile } from '../language/model-parser.ts'
import { parseQueries } from '../language/query-parser.ts'
import { parseRules } from '../language/rule-parser.ts'
import {
  findScriptError,
  outlineScript,
  type ScriptComment,
  type ScriptOutline,
} from '../language/script.ts'
import { Findings, formatFinding, type SourceFile, type SourceFinding } from '../language/source.ts'
import { checkModel } from '../model/checker.ts'
import type { Model } from '../model/model.ts'
import { checkQueries, type NamedQuery } from '../queries/check.ts'
import { type NetworkFiles, type NetworkSource, readArchive, writeArchive } from './files.ts'

export interface NetworkPackage {
  readonly name: string
  readonly version: string
  readonly description: string
  /** See `Strictness`. */
  readonly strictNumbers: boolean
  /** Whether the targets of relationships must exist. */
  readonly strictReferences: boolean
  /** Whether subscribers need READ access to every event, including events that no rule mentions. */
  readonly strictEvents: boolean
}

/** Names that a network cannot have, because the gateway or the ledger uses them as paths. */
const RESERVED = [
  ...['api', 'explorer', 'status', 'networks', 'config', 'ledgers', 'dbs', 'serverid', 'doc'],
]
const NAME = /^[a-z0-9][a-z0-9._-]{0,63}$/
const VERSION = /^\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.+-]{1,64})?$/

/** Reads a `package.json` and adds problems to `findings`. */
function readPackage(file: SourceFile, findings: Findings): NetworkPackage {
  const json = parseManifest(file, findings)
  const { name, version, description, engines, daicho } = json
  if (typeof name !== 'string' || !NAME.test(name) || RESERVED.includes(name)) {
    const form = 'at most 64 lower-case letters, digits, “-”, “_” and “.”, and not a reserved name'
    findings.fileError(file.path, `“name” must be the name of the network: ${form}`)
  }
  if (typeof version !== 'string' || !VERSION.test(version)) {
    findings.fileError(file.path, '“version” must be a version like 1.0.0')
  }
  const flags = isJsonObject(daicho) ? daicho : {}
  const forComposer = isJsonObject(engines) && engines.composer !== undefined
  return {
    name: String(name),
    version: String(version),
    description: typeof description === 'string' ? description : '',
    strictNumbers: readFlag(flags, 'strictNumbers', !forComposer, file, findings),
    strictReferences: readFlag(flags, 'strictReferences', false, file, findings),
    strictEvents: readFlag(flags, 'strictEvents', false, file, findings),
  }
}

function parseManifest(file: SourceFile, findings: Findings): JsonObject {
  try {
    const json: unknown = parseJson(file.text)
    if (isJsonObject(json)) return json
    findings.fileError(file.path, 'not a JSON object')
  } catch (error) {
    findings.fileError(file.path, `not valid JSON: ${error instanceof Error ? error.message : ''}`)
  }
  return { name: 'unnamed', version: '0.0.0' }
}

function readFlag(
  flags: JsonObject,
  name: string,
  fallback: boolean,
  file: SourceFile,
  findings: Findings,
): boolean {
  const value = flags[name] ?? fallback
  if (typeof value === 'boolean') return value
  findings.fileError(file.path, `“daicho.${name}” must be true or false`)
  return fallback
}

/** A function in `lib/` that runs for each transaction of one type. */
export interface Processor {
  readonly name: string
  /** Qualified name of the transaction type. The function does not run for subtypes. */
  readonly transaction: string
  readonly path: string
}

const TRANSACTION_TAG = /(?:^|\W)@transaction\b/
/** Composer ignores a function whose comment has one of these tags. */
const HIDDEN_TAG = /^[ \t*]*@(private|protected)\b/m
const PARAMETER_TAG = /^[ \t*]*@param\b(?:\s*\{\s*[!?]?\s*([\p{L}\p{Nd}_$.]+)\s*[=!?]?\s*\})?/gmu

/**
 * Finds the processors in the scripts of a network: top-level functions whose comment contains `@transaction` and
 * `@param {ns.Type} name`, and functions named `on<Type>`. Adds problems to `findings`.
 * Source: Composer 0.20.9, `javascriptparser.js` and `compiledscriptbundle.js`.
 */
function findProcessors(
  scripts: readonly OutlinedScript[],
  models: readonly ModelFile[],
  model: Model,
  findings: Findings,
): Processor[] {
  /** The transaction types by the names of their functions, `on<Type>`. */
  const named = Map.groupBy(
    [...model.types()].filter(({ kind }) => kind === 'transaction'),
    (type) => `on${type.name}`,
  )
  const found: Processor[] = []
  for (const { file, functions, comments } of scripts) {
    const attached = new Set(functions.map(({ comment }) => comment))
    for (const comment of comments) {
      if (!comment.isBlock || attached.has(comment) || !TRANSACTION_TAG.test(comment.text)) continue
      const message = 'no top-level function follows this @transaction, so nothing runs for it'
      findings.warningAt(file, comment.at, message)
    }
    for (const declared of functions) {
      const { name, comment, at } = declared
      const isTagged = comment !== null && TRANSACTION_TAG.test(comment.text)
      const types = isTagged
        ? findTaggedTypes(name, comment, model, file, findings)
        : (named.get(name) ?? []).map(({ qualifiedName }) => qualifiedName)
      const [, hidden] = HIDDEN_TAG.exec(comment?.text ?? '') ?? []
      if (types.length > 0 && hidden !== undefined) {
        findings.warningAt(file, at, `${name} has the tag @${hidden}, so it is no processor`)
        continue
      }
      if (types.length > 0 && declared.isGenerator) {
        findings.warningAt(file, at, `the processor ${name} is a generator: its body never runs`)
      }
      found.push(...types.map((transaction) => ({ name, transaction, path: file.path })))
    }
  }
  if (scripts.length > 0) addWarnings(found, models, model, findings)
  return found
}

type OutlinedScript = ScriptOutline & { readonly file: SourceFile }

/** Warns of functions that are no processors, and whose name occurs nowhere else, neither in a script nor in a condition. */
function warnOfUncalledFunctions(
  scripts: readonly OutlinedScript[],
  rules: readonly AccessRule[] | null,
  processors: readonly Processor[],
  findings: Findings,
): void {
  const conditions = (rules ?? []).flatMap(({ condition }) => condition ?? [])
  const places = [...scripts, ...conditions.map(outlineScript)]
  const processing = new Set(processors.map(({ name }) => name))
  const declared = scripts.flatMap(({ file, functions }) =>
    functions.map((each) => ({ ...each, file })),
  )
  const declarations = Map.groupBy(declared, ({ name }) => name)
  for (const [name, [first, ...others]] of declarations) {
    const uses = places.reduce((sum, { names }) => sum + (names.get(name) ?? 0), 0)
    if (first === undefined || uses > 1 + others.length || processing.has(name)) continue
    if (HIDDEN_TAG.test(first.comment?.text ?? '')) continue
    findings.warningAt(
      first.file,
      first.at,
      `nothing calls ${name}, and it processes no transaction`,
    )
  }
}

/** Returns the transaction type in the `@param` of a processor's comment. Adds problems to `findings`. */
function findTaggedTypes(
  name: string,
  { text, at }: ScriptComment,
  model: Model,
  file: SourceFile,
  findings: Findings,
): string[] {
  const types = Array.from(text.matchAll(PARAMETER_TAG), ([, type]) => type)
  const [type] = types
  if (type === undefined || types.length > 1) {
    const needs = `needs exactly one @param {<transaction type>} <name> in its comment`
    findings.error(file, at, `the processor ${name} ${needs}`)
    return []
  }
  if (model.type(type)?.kind === 'transaction') return [type]
  const typeAt = at + 2 + text.indexOf(type)
  findings.error(file, typeAt, `the processor ${name} has the unknown transaction type ${type}`)
  return []
}

/** Warns of transactions that no function processes, and of functions that are declared twice. */
function addWarnings(
  processors: readonly Processor[],
  models: readonly ModelFile[],
  model: Model,
  findings: Findings,
): void {
  const processed = new Set(processors.map(({ transaction }) => transaction))
  for (const { file, namespace, declarations } of models) {
    for (const { kind, abstract, name, at } of declarations) {
      const type = `${namespace}.${name}`
      if (kind !== 'transaction' || abstract || processed.has(type) || !model.type(type)) continue
      findings.warningAt(file, at, `no function processes ${type}, so it is always rejected`)
    }
  }
  const seen = new Set<string>()
  for (const { name, transaction, path } of processors) {
    const key = `${name} ${transaction}`
    if (seen.has(key)) {
      const message = `the processor ${name} is declared twice: its last declaration runs twice`
      findings.warning(path, message)
    }
    seen.add(key)
  }
}

/** A checked network: its files have no errors. */
export interface NetworkDefinition extends NetworkPackage {
  /** The original `.bna`, or an archive created from the network's directory. */
  readonly archive: Buffer
  /** SHA-256 of the archive, in hexadecimal. */
  readonly sha256: string
  readonly model: Model
  /** Access rules in order; null if the network has none and therefore allows everything. */
  readonly rules: readonly AccessRule[] | null
  readonly queries: ReadonlyMap<string, NamedQuery>
  readonly scripts: readonly SourceFile[]
  readonly processors: readonly Processor[]
  readonly warnings: readonly SourceFinding[]
}

/** The findings in a network's files. `definition` is null if there are errors. */
export interface NetworkReport {
  readonly findings: readonly SourceFinding[]
  readonly definition: NetworkDefinition | null
}

export function checkNetwork({ files, packed }: NetworkSource): NetworkReport {
  const findings = new Findings()
  const read = (path: string): SourceFile => readSource(path, files, findings)
  const paths = [...files.keys()]
  const about = readPackage(read('package.json'), findings)

  const models = paths.filter((path) => path.endsWith('.cto')).map(read)
  if (models.length === 0) findings.fileError('models', 'there is no model (.cto file)')
  const parsed = models.flatMap((file) => parseModelFile(file, findings) ?? [])
  const model = checkModel(parsed, findings)

  const scripts = paths.filter((path) => path.endsWith('.js')).map(read)
  const valid = scripts.filter((file) => isScript(file, findings))
  const outlined = valid.map((file) => ({ file, ...outlineScript(file.text) }))
  const processors = findProcessors(outlined, parsed, model, findings)

  const rules = readRules(files, model, findings, read)
  if (findings.clean) warnOfUncalledFunctions(outlined, rules, processors, findings)
  const queries = files.has('queries.qry')
    ? checkQueries(parseQueries(read('queries.qry'), findings), model, findings, read)
    : new Map<string, NamedQuery>()

  const found = findings.sorted()
  if (!findings.clean) return { findings: found, definition: null }
  const archive = packed ?? writeArchive(files)
  const sha256 = createHash('sha256').update(archive).digest('hex')
  const parts = { model, rules, queries, scripts, processors }
  return { findings: found, definition: { ...about, archive, sha256, ...parts, warnings: found } }
}

/** Returns the rules of a network. As in Composer, an empty file is no file. */
function readRules(
  files: NetworkFiles,
  model: Model,
  findings: Findings,
  read: (path: string) => SourceFile,
): readonly AccessRule[] | null {
  const path = 'permissions.acl'
  const everything = 'so everyone may do everything'
  if (!files.has(path)) {
    findings.warning(path, `the file is missing, ${everything}`)
    return null
  }
  const file = read(path)
  if (file.text !== '') return checkRules(parseRules(file, findings), model, findings, read)
  findings.warningAt(file, 0, `the file is empty, ${everything}`)
  return null
}

/** Returns the network in `source`. Errors: NETWORK_INVALID with all findings. */
export function requireDefinition(source: NetworkSource): NetworkDefinition {
  const { findings, definition } = checkNetwork(source)
  if (definition !== null) return definition
  const errors = findings.filter(({ severity }) => severity === 'error')
  const [first] = errors
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : ''
  const message = first === undefined ? '' : `${formatFinding(first)}${more}`
  throw new NetworkError('NETWORK_INVALID', message, { findings })
}

/** Returns the network in a `.bna`. Errors: NETWORK_UNREADABLE, NETWORK_INVALID. */
export function readDefinition(archive: Buffer): NetworkDefinition {
  return requireDefinition({ files: readArchive(archive), packed: archive })
}

function readSource(path: string, files: NetworkFiles, findings: Findings): SourceFile {
  const bytes = files.get(path) ?? Buffer.alloc(0)
  try {
    return { path, text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) }
  } catch {
    findings.fileError(path, 'not valid UTF-8')
    return { path, text: '' }
  }
}

/** Whether a script has no syntax errors. Adds an error to `findings` if it has. */
function isScript(file: SourceFile, findings: Findings): boolean {
  const wrong = findScriptError(file.text)
  if (wrong !== null) findings.fileError(file.path, wrong.message, wrong)
  return wrong === null
}
