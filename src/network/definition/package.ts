import { isJsonObject, type JsonObject, parseJson } from '../../base/json.ts'
import type { Findings, SourceFile } from '../language/source.ts'

/** What `package.json` says of a network. */
export interface NetworkPackage {
  readonly name: string
  readonly version: string
  readonly description: string
  /** Whether 1.5 is refused for an Integer. */
  readonly strictNumbers: boolean
  /** Whether relationships must lead to something. */
  readonly strictReferences: boolean
  /** Whether every event needs READ, also one that no rule names. */
  readonly strictEvents: boolean
}

/** Paths of the gateway, and database names of the ledger, that no network can take. */
const RESERVED = ['api', 'explorer', 'status', 'networks', 'config', 'ledgers', 'dbs', 'serverid']
const NAME = /^[a-z0-9][a-z0-9._-]{0,63}$/
const VERSION = /^\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.+-]{1,64})?$/

/** Reads a `package.json`; what is wrong goes to `findings`. */
export function readPackage(file: SourceFile, findings: Findings): NetworkPackage {
  const json = parsed(file, findings)
  const { name, version, description, engines, daicho } = json
  if (typeof name !== 'string' || !NAME.test(name) || RESERVED.includes(name)) {
    const form = 'lower-case letters, digits, “-”, “_” and “.”, 64 at most'
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

function parsed(file: SourceFile, findings: Findings): JsonObject {
  try {
    const json: unknown = parseJson(file.text)
    if (isJsonObject(json)) return json
    findings.errorIn(file.path, 'this is no JSON object')
  } catch (error) {
    findings.errorIn(file.path, `this is not JSON: ${error instanceof Error ? error.message : ''}`)
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
