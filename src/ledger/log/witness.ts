import assert from 'node:assert/strict'
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
import { fileExists } from '../../base/files/durable-files.ts'
import { Type } from '../../base/shape.ts'
import { mapSchema, parseShape } from '../../base/shaped-json.ts'
import {
  type Checkpoint,
  cosignatureLine,
  EMPTY_FRONTIER,
  equalBytes,
  frontierRoot,
  HASH_BYTES,
  HASHES_MAX,
  nodeVerifySignature,
  openCheckpoint,
  ProofError,
  parseVerifierKey,
  rawPublicKey,
  unverifiedText,
  type VerifierKey,
  verifyConsistency,
  witnessKeyText,
} from '../../chain/index.ts'
import {
  type ChangeText,
  isDatabaseUrl,
  type StoreLocation,
  sharedTextChanges,
  writeDurably,
} from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'

// This node as a witness: cosigns the logs of other nodes (c2sp.org/tlog-witness).

/**
 * File with the state of a node whose store is in files. Backups exclude it, because a witness with older heads could
 * cosign a second history.
 */
const FILE = 'witness.json'
/** Name of the text with the state in a database, which all processes of a node share. */
const SHARED_TEXT = 'witness'
const LOGS_MAX = 256
/** Maximum bytes of a request, which is enough for the longest note and a proof. */
export const WITNESS_REQUEST_BYTES_MAX = 80 * 1024

/** Parses the verifier keys of logs. Errors: WITNESS_OF_INVALID. */
export function parseVerifierKeys(texts: readonly string[]): VerifierKey[] {
  return texts.map((text) => {
    try {
      return parseVerifierKey(text)
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
  /** Changes the text of the state; see `witnessState`. */
  readonly change: ChangeText
  readonly clock: Clock
  /** Returns the key of the log of this origin, or null if this node does not cosign the log. */
  readonly findKey: (origin: string) => VerifierKey | null
}

/** Returns the function that changes the state of the witness in a database or a data folder (null: in memory). */
export async function witnessState(
  location: StoreLocation,
  folder: string | null,
): Promise<ChangeText> {
  if (isDatabaseUrl(location)) return sharedTextChanges(location, SHARED_TEXT)
  let kept: string | null = null
  const path = folder === null ? null : join(folder, FILE)
  return async (change) => {
    if (path !== null) kept = fileExists(path) ? readFileSync(path, 'utf8') : null
    const changed = change(kept)
    if (path !== null && changed !== kept) writeDurably(path, changed)
    kept = changed
  }
}

/**
 * Cosigns a checkpoint if it continues the last cosigned checkpoint of the same log.
 *
 * The decision and the storage of the head are one change of the state, so two requests, also at two processes of one
 * node, cannot both continue the same head. The new head is durable before its signature exists. So a crash leaves
 * either the old head, without a new signature, or the new head, which the log can submit again to get the signature.
 */
export class LogWitness {
  readonly #options: LogWitnessOptions
  #verifierKey: string | null = null

  constructor(options: LogWitnessOptions) {
    this.#options = options
  }

  /** Returns the key of the witness, in C2SP form (type 4). Errors: WITNESS_STATE_DAMAGED; errors of the storage. */
  async verifierKey(): Promise<string> {
    if (this.#verifierKey === null) {
      const [privateKey] = await this.#decided(() => null)
      this.#verifierKey = witnessKeyText(this.#key(privateKey))
    }
    return this.#verifierKey
  }

  /**
   * Answers a request: `old <size>`, the lines of a consistency proof, an empty line, and a checkpoint.
   *
   * Errors: WITNESS_REQUEST_INVALID, WITNESS_LOG_UNKNOWN, WITNESS_SIGNATURE_REFUSED, WITNESS_PROOF_WRONG,
   * WITNESS_STATE_DAMAGED; errors of the storage.
   */
  async addCheckpoint(body: Uint8Array): Promise<WitnessAnswer> {
    const { old, proof, note } = parsedRequest(body)
    const key = this.#options.findKey(note.slice(0, note.indexOf('\n')))
    if (key === null) {
      throw new LedgerError('WITNESS_LOG_UNKNOWN', 'this node does not cosign a log of this origin')
    }
    const checkpoint = await requireCheckpoint(key, note)
    if (old > checkpoint.size) {
      throw invalid('the old size is larger than the size of the checkpoint')
    }
    const [privateKey, conflict] = await this.#decided((heads) => {
      const known = heads.get(checkpoint.origin) ?? NOTHING
      if (old !== known.size) return known.size
      requireContinuation(known, checkpoint, proof)
      rememberHead(heads, checkpoint)
      return null
    })
    if (conflict !== null) return { conflict }
    const timestamp = Math.floor(this.#options.clock.now() / 1_000)
    const text = unverifiedText(note)
    const line = cosignatureLine(this.#key(privateKey), { text, timestamp }, (message) =>
      sign(null, message, privateKey),
    )
    return { line }
  }

  #key(privateKey: KeyObject): VerifierKey {
    return { name: this.#options.name, publicKey: rawPublicKey(createPublicKey(privateKey)) }
  }

  /** Lets `decide` change the heads, stores them, and returns the key and the result of `decide`. */
  async #decided<Result>(
    decide: (heads: Map<string, TreeHead>) => Result,
  ): Promise<[KeyObject, Result]> {
    const decided: [KeyObject, Result][] = []
    await this.#options.change((text) => {
      const { privateKey, heads } = text === null ? newState() : parseState(text)
      const changed = new Map(heads)
      decided.splice(0, 1, [privateKey, decide(changed)])
      return stateText({ privateKey, heads: changed })
    })
    const [result] = decided
    assert(result !== undefined)
    return result
  }
}

/** Errors: WITNESS_PROOF_WRONG unless `checkpoint` continues the log of `known`. */
function requireContinuation(
  known: TreeHead,
  checkpoint: Checkpoint,
  proof: readonly Uint8Array[],
): void {
  if (known.size === checkpoint.size && !equalBytes(checkpoint.root, known.root)) {
    throw new LedgerError(
      'WITNESS_PROOF_WRONG',
      `this witness has cosigned a different root of the log of ${known.size} blocks`,
    )
  }
  if (verifyConsistency(known, checkpoint, proof)) return
  throw new LedgerError(
    'WITNESS_PROOF_WRONG',
    `the proof does not show that the log of ${checkpoint.size} blocks continues the log of ${known.size} blocks`,
  )
}

/** Sets the last cosigned head of a log. Errors: WITNESS_LOG_UNKNOWN for too many logs. */
function rememberHead(heads: Map<string, TreeHead>, { origin, size, root }: Checkpoint): void {
  if (heads.get(origin)?.size === size) return
  if (heads.size >= LOGS_MAX && !heads.has(origin)) {
    const message = `this node has cosigned ${LOGS_MAX} logs already`
    throw new LedgerError('WITNESS_LOG_UNKNOWN', message)
  }
  heads.set(origin, { size, root })
}

function newState(): State {
  return { privateKey: generateKeyPairSync('ed25519').privateKey, heads: new Map() }
}

function stateText({ privateKey, heads }: State): string {
  const logs = Object.fromEntries(
    [...heads].map(([origin, { size, root }]) => [origin, { size, root: toBase64(root) }]),
  )
  const key = privateKey.export({ format: 'pem', type: 'pkcs8' })
  return `${JSON.stringify({ key, logs })}\n`
}

const StateFile = Type.Object({
  key: Type.String(),
  logs: mapSchema(Type.Object({ size: Type.Integer(), root: Type.String() })),
})

/**
 * Parses the state. If a malformed head were left out, the witness would treat its log as a new log. Errors:
 * WITNESS_STATE_DAMAGED.
 */
function parseState(text: string): State {
  const { key, logs } = parseShape(StateFile, text) ?? { key: '', logs: {} }
  const privateKey = parsePrivateKey(key)
  const heads = Object.entries(logs).map(([origin, { size, root }]) => {
    return [origin, { size, root: fromBase64(root) ?? new Uint8Array() }] as const
  })
  if (privateKey !== null && heads.every(([, { root }]) => root.length === HASH_BYTES)) {
    return { privateKey, heads: new Map(heads) }
  }
  const message = `${FILE}, or the text \`${SHARED_TEXT}\` of the database, is malformed; if you remove it, the witness starts with a new key`
  throw new LedgerError('WITNESS_STATE_DAMAGED', message)
}

const NOTHING: TreeHead = { size: 0, root: frontierRoot(EMPTY_FRONTIER) }

/** Returns the verified checkpoint in `note`. Errors: WITNESS_REQUEST_INVALID, WITNESS_SIGNATURE_REFUSED. */
async function requireCheckpoint(key: VerifierKey, note: string): Promise<Checkpoint> {
  try {
    return await openCheckpoint(nodeVerifySignature, key, withoutRepetitions(note))
  } catch (error) {
    if (!(error instanceof ProofError)) throw error
    const isUnsigned = error.code === 'NOTE_UNSIGNED' || error.code === 'NOTE_FORGED'
    const code = isUnsigned ? 'WITNESS_SIGNATURE_REFUSED' : 'WITNESS_REQUEST_INVALID'
    throw new LedgerError(code, error.message, { cause: error })
  }
}

/** Removes repeated signature lines, which verifiers ignore. Source: c2sp.org/signed-note. */
function withoutRepetitions(note: string): string {
  const at = note.lastIndexOf('\n\n') + 2
  return note.slice(0, at) + [...new Set(note.slice(at).split('\n'))].join('\n')
}

interface WitnessRequest {
  readonly old: number
  readonly proof: readonly Uint8Array[]
  readonly note: string
}

function parsedRequest(body: Uint8Array): WitnessRequest {
  const text = decodeText(body)
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

function decodeText(body: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body)
  } catch (error) {
    throw new LedgerError('WITNESS_REQUEST_INVALID', 'the request is not UTF-8', { cause: error })
  }
}

function invalid(reason: string): LedgerError {
  return new LedgerError('WITNESS_REQUEST_INVALID', reason)
}

function parsePrivateKey(pem: string): KeyObject | null {
  try {
    const key = createPrivateKey(pem)
    return key.asymmetricKeyType === 'ed25519' ? key : null
  } catch {
    return null
  }
}
