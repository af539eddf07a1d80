import { hash } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileExists, replaceFile } from '../../base/files/durable-files.ts'
import { isoTime } from '../../base/iso-time.ts'
import { isJsonObject } from '../../base/json.ts'
import { parseForeignJsonOrNull } from '../../base/strict-json.ts'
import { joinUrl, serverUrl } from '../../base/url.ts'
import {
  type Audited,
  auditedJson,
  auditLog,
  type CosignedCheckpoint,
  decodeAudited,
  extractNote,
  isOfLog,
  logOrigin,
  NOTHING_AUDITED,
  nodeVerifySignature,
  ProofError,
  type ProvenEntry,
  parsePolicy,
  parseVerifierKey,
  quorumPolicy,
  type SignedState,
  type VerifierKey,
  verifierKeyText,
  verifyEvidence,
  verifyProofFile,
  type WitnessPolicy,
} from '../../chain/index.ts'
import { requireFolder } from '../../storage/index.ts'
import { EXIT, Exit, formatReason } from '../exit.ts'
import { fetchFromNode } from '../node/node-client.ts'
import { smallFile, textOrFile } from '../node/node-options.ts'
import { formatFields, print, withProgress } from '../output/output.ts'

// Verification with a verifier key: audits the log of a running node, and verifies proof files and evidence.

export interface VerifyFlags {
  readonly json?: boolean
  /** A verifier key, or a file that contains a verifier key. */
  readonly key?: string
  /** The file with the state of the last audit. */
  readonly state?: string
  readonly token?: string
  /** The proof file of the entry that erased the proven entry. */
  readonly erasure?: string
  /** The chain whose state is recomputed: a folder, a database or an export. */
  readonly chain?: string
  /** Keys of witnesses. */
  readonly witness?: readonly string[]
  /** Minimum number of the witnesses in `witness` that must have cosigned. */
  readonly quorum?: string
  /** The file with a policy about logs and witnesses. */
  readonly policy?: string
}

/** Maximum bytes of a reply. A full bundle of entries is smaller. */
const REPLY_BYTES_MAX = 1_048_576

const FIRST_AUDIT =
  'This is the first audit with this state file, so there was no earlier head to compare: ' +
  'compare the head with the head of another auditor.'

/** State of the last audit: the verifier key of the log, and the audited size. */
interface AuditState {
  readonly key: VerifierKey
  readonly audited: Audited
}

/** Audits the log of the node at `url` and prints the result. Errors: UrlError, Exit. */
export async function auditUrl(url: string, flags: VerifyFlags): Promise<void> {
  const base = serverUrl(url)
  // Reports wrong flags before the first request.
  const policy = requirePolicy(flags)
  const given = givenKey(flags)
  const read = (path: string) => readFrom(joinUrl(base, path), flags.token)
  const serverId = findServerId(await read('/api/serverid'))
  if (serverId === null) throw new Exit(EXIT.usage, `${base} is not the address of a ledger`)
  const fetch = (part: string) => read(`/api/ledgers/${serverId}/${part}`)

  // Named after the address, because a node can take any server id, and would have no state under a new one.
  const path = flags.state ?? join(homedir(), '.daicho', `audit-${encodeURIComponent(base)}.json`)
  const before = readState(path)
  const first = before === null
  const key =
    requireLogKey(given, policy, logOrigin(serverId)) ?? before?.key ?? (await fetchKey(fetch))
  const { audited, checkpoint, problem } = await auditNode(
    { serverId, key, policy, fetch },
    before ?? { key, audited: NOTHING_AUDITED },
    path,
  )
  if (problem === null) writeState(path, { key, audited })

  const blocks = audited.frontier.size
  const added = blocks - (before?.audited.frontier.size ?? 0)
  const result = {
    ...{ status: problem === null, first, serverId, blocks, added, headId: audited.headId },
    ...{ code: problem?.code ?? null, what: problem?.message ?? null },
    ...cosignedJson(policy, checkpoint),
  }
  const fields = {
    ...{ 'server id': serverId, head: audited.headId ?? '(none)' },
    ...{ key: verifierKeyText(key), witness: cosignedTexts(checkpoint) },
  }
  const lines =
    problem !== null
      ? [`DIFFERENCE ${problem.message}`, `(an earlier audit verified ${blocks} blocks)`]
      : [`The log is valid: ${blocks} blocks, ${added} of them new.`, formatFields(fields)]
  if (problem === null && first) {
    lines.push(FIRST_AUDIT)
    if (flags.key === undefined && (policy?.logs.length ?? 0) === 0) {
      lines.push('The key was taken from the node itself: compare the key with another source.')
    }
  }
  print(flags.json, result, lines.join('\n'))
  process.exitCode = problem === null ? EXIT.success : EXIT.finding
}

async function auditNode(
  log: {
    serverId: number
    key: VerifierKey
    policy: WitnessPolicy | null
    fetch: (part: string) => Promise<Uint8Array>
  },
  before: AuditState,
  path: string,
): Promise<{
  audited: Audited
  checkpoint: CosignedCheckpoint | null
  problem: ProofError | null
}> {
  try {
    const { name } = before.key
    if (name !== logOrigin(log.serverId)) {
      const message = `the node has the log of server id ${log.serverId}, but the earlier audits in ${path} are of ${name}: remove this file if the node was replaced on purpose`
      throw new ProofError('CHECKPOINT_FOREIGN', message)
    }
    const { result } = await withProgress('auditing', (line) =>
      auditLog({
        ...{ verifySignature: nodeVerifySignature, ...log, before: before.audited },
        progress: (blocks, ofBlocks) => line.update(blocks / ofBlocks, `${blocks} blocks`),
      }),
    )
    return { ...result, problem: null }
  } catch (error) {
    if (!isFinding(error)) throw error
    return { audited: before.audited, checkpoint: null, problem: error }
  }
}

/** Returns the witness policy from the flags, or null if no flag sets a policy or a witness. Errors: Exit (usage). */
function requirePolicy({ witness, quorum, policy }: VerifyFlags): WitnessPolicy | null {
  if (policy !== undefined && (witness !== undefined || quorum !== undefined)) {
    throw new Exit(EXIT.usage, '--policy cannot be combined with --witness and --quorum')
  }
  if (quorum !== undefined && (witness === undefined || !/^[1-9]\d{0,2}$/.test(quorum))) {
    throw new Exit(
      EXIT.usage,
      '--quorum must be an integer of 1 or more, and needs --witness for each key that may cosign',
    )
  }
  try {
    if (policy !== undefined) return parsePolicy(smallFile(policy))
    if (witness === undefined) return null
    return quorumPolicy(witness, quorum === undefined ? witness.length : Number(quorum))
  } catch (error) {
    const isSystem = error instanceof Error && 'syscall' in error
    if (!isSystem && !(error instanceof ProofError)) throw error
    const flag = policy === undefined ? '--witness' : `--policy ${policy}`
    throw new Exit(EXIT.usage, `${flag}: ${error.message}`, { cause: error })
  }
}

/**
 * Returns the verifier key of the log `origin` from --key or from the policy; null if neither contains a key. Errors:
 * Exit (usage) if the policy lists logs, but not this log.
 */
function requireLogKey(
  given: VerifierKey | null,
  policy: WitnessPolicy | null,
  origin: string,
): VerifierKey | null {
  const key = given ?? policy?.logs.find(({ name }) => name === origin) ?? null
  if (policy === null || policy.logs.length === 0) return key
  if (key !== null && isOfLog(policy, key)) return key
  throw new Exit(EXIT.usage, `the policy does not list the log ${key?.name ?? origin}`)
}

function cosignedJson(policy: WitnessPolicy | null, checkpoint: CosignedCheckpoint | null) {
  if (policy === null) return {}
  const cosignatures = checkpoint?.cosignatures ?? []
  return { witnesses: cosignatures.map(({ key, timestamp }) => ({ name: key.name, timestamp })) }
}

function cosignedTexts(checkpoint: CosignedCheckpoint | null): string[] {
  return (checkpoint?.cosignatures ?? []).map(
    ({ key, timestamp }) => `${key.name}, ${isoTime(timestamp * 1_000)}`,
  )
}

async function fetchKey(fetch: (part: string) => Promise<Uint8Array>): Promise<VerifierKey> {
  const text = new TextDecoder().decode(await fetch('vkey'))
  return parseVerifierKey(text.trim())
}

function findServerId(bytes: Uint8Array): number | null {
  const reply = parseForeignJsonOrNull(new TextDecoder().decode(bytes))
  const serverId = isJsonObject(reply) ? reply.serverid : null
  return typeof serverId === 'number' && Number.isSafeInteger(serverId) ? serverId : null
}

/** Returns the body of the reply from `url`. Errors: Exit (usage) unless the status is 200. */
async function readFrom(url: URL, token: string | undefined): Promise<Uint8Array> {
  try {
    const headers: Record<string, string> = token === undefined ? {} : { 'x-access-token': token }
    const { status, bytes } = await fetchFromNode(url, { headers }, { bytesMax: REPLY_BYTES_MAX })
    if (status === 200) return bytes
    if (status === 401) throw new Error('the node requires a valid token: give it with --token')
    throw new Error(`the status of the reply is ${status}`)
  } catch (error) {
    if (error instanceof Exit) throw error
    throw new Exit(EXIT.usage, `${url} cannot be read: ${formatReason(error)}`, { cause: error })
  }
}

/**
 * Returns the state of the last audit, or null if there is no file. Errors: Exit (configuration) for a malformed file.
 * It does not count as missing, because then the log would not be compared with the log of the last audit.
 */
function readState(path: string): AuditState | null {
  if (!fileExists(path)) return null
  const value = parseForeignJsonOrNull(readFileSync(path, 'utf8'))
  const audited = isJsonObject(value) ? decodeAudited(value.audited) : null
  if (isJsonObject(value) && typeof value.key === 'string' && audited !== null) {
    return { key: parseVerifierKey(value.key), audited }
  }
  throw new Exit(EXIT.configuration, `${path} is not the state file of an audit`)
}

/** Stores the state, unless a concurrent audit with the same file has verified more blocks. */
function writeState(path: string, { key, audited }: AuditState): void {
  if ((readState(path)?.audited.frontier.size ?? 0) > audited.frontier.size) return
  const state = { key: verifierKeyText(key), audited: auditedJson(audited) }
  requireFolder(dirname(path))
  replaceFile(path, `${JSON.stringify(state)}\n`)
}

/** Maximum bytes of a proof file: enough for the longest item and a checkpoint. */
const PROOF_BYTES_MAX = 64 * 1024 * 1024

/** Returns the text of a proof file. Errors: PROOF_MALFORMED if the file is too long; system errors. */
export function readProofFile(path: string): string {
  if (statSync(path).size <= PROOF_BYTES_MAX) return readFileSync(path, 'utf8')
  throw new ProofError('PROOF_MALFORMED', `the proof file has more than ${PROOF_BYTES_MAX} bytes`)
}

/** Verifies the proof file at `path` and prints its content. Errors: Exit (usage). */
export async function verifyProof(path: string, flags: VerifyFlags): Promise<void> {
  const policy = requirePolicy(flags)
  try {
    const file = readProofFile(path)
    const key =
      requireLogKey(givenKey(flags), policy, extractNote(file).split('\n', 1)[0] ?? '') ??
      requireGivenKey(flags)
    const proven = await verifyProofFile(nodeVerifySignature, key, file, policy)
    const erasedAt =
      flags.erasure === undefined ? null : await requireErasure(proven, key, flags.erasure)
    const { checkpoint, ...place } = proven
    const { serverId, height, index, entry, timestamp } = place
    const { size } = checkpoint
    const root = Buffer.from(checkpoint.root).toString('hex')
    const about =
      entry !== null
        ? 'The proof is valid.'
        : erasedAt === null
          ? 'The proof is valid, but shows only the commitment of the entry, not the content.'
          : `The entry was erased by entry ${erasedAt}; its commitment is intact.`
    const fields = formatFields({
      'server id': serverId,
      position: `${height}.${index}, in a log of ${size}`,
      time: entry === null ? null : isoTime(timestamp ?? 0),
      entry: entry === null ? null : JSON.stringify(entry),
      witness: cosignedTexts(checkpoint),
    })
    const erased = erasedAt !== null
    const json = { status: true, erased, ...place, size, root, ...cosignedJson(policy, checkpoint) }
    print(flags.json, json, `${about}\n${fields}`)
  } catch (error) {
    printDifference(error, flags)
  }
}

/** Verifies the evidence file at `path` and prints the contradiction. Errors: Exit (usage). */
export async function verifyEvidenceFile(path: string, flags: VerifyFlags): Promise<void> {
  const key = requireGivenKey(flags)
  try {
    const file = readFileSync(path, 'utf8')
    const recompute = (size: number) => requireChainState(flags, size)
    const { what, checkpoints, fork, state } = await verifyEvidence(
      ...([nodeVerifySignature, key, file, recompute] as const),
    )
    const sizes = checkpoints.map(({ size }) => size)
    const roots = checkpoints.map(({ root }) => Buffer.from(root).toString('hex'))
    const ids = fork?.headers.map((header) => hash('sha512', header, 'hex')) ?? null
    const fields = formatFields({
      key: verifierKeyText(key),
      log: sizes.map((size, at) => `${size} blocks, root ${roots[at]}`),
      block: (ids ?? []).map((id) => `height ${fork?.height}, id ${id}`),
      state: state === null ? null : `${Buffer.from(state.root).toString('hex')}, signed`,
    })
    const result = { status: true, what, sizes, roots, height: fork?.height ?? null, ids }
    print(flags.json, result, `The evidence is valid: ${what}.\n${fields}`)
  } catch (error) {
    printDifference(error, flags)
  }
}

/** Recomputes the state of the chain in `--chain`. Errors: Exit (usage) without the flag; as for `recomputeChain`. */
export async function requireChainState(
  { chain }: VerifyFlags,
  size: number,
): Promise<SignedState> {
  if (chain !== undefined) return (await import('./export.ts')).recomputeChain(chain, size)
  throw new Exit(
    EXIT.usage,
    'only the chain shows that a state is wrong: give a folder or an export with --chain',
  )
}

export function requireGivenKey(flags: VerifyFlags): VerifierKey {
  const key = givenKey(flags)
  if (key !== null) return key
  throw new Exit(
    EXIT.usage,
    'proof files and evidence require --key: the verifier key of the node, from a source that you trust',
  )
}

/** Whether `error` reports a false log or proof. An unsupported signature algorithm only prevents the verification. */
function isFinding(error: unknown): error is ProofError {
  return error instanceof ProofError && error.code !== 'SIGNATURES_UNSUPPORTED'
}

/** Prints `error` if it is a finding; otherwise throws it. */
export function printDifference(error: unknown, { json }: VerifyFlags): void {
  if (!isFinding(error)) throw error
  const { code, message: what } = error
  print(json, { status: false, code, what }, `DIFFERENCE ${what}`)
  process.exitCode = EXIT.finding
}

/**
 * Returns the position of the entry that erased `proven`, according to the proof file at `path`. A proof of `proven`
 * without content does not show an erasure, because anybody can remove the content from a proof. Errors: ProofError.
 */
async function requireErasure(
  proven: ProvenEntry,
  key: VerifierKey,
  path: string,
): Promise<string> {
  const erasure = await verifyProofFile(nodeVerifySignature, key, readProofFile(path))
  const { entry, height, index } = erasure
  const position = `${proven.height}.${proven.index}`
  const positions = entry?.method === 'erase_item' ? entry.positions : null
  if (proven.entry === null && Array.isArray(positions) && positions.includes(position)) {
    return `${height}.${index}`
  }
  throw new ProofError('PROOF_WRONG', `${path} does not prove that entry ${position} was erased`)
}

/** Returns the verifier key in `--key`, or in the file whose path it is; null without `--key`. Errors: Exit (usage). */
function givenKey({ key }: VerifyFlags): VerifierKey | null {
  try {
    return key === undefined ? null : parseVerifierKey(textOrFile(key))
  } catch (error) {
    if (!(error instanceof ProofError)) throw error
    const message = '--key is neither a verifier key nor a file that contains one'
    throw new Exit(EXIT.usage, message, { cause: error })
  }
}
