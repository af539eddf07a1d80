import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isJsonObject, type Json, parseJson } from '../../base/json.ts'
import { fileExists } from '../../storage/index.ts'
import { writeDurably } from '../durable-file.ts'

const FILE = 'evidence.json'

/** That a key has signed two histories: two notes that cannot both be true. */
export interface Evidence {
  /** One sentence about what does not fit. */
  readonly what: string
  /** The one that was seen first, and the other. */
  readonly notes: readonly [string, string]
}

/** What is kept in `folder`, or null. A file that cannot be read is evidence of something too. */
export function evidenceIn(folder: string): Evidence | null {
  const path = join(folder, FILE)
  if (!fileExists(path)) return null
  const { what, notes } = parsed(readFileSync(path, 'utf8'))
  const [first = '', second = ''] = Array.isArray(notes) ? notes : []
  return { what: String(what ?? `${path} cannot be read`), notes: [String(first), String(second)] }
}

/** Keeps the first evidence there is; what comes later adds nothing. Durable when it returns. */
export function keepEvidence(folder: string, evidence: Evidence): void {
  if (evidenceIn(folder) !== null) return
  writeDurably(join(folder, FILE), `${JSON.stringify(evidence)}\n`)
}

function parsed(text: string): { [name: string]: Json } {
  try {
    const value: Json = parseJson(text)
    return isJsonObject(value) ? value : {}
  } catch {
    return {}
  }
}
