import { joined } from '../hashes.ts'
import {
  type Checkpoint,
  COSIGNATURE,
  openCheckpoint,
  ProofError,
  parseNote,
  signatureLine,
  signaturesBy,
  type VerifierKey,
  type VerifySignature,
  verifierKeyOf,
  verifierKeyText,
} from './checkpoint.ts'

// Cosignatures of checkpoints by witnesses (c2sp.org/tlog-cosignature), and policies about them
// (c2sp.org/tlog-policy). Only Ed25519 (type 4): ML-DSA-44 (type 6) is not supported by Web Crypto.

const TIMESTAMP_BYTES = 8
const POLICY_LENGTH_MAX = 65_536
/** Below the maximum number of signatures of a note. */
const WITNESSES_MAX = 60
const GROUPS_MAX = 60

const UTF8 = new TextEncoder()

/** Formats the key of a witness as a verifier key of type 4. */
export function witnessKeyText(key: VerifierKey): string {
  return verifierKeyText(key, COSIGNATURE)
}

/** Parses the key of a witness. Errors: NOTE_MALFORMED, even for a valid key of another type. */
export function witnessKeyOf(text: string): VerifierKey {
  return verifierKeyOf(text, COSIGNATURE)
}

function signedMessage(timestamp: bigint | number, text: string): Uint8Array {
  return UTF8.encode(`cosignature/v1\ntime ${timestamp}\n${text}`)
}

/** Returns the signature line of a witness for `text`, the text of a checkpoint; `timestamp` in seconds. */
export function cosignatureLine(
  key: VerifierKey,
  { text, timestamp }: { readonly text: string; readonly timestamp: number },
  sign: (message: Uint8Array) => Uint8Array,
): string {
  const time = new Uint8Array(TIMESTAMP_BYTES)
  new DataView(time.buffer).setBigUint64(0, BigInt(timestamp))
  return signatureLine(key, COSIGNATURE, joined(time, sign(signedMessage(timestamp, text))))
}

/** A verified cosignature. */
export interface Cosignature {
  readonly key: VerifierKey
  /** Time of the signature by the clock of the witness, seconds since the Unix epoch. */
  readonly timestamp: number
  /** Its line in the note. */
  readonly line: string
}

/**
 * Returns the cosignature of `note` by the witness of `key`, or null. If the witness has signed repeatedly, the first
 * cosignature counts. Errors: NOTE_MALFORMED, NOTE_FORGED.
 */
export async function cosignatureBy(
  verifySignature: VerifySignature,
  key: VerifierKey,
  note: string,
): Promise<Cosignature | null> {
  const { text, signatures } = parseNote(note)
  const [bytes] = signaturesBy(key, COSIGNATURE, signatures)
  if (bytes === undefined) return null
  if (bytes.length > TIMESTAMP_BYTES) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, TIMESTAMP_BYTES)
    const timestamp = view.getBigUint64(0)
    const signature = bytes.subarray(TIMESTAMP_BYTES)
    if (await verifySignature(key.publicKey, signedMessage(timestamp, text), signature)) {
      return {
        ...{ key, timestamp: Number(timestamp) },
        line: signatureLine(key, COSIGNATURE, bytes),
      }
    }
  }
  throw new ProofError('NOTE_FORGED', `the cosignature of the witness ${key.name} is wrong`)
}

/** The witnesses that a verifier trusts, and how many of them must have cosigned a checkpoint. */
export interface WitnessPolicy {
  /** The logs to which the policy applies; empty if it names none. */
  readonly logs: readonly VerifierKey[]
  /** By name in the policy. */
  readonly witnesses: ReadonlyMap<string, VerifierKey>
  /** A group has only members that are witnesses or earlier groups. */
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
  return policyOf(`${lines}group all ${count} ${members}\nquorum all\n`)
}

/**
 * Parses a policy: lines `log <vkey> [<url>]`, `witness <name> <vkey> [<url>]`,
 * `group <name> any|all|<n> <member>…`, and one line `quorum <name>|none`. `#` begins a comment. Names are defined
 * before they are used. Errors: POLICY_MALFORMED. Source: c2sp.org/tlog-policy.
 */
export function policyOf(text: string): WitnessPolicy {
  const builder = new PolicyBuilder()
  if (text.length > POLICY_LENGTH_MAX) throw malformed('the policy is too long')
  for (const [at, line] of text.split('\n').entries()) {
    const [keyword, ...words] = line
      .replace(/#.*$/, '')
      .split(/[ \t\r]+/)
      .filter((word) => word !== '')
    if (keyword === undefined) continue
    const problem = builder.add(keyword, words)
    if (problem !== null) throw malformed(`line ${at + 1} of the policy: ${problem}`)
  }
  return builder.policy()
}

class PolicyBuilder {
  readonly #logs: VerifierKey[] = []
  readonly #witnesses = new Map<string, VerifierKey>()
  readonly #groups: WitnessGroup[] = []
  #quorum: string | null = null

  /** Returns why the line is wrong, or null. */
  add(keyword: string, words: readonly string[]): string | null {
    if (keyword === 'log') return this.#addLog(words)
    if (keyword === 'witness') return this.#addWitness(words)
    if (keyword === 'group') return this.#addGroup(words)
    if (keyword === 'quorum') return this.#setQuorum(words)
    return `there is no keyword ${keyword}`
  }

  policy(): WitnessPolicy {
    if (this.#quorum === null) throw malformed('the policy has no line with a quorum')
    const quorum = this.#quorum === 'none' ? null : this.#quorum
    return { logs: this.#logs, witnesses: this.#witnesses, groups: this.#groups, quorum }
  }

  #addLog([vkey = '', ...rest]: readonly string[]): string | null {
    const key = parsedKey(() => verifierKeyOf(vkey))
    if (key === null || rest.length > 1)
      return 'a log has an Ed25519 verifier key, and may have a URL'
    if (this.#logs.length === WITNESSES_MAX) return `there are more than ${WITNESSES_MAX} logs`
    this.#logs.push(key)
    return null
  }

  #addWitness([name = '', vkey = '', ...rest]: readonly string[]): string | null {
    const key = parsedKey(() => witnessKeyOf(vkey))
    if (key === null || rest.length > 1) {
      return 'a witness has a name and an Ed25519 cosignature key (type 4), and may have a URL'
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
    if (unknown !== undefined) return `${unknown} is not defined before it`
    if (new Set(members).size !== members.length) return 'a member is named twice'
    if (this.#groups.length === GROUPS_MAX) return `there are more than ${GROUPS_MAX} groups`
    const threshold = thresholdOf(count, members.length)
    if (threshold === null) return 'a group has any, all or a number of its members'
    this.#groups.push({ name, threshold, members })
    return null
  }

  #setQuorum([name = '', ...rest]: readonly string[]): string | null {
    if (this.#quorum !== null) return 'there is a quorum already'
    if (rest.length > 0 || (name !== 'none' && !this.#isDefined(name))) {
      return 'a quorum is a witness or group that is defined before it, or none'
    }
    this.#quorum = name
    return null
  }

  #problemOfName(name: string): string | null {
    if (name === '' || name === 'none') return 'the name is missing, or none'
    return this.#isDefined(name) ? `${name} is defined twice` : null
  }

  #isDefined(name: string): boolean {
    return this.#witnesses.has(name) || this.#groups.some((group) => group.name === name)
  }
}

function thresholdOf(count: string, members: number): number | null {
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

/** Returns whether the policy applies to the log of `key`: the policy names this log, or no log. */
export function isOfLog({ logs }: WitnessPolicy, key: VerifierKey): boolean {
  return logs.length === 0 || logs.some((log) => verifierKeyText(log) === verifierKeyText(key))
}

/**
 * Returns the cosignatures of `note` by the witnesses of `policy`, if they are enough.
 * Errors: QUORUM_MISSED, NOTE_MALFORMED, NOTE_FORGED.
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
  /** The key of the log. */
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
