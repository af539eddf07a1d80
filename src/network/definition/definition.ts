import { createHash } from 'node:crypto'
import { isJsonObject, type JsonObject, parseJson } from '../../base/json.ts'
import { type AccessRule, checkRules } from '../access/control.ts'
import { NetworkError } from '../errors.ts'
import { parseModelFile } from '../language/model-parser.ts'
import { parseQueries } from '../language/query-parser.ts'
import { parseRules } from '../language/rule-parser.ts'
import {
  type Finding,
  Findings,
  findingText,
  type SourceFile,
  scriptErrorOf,
} from '../language/source.ts'
import { checkModel } from '../model/checker.ts'
import type { Model } from '../model/model.ts'
import { checkQueries, type NamedQuery } from '../queries/check.ts'
import { type NetworkFiles, type NetworkSource, readArchive, writeArchive } from './files.ts'

/** The `package.json` of a network. */
export interface NetworkPackage {
  readonly name: string
  readonly version: string
  readonly description: string
  /** Whether the values of Integer and Long properties must be integers. If not, 1.5 is accepted. */
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
    findings.errorIn(file.path, `“name” must be the name of the network: ${form}`)
  }
  if (typeof version !== 'string' || !VERSION.test(version)) {
    findings.errorIn(file.path, '“version” must be a version like 1.0.0')
  }
  const flags = isJsonObject(daicho) ? daicho : {}
  const forComposer = isJsonObject(engines) && engines.composer !== undefined
  return {
    name: String(name),
    version: String(version),
    description: typeof description === 'string' ? description : '',
    strictNumbers: flag(flags, 'strictNumbers', !forComposer, file, findings),
    strictReferences: flag(flags, 'strictReferences', false, file, findings),
    strictEvents: flag(flags, 'strictEvents', false, file, findings),
  }
}

function parseManifest(file: SourceFile, findings: Findings): JsonObject {
  try {
    const json: unknown = parseJson(file.text)
    if (isJsonObject(json)) return json
    findings.errorIn(file.path, 'not a JSON object')
  } catch (error) {
    findings.errorIn(file.path, `not valid JSON: ${error instanceof Error ? error.message : ''}`)
  }
  return { name: 'unnamed', version: '0.0.0' }
}

function flag(
  flags: JsonObject,
  name: string,
  fallback: boolean,
  file: SourceFile,
  findings: Findings,
): boolean {
  const value = flags[name] ?? fallback
  if (typeof value === 'boolean') return value
  findings.errorIn(file.path, `“daicho.${name}” must be true or false`)
  return fallback
}

/** A function in `lib/` that runs for each transaction of one type. */
export interface Processor {
  readonly name: string
  /** Qualified name of the transaction type. The function also runs for subtypes. */
  readonly transaction: string
  readonly path: string
}

/** The function after a doc comment. Takes linear time, because no two repetitions can match the same characters. */
const FUNCTION = /\s*(?:async\s+)?function(?:\s*\*\s*|\s+)([\p{L}_$][\p{L}\p{Nd}_$]*)/uy
const PARAMETER = /@param\s*\{\s*([\p{L}\p{Nd}_$.]+)\s*\}/u

/**
 * Finds the processors in the scripts of a network: functions with a doc comment that contains `@transaction` and
 * `@param {ns.Type} name`. Adds problems to `findings`.
 */
function processorsOf(
  scripts: readonly SourceFile[],
  model: Model,
  findings: Findings,
): Processor[] {
  return scripts.flatMap((file) =>
    docComments(file.text).flatMap(({ start, comment, name }) => {
      if (!/@transaction\b/.test(comment)) return []
      if (name === null) {
        findings.error(file, start, 'there is no function after this @transaction')
        return []
      }
      const [, transaction] = PARAMETER.exec(comment) ?? []
      if (transaction === undefined) {
        findings.error(
          file,
          start,
          `the processor ${name} needs @param {<transaction type>} <name> in its comment`,
        )
        return []
      }
      if (model.type(transaction)?.kind !== 'transaction') {
        const at = start + comment.indexOf(transaction)
        findings.error(
          file,
          at,
          `the processor ${name} has the unknown transaction type ${transaction}`,
        )
        return []
      }
      return [{ name, transaction, path: file.path }]
    }),
  )
}

interface DocComment {
  readonly start: number
  readonly comment: string
  /** Name of the function after the comment; null if there is none. */
  readonly name: string | null
}

/** Finds the doc comments of a script in linear time, because an untrusted script may be 10 MB long. */
function docComments(text: string): DocComment[] {
  const found: DocComment[] = []
  for (let start = text.indexOf('/**'); start !== -1; ) {
    const close = text.indexOf('*/', start + 3)
    if (close === -1) break
    FUNCTION.lastIndex = close + 2
    const name = FUNCTION.exec(text)?.[1] ?? null
    found.push({ start, comment: text.slice(start, close), name })
    start = text.indexOf('/**', close + 2)
  }
  return found
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
  readonly warnings: readonly Finding[]
}

/** The findings in a network's files. `definition` is null if there are errors. */
export interface NetworkReport {
  readonly findings: readonly Finding[]
  readonly definition: NetworkDefinition | null
}

/** Checks all files of a network. */
export function checkNetwork({ files, packed }: NetworkSource): NetworkReport {
  const findings = new Findings()
  const read = (path: string): SourceFile => textOf(path, files, findings)
  const paths = [...files.keys()]
  const about = readPackage(read('package.json'), findings)

  const models = paths.filter((path) => path.endsWith('.cto')).map(read)
  if (models.length === 0) findings.errorIn('models', 'there is no model (.cto file)')
  const parsed = models.flatMap((file) => parseModelFile(file, findings) ?? [])
  const model = checkModel(parsed, findings)

  const scripts = paths.filter((path) => path.endsWith('.js')).map(read)
  for (const file of scripts) checkScript(file, findings)
  const processors = processorsOf(scripts, model, findings)

  const rules = files.has('permissions.acl')
    ? checkRules(parseRules(read('permissions.acl'), findings), model, findings, read)
    : null
  if (rules === null)
    findings.warning('permissions.acl', 'the file is missing, so everyone may do everything')
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

/** Returns the network in `source`. Errors: NETWORK_INVALID with all findings. */
export function definitionOf(source: NetworkSource): NetworkDefinition {
  const { findings, definition } = checkNetwork(source)
  if (definition !== null) return definition
  const errors = findings.filter(({ severity }) => severity === 'error')
  const [first] = errors
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : ''
  const message = first === undefined ? '' : `${findingText(first)}${more}`
  throw new NetworkError('NETWORK_INVALID', message, { findings })
}

/** Returns the network in a `.bna`. Errors: NETWORK_UNREADABLE, NETWORK_INVALID. */
export function definitionIn(archive: Buffer): NetworkDefinition {
  return definitionOf({ files: readArchive(archive), packed: archive })
}

function textOf(path: string, files: NetworkFiles, findings: Findings): SourceFile {
  const bytes = files.get(path) ?? Buffer.alloc(0)
  try {
    return { path, text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) }
  } catch {
    findings.errorIn(path, 'not valid UTF-8')
    return { path, text: '' }
  }
}

function checkScript(file: SourceFile, findings: Findings): void {
  const wrong = scriptErrorOf(file.text)
  if (wrong !== null) findings.errorIn(file.path, wrong.message, wrong)
}
