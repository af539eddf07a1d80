import { equalBytes, joined } from '../hashes.ts'
import { EMPTY_FRONTIER, frontierRoot } from '../merkle-tree.ts'
import {
  type Checkpoint,
  COSIGNATURE,
  COSIGNATURE_ML_DSA,
  checkpointText,
  keyAlgorithm,
  keyOfType,
  openCheckpoint,
  ProofError,
  parseCheckpoint,
  parseNote,
  parseVerifierKey,
  signatureLine,
  signaturesBy,
  type VerifierKey,
  type VerifySignature,
  verifierKeyText,
} from './checkpoint.ts'

// Cosignatures of checkpoints by witnesses (c2sp.org/tlog-cosignature), and policies about them (c2sp.org/tlog-policy).
// A witness has an Ed25519 key (type 4), or an ML-DSA-44 key (type 6), which requires Node 24.6.

const TIMESTAMP_BYTES = 8
/** The last time that a JavaScript date can represent, in seconds. */
const TIMESTAMP_MAX = 8_640_000_000_000n
/** Maximum bytes of a name in the message of an ML-DSA-44 cosignature. */
const NAME_BYTES_MAX = 255
/** Maximum characters of a policy: enough for WITNESSES_MAX witnesses with ML-DSA-44 keys and long names. */
const POLICY_LENGTH_MAX = 262_144
/** Maximum number of witnesses, and of logs. Less than SIGNATURES_MAX, so that all witnesses can sign one note. */
const WITNESSES_MAX = 60
const GROUPS_MAX = 60
/** Maximum characters of a problem in an error message. A problem may quote a long part of the policy. */
const PROBLEM_LENGTH_MAX = 200

const UTF8 = new TextEncoder()
const EMPTY_ROOT = frontierRoot(EMPTY_FRONTIER)

/** Formats the key of a witness as a verifier key of type 4 or 6. */
export function witnessKeyText(key: VerifierKey): string {
  return verifierKeyText(key, witnessKeyType(key))
}

/** Parses the key of a witness. Errors: NOTE_MALFORMED, even for the key of a log. */
export function parseWitnessKey(text: string): VerifierKey {
  const key = keyOfType(text, COSIGNATURE) ?? keyOfType(text, COSIGNATURE_ML_DSA)
  if (key !== null) return key
  throw new ProofError('NOTE_MALFORMED', 'this is not the key of a witness (type 4 or 6)')
}

function witnessKeyType({
  publicKey,
}: VerifierKey): typeof COSIGNATURE | typeof COSIGNATURE_ML_DSA {
  return keyAlgorithm(publicKey) === 'Ed25519' ? COSIGNATURE : COSIGNATURE_ML_DSA
}

/** Returns the message that the witness with `key` signs for `text`, or null if this key cannot cosign this text. */
function signedMessage(
  key: VerifierKey,
  timestamp: bigint | number,
  text: string,
): Uint8Array | null {
  if (witnessKeyType(key) === COSIGNATURE_ML_DSA)
    return subtreeMessage(key, BigInt(timestamp), text)
  return UTF8.encode(`cosignature/v1\ntime ${timestamp}\n${text}`)
}

/**
 * Returns the message of an ML-DSA-44 cosignature, which describes the whole log as a subtree from leaf 0. Returns null
 * for a text with extension lines, which the message cannot contain, for a name that is too long, and for an empty log
 * with a wrong root.
 */
function subtreeMessage({ name }: VerifierKey, timestamp: bigint, text: string): Uint8Array | null {
  const checkpoint = parseCheckpoint(text)
  const [witness, origin] = [UTF8.encode(name), UTF8.encode(checkpoint.origin)]
  if (witness.length > NAME_BYTES_MAX || origin.length > NAME_BYTES_MAX) return null
  if (checkpointText(checkpoint) !== text) return null
  if (checkpoint.size === 0 && !equalBytes(checkpoint.root, EMPTY_ROOT)) return null
  return joined(
    ...[UTF8.encode('subtree/v1\n\0'), Uint8Array.of(witness.length), witness, uint64(timestamp)],
    ...[Uint8Array.of(origin.length), origin, uint64(0n), uint64(BigInt(checkpoint.size))],
    checkpoint.root,
  )
}

function uint64(value: bigint): Uint8Array {
  const bytes = new Uint8Array(8)
  new DataView(bytes.buffer).setBigUint64(0, value)
  return bytes
}

/**
 * Returns the signature line of a witness for `text`, the text of a checkpoint. `timestamp` is in seconds since the
 * Unix epoch. Errors: TypeError for a text that an ML-DSA-44 key cannot cosign.
 */
export function cosignatureLine(
  key: VerifierKey,
  { text, timestamp }: { readonly text: string; readonly timestamp: number },
  sign: (message: Uint8Array) => Uint8Array,
): string {
  const message = signedMessage(key, timestamp, text)
  if (message === null) throw new TypeError(`${key.name} cannot cosign this checkpoint`)
  return signatureLine(key, witnessKeyType(key), joined(uint64(BigInt(timestamp)), sign(message)))
}

export interface Cosignature {
  readonly key: VerifierKey
  /** Time of the signature by the clock of the witness, seconds since the Unix epoch. */
  readonly timestamp: number
  /** The signature line in the note. */
  readonly line: string
}

/**
 * Returns the cosignature of `note` by the witness of `key`, or null. If the witness has signed more than once, returns
 * the first cosignature. Errors: NOTE_MALFORMED, NOTE_FORGED, CHECKPOINT_MALFORMED, SIGNATURES_UNSUPPORTED.
 */
export async function cosignatureBy(
  verifySignature: VerifySignature,
  key: VerifierKey,
  note: string,
): Promise<Cosignature | null> {
  const { text, signatures } = parseNote(note)
  const [bytes] = signaturesBy(key, witnessKeyType(key), signatures)
  if (bytes === undefined) return null
  if (bytes.length > TIMESTAMP_BYTES) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, TIMESTAMP_BYTES)
    const timestamp = view.getBigUint64(0)
    const message = timestamp > TIMESTAMP_MAX ? null : signedMessage(key, timestamp, text)
    const signature = bytes.subarray(TIMESTAMP_BYTES)
    if (message !== null && (await verifySignature(key.publicKey, message, signature))) {
      return {
        ...{ key, timestamp: Number(timestamp) },
        line: signatureLine(key, witnessKeyType(key), bytes),
      }
    }
  }
  throw new ProofError('NOTE_FORGED', `the cosignature of the witness ${key.name} is wrong`)
}

/** The witnesses that a verifier trusts, and how many of them must have cosigned a checkpoint. */
export interface WitnessPolicy {
  /** The logs to which the policy applies. Empty if the policy applies to all logs. */
  readonly logs: readonly VerifierKey[]
  /** The witnesses, by their names in the policy. */
  readonly witnesses: ReadonlyMap<string, VerifierKey>
  /** The groups. Each member of a group is a witness or an earlier group. */
  readonly groups: readonly WitnessGroup[]
  /** Name of a group or a witness; null if no cosignature is required. */
  readonly quorum: string | null
}

interface WitnessGroup {
  readonly name: string
  readonly threshold: number
  readonly members: readonly string[]
}

/** Requires cosignatures of `count` of the witnesses with these keys. Errors: POLICY_MALFORMED. */
export function quorumPolicy(keys: readonly string[], count: number = keys.length): WitnessPolicy {
  const lines = keys.map((key, at) => `witness w${at} ${key}\n`).join('')
  const members = keys.map((_, at) => `w${at}`).join(' ')
  return parsePolicy(`${lines}group all ${count} ${members}\nquorum all\n`)
}

/**
 * Parses a policy: lines `log <vkey> [<url>]`, `witness <name> <vkey> [<url>]`,
 * `group <name> any|all|<n> <member>…`, and one line `quorum <name>|none`. `#` begins a comment. Each name must be
 * defined before its first use. Errors: POLICY_MALFORMED. Source: c2sp.org/tlog-policy.
 */
export function parsePolicy(text: string): WitnessPolicy {
  const builder = new PolicyBuilder()
  if (text.length > POLICY_LENGTH_MAX) throw malformed('the policy is too long')
  for (const [at, line] of text.split('\n').entries()) {
    const [keyword, ...words] = line
      .replace(/#.*$/, '')
      .split(/[ \t\r]+/)
      .filter((word) => word !== '')
    if (keyword === undefined) continue
    const problem = builder.add(keyword, words)
    if (problem !== null) {
      throw malformed(`line ${at + 1} of the policy: ${problem.slice(0, PROBLEM_LENGTH_MAX)}`)
    }
  }
  return builder.policy()
}

class PolicyBuilder {
  readonly #logs: VerifierKey[] = []
  readonly #witnesses = new Map<string, VerifierKey>()
  readonly #groups: WitnessGroup[] = []
  #quorum: string | null = null

  /** Adds a line of the policy. Returns the reason if the line is invalid, or null. */
  add(keyword: string, words: readonly string[]): string | null {
    if (keyword === 'log') return this.#addLog(words)
    if (keyword === 'witness') return this.#addWitness(words)
    if (keyword === 'group') return this.#addGroup(words)
    if (keyword === 'quorum') return this.#setQuorum(words)
    return `unknown keyword ${keyword}`
  }

  policy(): WitnessPolicy {
    if (this.#quorum === null) throw malformed('the policy has no quorum line')
    const quorum = this.#quorum === 'none' ? null : this.#quorum
    return { logs: this.#logs, witnesses: this.#witnesses, groups: this.#groups, quorum }
  }

  #addLog([vkey = '', ...rest]: readonly string[]): string | null {
    const key = parsedKey(() => parseVerifierKey(vkey))
    if (key === null || rest.length > 1)
      return 'a log has an Ed25519 verifier key, and may have a URL'
    if (this.#logs.length === WITNESSES_MAX) return `there are more than ${WITNESSES_MAX} logs`
    this.#logs.push(key)
    return null
  }

  #addWitness([name = '', vkey = '', ...rest]: readonly string[]): string | null {
    const key = parsedKey(() => parseWitnessKey(vkey))
    if (key === null || rest.length > 1) {
      return 'a witness has a name and a cosignature key (type 4 or 6), and may have a URL'
    }
    // A witness that counts twice would weaken the quorum.
    if ([...this.#witnesses.values()].some((other) => witnessKeyText(other) === vkey)) {
      return 'two witnesses have the same key'
    }
    if (this.#witnesses.size === WITNESSES_MAX)
      return `there are more than ${WITNESSES_MAX} witnesses`
    const problem = this.#problemOfName(name)
    if (problem === null) this.#witnesses.set(name, key)
    return problem
  }

  #addGroup([name = '', count = '', ...members]: readonly string[]): string | null {
    const problem = this.#problemOfName(name)
    if (problem !== null) return problem
    const unknown = members.find((member) => !this.#isDefined(member))
    if (unknown !== undefined) return `no earlier line defines ${unknown}`
    if (new Set(members).size !== members.length) return 'a member is named twice'
    if (this.#groups.length === GROUPS_MAX) return `there are more than ${GROUPS_MAX} groups`
    const threshold = parseThreshold(count, members.length)
    if (threshold === null) return 'a group has any, all or a number of its members'
    this.#groups.push({ name, threshold, members })
    return null
  }

  #setQuorum([name = '', ...rest]: readonly string[]): string | null {
    if (this.#quorum !== null) return 'the policy has two quorum lines'
    if (rest.length > 0 || (name !== 'none' && !this.#isDefined(name))) {
      return 'the quorum must be none, or a witness or group that an earlier line defines'
    }
    this.#quorum = name
    return null
  }

  #problemOfName(name: string): string | null {
    if (name === '' || name === 'none') return 'the name is missing, or is the reserved word none'
    return this.#isDefined(name) ? `${name} is defined twice` : null
  }

  #isDefined(name: string): boolean {
    return this.#witnesses.has(name) || this.#groups.some((group) => group.name === name)
  }
}

function parseThreshold(count: string, members: number): number | null {
  if (count === 'any' && members > 0) return 1
  if (count === 'all' && members > 0) return members
  const threshold = /^[1-9]\d{0,3}$/.test(count) ? Number(count) : 0
  return threshold >= 1 && threshold <= members ? threshold : null
}

function parsedKey(parse: () => VerifierKey): VerifierKey | null {
  try {
    return parse()
  } catch {
    return null
  }
}

function malformed(what: string): ProofError {
  return new ProofError('POLICY_MALFORMED', what)
}

/** Returns whether the policy applies to the log of `key`: the policy lists this log, or lists no logs. */
export function isOfLog({ logs }: WitnessPolicy, key: VerifierKey): boolean {
  return logs.length === 0 || logs.some((log) => verifierKeyText(log) === verifierKeyText(key))
}

/**
 * Returns the cosignatures of `note` by the witnesses of `policy`, if these cosignatures reach the quorum. Errors:
 * QUORUM_MISSED, and as for `cosignatureBy`.
 */
export async function requireQuorum(
  verifySignature: VerifySignature,
  { witnesses, groups, quorum }: WitnessPolicy,
  note: string,
): Promise<readonly Cosignature[]> {
  const found: Cosignature[] = []
  const met = new Set<string>()
  for (const [name, key] of witnesses) {
    const cosignature = await cosignatureBy(verifySignature, key, note)
    if (cosignature === null) continue
    found.push(cosignature)
    met.add(name)
  }
  for (const { name, threshold, members } of groups) {
    if (members.filter((member) => met.has(member)).length >= threshold) met.add(name)
  }
  if (quorum === null || met.has(quorum)) return found
  const names = found.map(({ key }) => key.name).join(', ')
  throw new ProofError(
    'QUORUM_MISSED',
    `the checkpoint lacks the quorum of witnesses: ${found.length} of ${witnesses.size} have cosigned it` +
      (names === '' ? '' : ` (${names})`),
  )
}

/** The required signers of a checkpoint. */
export interface CheckpointRules {
  readonly key: VerifierKey
  readonly policy?: WitnessPolicy | null
}

/** A checkpoint with all required signatures. */
export interface CosignedCheckpoint extends Checkpoint {
  /** The cosignatures by witnesses of the policy. */
  readonly cosignatures: readonly Cosignature[]
}

/** Returns the checkpoint in `note`. Errors: as for `openCheckpoint` and `requireQuorum`. */
export async function openCosigned(
  verifySignature: VerifySignature,
  { key, policy = null }: CheckpointRules,
  note: string,
): Promise<CosignedCheckpoint> {
  const checkpoint = await openCheckpoint(verifySignature, key, note)
  const cosignatures = policy === null ? [] : await requireQuorum(verifySignature, policy, note)
  return { ...checkpoint, cosignatures }
}
