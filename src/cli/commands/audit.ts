import { hash } from 'node:crypto'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { isJsonObject } from '../../base/json.ts'
import {
  type Audited,
  auditedJson,
  auditedOf,
  auditLog,
  NOTHING_AUDITED,
  nodeVerifySignature,
  ProofError,
  type ProvenEntry,
  type VerifierKey,
  verifierKeyOf,
  verifierKeyText,
  verifyEvidence,
  verifyProofFile,
} from '../../chain/index.ts'
import { fileExists, makeFolder } from '../../storage/index.ts'
import { EXIT, Exit, reasonOf } from '../exit.ts'
import { fetchFromNode, parseJsonOrNull, textOrFile } from '../node-client.ts'
import { print, withProgress } from '../output.ts'

// Verification with a verifier key: audits the log of a running node, and verifies proof files and evidence.

export interface VerifyFlags {
  readonly json?: boolean
  /** A verifier key, or a file that contains one. */
  readonly key?: string
  /** The file with the state of the last audit. */
  readonly state?: string
  readonly token?: string
  /** The proof file of the entry that erased the proven one. */
  readonly erasure?: string
}

/** Maximum length of a reply. A full bundle of entries is shorter. */
const REPLY_BYTES_MAX = 1_048_576

const FIRST_AUDIT =
  'This is the first audit with this state file, so it has seen only one view of the log: ' +
  'compare the head with that of another auditor.'

/** State of the last audit: the verifier key of the log, and the audited size. */
interface AuditState {
  readonly key: VerifierKey
  readonly audited: Audited
}

/** Audits the log of the node at `url` and prints the result. Errors: Exit. */
export async function auditUrl(url: string, flags: VerifyFlags): Promise<void> {
  if (!URL.canParse(url)) throw new Exit(EXIT.usage, `${url} is not the address of a ledger`)
  const base = url.replace(/\/+$/, '')
  const read = (path: string) => readFrom(`${base}${path}`, flags.token)
  const serverId = serverIdIn(await read('/api/serverid'))
  if (serverId === null) throw new Exit(EXIT.usage, `${base} is not the address of a ledger`)
  const fetch = (part: string) => read(`/api/ledgers/${serverId}/${part}`)

  const path = flags.state ?? join(homedir(), '.daicho', `audit-${serverId}.json`)
  const before = readState(path)
  const key =
    flags.key !== undefined ? parseKey(flags.key) : (before?.key ?? (await fetchKey(fetch)))
  const { audited, problem } = await audit(serverId, key, before?.audited ?? NOTHING_AUDITED, fetch)
  if (problem === null) writeState(path, { key, audited })

  const blocks = audited.frontier.size
  const added = blocks - (before?.audited.frontier.size ?? 0)
  const result = {
    ...{ status: problem === null, serverId, blocks, added, headId: audited.headId },
    ...{ code: problem?.code ?? null, what: problem?.message ?? null },
  }
  const lines =
    problem !== null
      ? [`DIFFERENCE ${problem.message}`, `(${blocks} blocks were audited before)`]
      : [
          `The log is valid: ${blocks} blocks, ${added} of them new.`,
          `server id  ${serverId}`,
          `head       ${audited.headId ?? '(none)'}`,
          `key        ${verifierKeyText(key)}`,
        ]
  if (problem === null && before === null) {
    lines.push(FIRST_AUDIT)
    if (flags.key === undefined) {
      lines.push('The key was taken from the node itself; compare it with another source.')
    }
  }
  print(flags.json, result, lines.join('\n'))
  process.exitCode = problem === null ? EXIT.success : EXIT.finding
}

async function audit(
  serverId: number,
  key: VerifierKey,
  before: Audited,
  fetch: (part: string) => Promise<Uint8Array>,
): Promise<{ audited: Audited; problem: ProofError | null }> {
  try {
    const { result } = await withProgress('auditing', (line) =>
      auditLog({
        ...{ verifySignature: nodeVerifySignature, key, serverId, before, fetch },
        progress: (blocks, ofBlocks) => line.update(blocks / ofBlocks, `${blocks} blocks`),
      }),
    )
    return { audited: result.audited, problem: null }
  } catch (error) {
    if (!(error instanceof ProofError)) throw error
    return { audited: before, problem: error }
  }
}

async function fetchKey(fetch: (part: string) => Promise<Uint8Array>): Promise<VerifierKey> {
  const text = new TextDecoder().decode(await fetch('vkey'))
  return verifierKeyOf(text.trim())
}

function serverIdIn(bytes: Uint8Array): number | null {
  const reply = parseJsonOrNull(new TextDecoder().decode(bytes))
  const serverId = isJsonObject(reply) ? reply.serverid : null
  return typeof serverId === 'number' && Number.isSafeInteger(serverId) ? serverId : null
}

/** Errors: Exit (usage) unless the reply is a 200. */
async function readFrom(url: string, token: string | undefined): Promise<Uint8Array> {
  try {
    const headers: Record<string, string> = token === undefined ? {} : { 'x-access-token': token }
    const { status, bytes } = await fetchFromNode(url, { headers }, { bytesMax: REPLY_BYTES_MAX })
    if (status === 200) return bytes
    if (status === 401) throw new Error('the node requires a valid token: give it with --token')
    throw new Error(`the status of the reply is ${status}`)
  } catch (error) {
    throw new Exit(EXIT.usage, `${url} cannot be read: ${reasonOf(error)}`, { cause: error })
  }
}

/** Errors: Exit (configuration) if the file has another content: starting over would forget the audited chain. */
function readState(path: string): AuditState | null {
  if (!fileExists(path)) return null
  const value = parseJsonOrNull(readFileSync(path, 'utf8'))
  const audited = isJsonObject(value) ? auditedOf(value.audited) : null
  if (isJsonObject(value) && typeof value.key === 'string' && audited !== null) {
    return { key: verifierKeyOf(value.key), audited }
  }
  throw new Exit(EXIT.configuration, `${path} is not the state file of an audit`)
}

function writeState(path: string, { key, audited }: AuditState): void {
  const state = { key: verifierKeyText(key), audited: auditedJson(audited) }
  makeFolder(dirname(path))
  writeFileSync(`${path}.new`, `${JSON.stringify(state)}\n`, { flush: true })
  renameSync(`${path}.new`, path)
}

/** Verifies the proof file at `path` and prints its content. Errors: Exit (usage). */
export async function verifyProof(path: string, flags: VerifyFlags): Promise<void> {
  const key = requireKey(flags)
  try {
    const proven = await verifyProofFile(nodeVerifySignature, key, readFileSync(path, 'utf8'))
    const erasedAt =
      flags.erasure === undefined ? null : await erasureOf(proven, key, flags.erasure)
    const { checkpoint, ...place } = proven
    const { serverId, height, index, entry, timestamp } = place
    const { size } = checkpoint
    const root = Buffer.from(checkpoint.root).toString('hex')
    const lines = [`server id  ${serverId}`, `position   ${height}.${index}, in a log of ${size}`]
    if (entry !== null) {
      lines.unshift('The proof is valid.')
      lines.push(`time       ${new Date(timestamp ?? 0).toISOString()}`)
      lines.push(`entry      ${JSON.stringify(entry)}`)
    } else if (erasedAt === null) {
      lines.unshift('The proof is valid for a commitment; the content of the entry is not shown.')
    } else {
      lines.unshift(`The entry was erased by entry ${erasedAt}; its commitment is intact.`)
    }
    const erased = erasedAt !== null
    print(flags.json, { status: true, erased, ...place, size, root }, lines.join('\n'))
  } catch (error) {
    printDifference(error, flags)
  }
}

/** Verifies the evidence file at `path` and prints the contradiction. Errors: Exit (usage). */
export async function verifyEvidenceFile(path: string, flags: VerifyFlags): Promise<void> {
  const key = requireKey(flags)
  try {
    const file = readFileSync(path, 'utf8')
    const { what, checkpoints, fork } = await verifyEvidence(nodeVerifySignature, key, file)
    const sizes = checkpoints.map(({ size }) => size)
    const roots = checkpoints.map(({ root }) => Buffer.from(root).toString('hex'))
    const ids = fork?.headers.map((header) => hash('sha512', header, 'hex')) ?? null
    const lines = [
      `The evidence is valid: ${what}.`,
      `key        ${verifierKeyText(key)}`,
      ...sizes.map((size, at) => `log        ${size} blocks, root ${roots[at]}`),
      ...(ids ?? []).map((id) => `block      height ${fork?.height}, id ${id}`),
    ]
    const result = { status: true, what, sizes, roots, height: fork?.height ?? null, ids }
    print(flags.json, result, lines.join('\n'))
  } catch (error) {
    printDifference(error, flags)
  }
}

function requireKey({ key }: VerifyFlags): VerifierKey {
  if (key !== undefined) return parseKey(key)
  throw new Exit(
    EXIT.usage,
    'proof files and evidence require --key: the verifier key of the node, from a source that you trust',
  )
}

/** Errors: `error`, unless it is a ProofError. */
function printDifference(error: unknown, { json }: VerifyFlags): void {
  if (!(error instanceof ProofError)) throw error
  const { code, message: what } = error
  print(json, { status: false, code, what }, `DIFFERENCE ${what}`)
  process.exitCode = EXIT.finding
}

/**
 * Returns the position of the entry that erased `proven`, according to the proof file at `path`. Anybody can
 * shorten a proof to its commitment, so this alone does not show an erasure. Errors: ProofError.
 */
async function erasureOf(proven: ProvenEntry, key: VerifierKey, path: string): Promise<string> {
  const erasure = await verifyProofFile(nodeVerifySignature, key, readFileSync(path, 'utf8'))
  const { entry, height, index } = erasure
  const position = `${proven.height}.${proven.index}`
  const positions = entry?.method === 'erase_item' ? entry.positions : null
  if (proven.entry === null && Array.isArray(positions) && positions.includes(position)) {
    return `${height}.${index}`
  }
  throw new ProofError('PROOF_WRONG', `${path} does not prove that entry ${position} was erased`)
}

/** Parses `text` as a key, or the content of the file of that name. Errors: Exit (usage). */
function parseKey(text: string): VerifierKey {
  try {
    return verifierKeyOf(textOrFile(text))
  } catch (error) {
    if (!(error instanceof ProofError)) throw error
    const message = '--key is neither a verifier key nor a file that contains one'
    throw new Exit(EXIT.usage, message, { cause: error })
  }
}
