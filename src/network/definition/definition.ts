import { createHash } from 'node:crypto'
import { type AccessRule, checkRules } from '../access/rules.ts'
import { NetworkError } from '../errors.ts'
import { parseModelFile } from '../language/model-parser.ts'
import { parseQueries } from '../language/query-parser.ts'
import { parseRules } from '../language/rule-parser.ts'
import { scriptErrorOf } from '../language/script.ts'
import { type Finding, Findings, findingText, type SourceFile } from '../language/source.ts'
import { checkModel } from '../model/checker.ts'
import type { Model } from '../model/model.ts'
import { checkQueries, type NamedQuery } from '../queries/check.ts'
import { readArchive, writeArchive } from './archive.ts'
import type { NetworkFiles, NetworkSource } from './files.ts'
import { type NetworkPackage, readPackage } from './package.ts'
import { type Processor, processorsOf } from './processors.ts'

/** A network whose files are all right. */
export interface NetworkDefinition extends NetworkPackage {
  /** Its `.bna`, as it came; one that came as a directory is packed. */
  readonly archive: Buffer
  /** Of the archive, in hexadecimal. */
  readonly sha256: string
  readonly model: Model
  /** In their order; null when the network has none, and everyone may do everything. */
  readonly rules: readonly AccessRule[] | null
  readonly queries: ReadonlyMap<string, NamedQuery>
  readonly scripts: readonly SourceFile[]
  readonly processors: readonly Processor[]
  /** What is worth knowing, though nothing is wrong. */
  readonly warnings: readonly Finding[]
}

/** What was found in the files of a network, and the network when nothing is wrong. */
export interface NetworkReport {
  readonly findings: readonly Finding[]
  readonly definition: NetworkDefinition | null
}

/** Checks everything that the files of a network say. */
export function checkNetwork({ files, packed }: NetworkSource): NetworkReport {
  const findings = new Findings()
  const read = (path: string): SourceFile => textOf(path, files, findings)
  const paths = [...files.keys()]
  const about = readPackage(read('package.json'), findings)

  const models = paths.filter((path) => path.endsWith('.cto')).map(read)
  if (models.length === 0) findings.errorIn('models', 'there is no model: no .cto file')
  const parsed = models.flatMap((file) => parseModelFile(file, findings) ?? [])
  const model = checkModel(parsed, findings)

  const scripts = paths.filter((path) => path.endsWith('.js')).map(read)
  for (const file of scripts) checkScript(file, findings)
  const processors = processorsOf(scripts, model, findings)

  const rules = files.has('permissions.acl')
    ? checkRules(parseRules(read('permissions.acl'), findings), model, findings, read)
    : null
  if (rules === null) findings.warning('permissions.acl', 'missing: everyone may do everything')
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

/** The network in `source`. Errors: NETWORK_INVALID with all that is wrong. */
export function definitionOf(source: NetworkSource): NetworkDefinition {
  const { findings, definition } = checkNetwork(source)
  if (definition !== null) return definition
  const errors = findings.filter(({ severity }) => severity === 'error')
  const [first] = errors
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : ''
  const message = first === undefined ? '' : `${findingText(first)}${more}`
  throw new NetworkError('NETWORK_INVALID', message, { findings })
}

/** The network in a `.bna`. Errors: NETWORK_UNREADABLE, NETWORK_INVALID. */
export function definitionIn(archive: Buffer): NetworkDefinition {
  return definitionOf({ files: readArchive(archive), packed: archive })
}

function textOf(path: string, files: NetworkFiles, findings: Findings): SourceFile {
  const bytes = files.get(path) ?? Buffer.alloc(0)
  try {
    return { path, text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) }
  } catch {
    findings.errorIn(path, 'this is not UTF-8')
    return { path, text: '' }
  }
}

function checkScript(file: SourceFile, findings: Findings): void {
  const wrong = scriptErrorOf(file.text)
  if (wrong !== null) findings.errorIn(file.path, wrong.message, wrong)
}
