import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign,
} from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fromBase64, toBase64 } from '../../base/base64.ts'
import type { Clock } from '../../base/clock.ts'
import { isCount, isJsonObject, type JsonObject } from '../../base/json.ts'
import {
  type Checkpoint,
  cosignatureLine,
  EMPTY_FRONTIER,
  equalBytes,
  HASH_BYTES,
  HASHES_MAX,
  nodeVerifySignature,
  openCheckpoint,
  ProofError,
  rawPublicKey,
  rootOf,
  unverifiedText,
  type VerifierKey,
  verifierKeyOf,
  verifyConsistency,
  witnessKeyText,
} from '../../chain/index.ts'
import { fileExists } from '../../storage/index.ts'
import { writeDurably } from '../durable-file.ts'
import { LedgerError } from '../errors.ts'
import { jsonMembers } from '../json-members.ts'

// This node as a witness: cosigns the logs of other nodes (c2sp.org/tlog-witness).

/**
 * File with the key and the cosigned heads. Backups exclude it, because a witness with older heads could cosign a
 * second history.
 */
const FILE = 'witness.json'
const LOGS_MAX = 256
/** Maximum bytes of a request, which is enough for the longest note and a proof. */
export const WITNESS_REQUEST_BYTES_MAX = 80 * 1024

/** Parses the verifier keys of logs. Errors: WITNESS_OF_INVALID. */
export function verifierKeysOf(texts: readonly string[]): VerifierKey[] {
  return texts.map((text) => {
    try {
      return verifierKeyOf(text)
    } catch (error) {
      if (!(error instanceof ProofError)) throw error
      const message = `${text.slice(0, 60)} is not the verifier key of a log`
      throw new LedgerError('WITNESS_OF_INVALID', message, { cause: error })
    }
  })
}

type TreeHead = Pick<Checkpoint, 'size' | 'root'>

/**
 * The state of a witness. The key is stored with the heads. So a witness that loses its heads also loses the key, and
 * cannot cosign a second history with that key.
 */
interface State {
  readonly privateKey: KeyObject
  /** The last cosigned head of each log, by origin. */
  readonly heads: ReadonlyMap<string, TreeHead>
}

/**
 * The cosignature line. If the request assumed a wrong old size, `conflict` is the size that the witness has last
 * cosigned.
 */
export type WitnessAnswer = { readonly line: string } | { readonly conflict: number }

export interface LogWitnessOptions {
  /** Name of the witness in its signatures. */
  readonly name: string
  /** Data folder, or null for a node without a data folder. */
  readonly folder: string | null
  readonly clock: Clock
  /** Returns the key of the log of this origin, or null if this node does not cosign the log. */
  readonly keyOf: (origin: string) => VerifierKey | null
}

/**
 * Cosigns a checkpoint if it continues the last cosigned checkpoint of the same log.
 *
 * The decision, the storage of the head and the signature happen without an `await` in between, so two requests cannot
 * both continue the same head. The new head is durable before its signature exists. So a crash leaves either the old
 * head, without a new signature, or the new head, which the log can submit again to get the signature.
 */
export class LogWitness {
  readonly #options: LogWitnessOptions
  #state: State | null = null

  constructor(options: LogWitnessOptions) {
    this.#options = options
  }

  /** The key of the witness, in C2SP form (type 4). Errors: WITNESS_STATE_DAMAGED. */
  get verifierKey(): string {
    return witnessKeyText(this.#key(this.#opened()))
  }

  /**
   * Answers a request: `old <size>`, the lines of a consistency proof, an empty line, and a checkpoint.
   *
   * Errors: WITNESS_REQUEST_INVALID, WITNESS_LOG_UNKNOWN, WITNESS_SIGNATURE_REFUSED, WITNESS_PROOF_WRONG,
   * WITNESS_STATE_DAMAGED.
   */
  async addCheckpoint(body: Uint8Array): Promise<WitnessAnswer> {
    const { old, proof, note } = parsedRequest(body)
    const key = this.#options.keyOf(note.slice(0, note.indexOf('\n')))
    if (key === null) {
      throw new LedgerError('WITNESS_LOG_UNKNOWN', 'this node does not cosign a log of this origin')
    }
    const checkpoint = await opened(key, note)
    if (old > checkpoint.size) {
      throw invalid('the old size is larger than the size of the checkpoint')
    }
    // There is no `await` from here on, because no other request may come between the comparison and the new state.
    const state = this.#opened()
    const known = state.heads.get(checkpoint.origin) ?? NOTHING
    if (old !== known.size) return { conflict: known.size }
    if (old === checkpoint.size && !equalBytes(checkpoint.root, known.root)) {
      throw new LedgerError(
        'WITNESS_PROOF_WRONG',
        `this witness has cosigned a different root of the log of ${old} blocks`,
      )
    }
    if (!verifyConsistency(known, checkpoint, proof)) {
      throw new LedgerError(
        'WITNESS_PROOF_WRONG',
        `the proof does not show that the log of ${checkpoint.size} blocks continues the log of ${old} blocks`,
      )
    }
    this.#remember(state, checkpoint)
    const timestamp = Math.floor(this.#options.clock.now() / 1_000)
    const text = unverifiedText(note)
    const line = cosignatureLine(this.#key(state), { text, timestamp }, (message) =>
      sign(null, message, state.privateKey),
    )
    return { line }
  }

  #key({ privateKey }: State): VerifierKey {
    return { name: this.#options.name, publicKey: rawPublicKey(createPublicKey(privateKey)) }
  }

  /** Stores the head durably. */
  #remember({ privateKey, heads }: State, { origin, size, root }: Checkpoint): void {
    if (heads.get(origin)?.size === size) return
    if (heads.size >= LOGS_MAX && !heads.has(origin)) {
      throw new LedgerError(
        'WITNESS_LOG_UNKNOWN',
        `this node has cosigned ${LOGS_MAX} logs already`,
      )
    }
    const next = { privateKey, heads: new Map(heads).set(origin, { size, root }) }
    // Forgets the state first. If storing fails, the next request then reads the state from the disk.
    this.#state = null
    this.#store(next)
    this.#state = next
  }

  #opened(): State {
    this.#state ??= this.#stored() ?? this.#created()
    return this.#state
  }

  #created(): State {
    const { privateKey } = generateKeyPairSync('ed25519')
    const state = { privateKey, heads: new Map() }
    this.#store(state)
    return state
  }

  #store({ privateKey, heads }: State): void {
    const { folder } = this.#options
    if (folder === null) return
    const logs = Object.fromEntries(
      [...heads].map(([origin, { size, root }]) => [origin, { size, root: toBase64(root) }]),
    )
    const key = privateKey.export({ format: 'pem', type: 'pkcs8' })
    writeDurably(join(folder, FILE), `${JSON.stringify({ key, logs })}\n`)
  }

  /** Errors: WITNESS_STATE_DAMAGED; errors of the system. */
  #stored(): State | null {
    const { folder } = this.#options
    const path = folder === null ? null : join(folder, FILE)
    if (path === null || !fileExists(path)) return null
    const { key, logs } = jsonMembers(readFileSync(path, 'utf8'))
    const privateKey = typeof key === 'string' ? keyIn(key) : null
    const heads = isJsonObject(logs) ? headsIn(logs) : null
    if (privateKey !== null && heads !== null) return { privateKey, heads }
    throw new LedgerError(
      'WITNESS_STATE_DAMAGED',
      `${path} is malformed; if you remove the file, the witness starts with a new key`,
    )
  }
}

const NOTHING: TreeHead = { size: 0, root: rootOf(EMPTY_FRONTIER) }

/** Returns the verified checkpoint in `note`. Errors: WITNESS_REQUEST_INVALID, WITNESS_SIGNATURE_REFUSED. */
async function opened(key: VerifierKey, note: string): Promise<Checkpoint> {
  try {
    return await openCheckpoint(nodeVerifySignature, key, note)
  } catch (error) {
    if (!(error instanceof ProofError)) throw error
    const isUnsigned = error.code === 'NOTE_UNSIGNED' || error.code === 'NOTE_FORGED'
    const code = isUnsigned ? 'WITNESS_SIGNATURE_REFUSED' : 'WITNESS_REQUEST_INVALID'
    throw new LedgerError(code, error.message, { cause: error })
  }
}

interface WitnessRequest {
  readonly old: number
  readonly proof: readonly Uint8Array[]
  readonly note: string
}

function parsedRequest(body: Uint8Array): WitnessRequest {
  const text = textOf(body)
  const end = text.indexOf('\n\n')
  const [first = '', ...lines] = text.slice(0, Math.max(end, 0)).split('\n', 2 + HASHES_MAX)
  const [, old = ''] = /^old (0|[1-9]\d{0,15})$/.exec(first) ?? []
  const proof = lines.map(fromBase64).filter((hash) => hash?.length === HASH_BYTES)
  if (end === -1 || old === '' || !Number.isSafeInteger(Number(old))) {
    throw invalid(
      'a request begins with "old <size>" and contains a checkpoint after an empty line',
    )
  }
  const hashes = proof.filter((hash) => hash !== null)
  if (lines.length > HASHES_MAX || hashes.length !== lines.length) {
    throw invalid(`a proof has at most ${HASHES_MAX} lines, each a hash in base64`)
  }
  return { old: Number(old), proof: hashes, note: text.slice(end + 2) }
}

function textOf(body: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body)
  } catch (error) {
    throw new LedgerError('WITNESS_REQUEST_INVALID', 'the request is not UTF-8', { cause: error })
  }
}

function invalid(reason: string): LedgerError {
  return new LedgerError('WITNESS_REQUEST_INVALID', reason)
}

function keyIn(pem: string): KeyObject | null {
  try {
    const key = createPrivateKey(pem)
    return key.asymmetricKeyType === 'ed25519' ? key : null
  } catch {
    return null
  }
}

/**
 * Returns the heads by origin, or null if any head is malformed. If a malformed head were left out, the witness would
 * treat its log as a new log.
 */
function headsIn(logs: JsonObject): Map<string, TreeHead> | null {
  const heads = new Map<string, TreeHead>()
  for (const [origin, head] of Object.entries(logs)) {
    const { size, root: encoded } = isJsonObject(head) ? head : {}
    const root = typeof encoded === 'string' ? fromBase64(encoded) : null
    if (!isCount(size) || root?.length !== HASH_BYTES) return null
    heads.set(origin, { size, root })
  }
  return heads
}
