import { createPublicKey, type KeyObject } from 'node:crypto'
import { CodedError } from '../../base/coded-error.ts'
import { isJsonObject, type Json } from '../../base/json.ts'
import { serverIdOfRaw } from '../../chain/index.ts'

// An export is a chain as lines of JSON: a header, a line for each block (`provenBlockJson`), and an end
// line, which shows that the file is complete. Every line has exactly one form.
// Source: docs/reference/export.md.

export const EXPORT_VERSION = 1

/** The first line. */
export interface ExportHeader {
  readonly version: number
  readonly serverId: number
  /** Number of blocks. */
  readonly size: number
  /** Id of the last block, or null if there is none. */
  readonly headId: string | null
  /** The node's raw Ed25519 key, 64 lowercase hex digits, or null if it was not available. */
  readonly publicKey: string | null
}

/** The last line: counts what stands before it. */
export interface ExportEnd {
  readonly blocks: number
  readonly entries: number
  readonly headId: string | null
}

/** Returns the first line, without the line break. */
export function headerLine({ version, serverId, size, headId, publicKey }: ExportHeader): string {
  return JSON.stringify({
    daicho: 'export',
    version,
    serverid: serverId,
    size,
    head: headId,
    public_key: publicKey,
  })
}

/** Returns the last line, without the line break. */
export function endLine({ blocks, entries, headId }: ExportEnd): string {
  return JSON.stringify({ daicho: 'end', blocks, entries, head: headId })
}

/** Reads a header; null if it is none. Of a newer version, only the version is certain. */
export function headerOf(value: Json): ExportHeader | null {
  if (!isJsonObject(value) || value.daicho !== 'export') return null
  const { version, serverid, size, head = null, public_key = null } = value
  if (!isCount(version) || version < 1 || !isCount(serverid) || !isCount(size)) return null
  if (head !== null && typeof head !== 'string') return null
  if (public_key !== null && typeof public_key !== 'string') return null
  return { version, serverId: serverid, size, headId: head, publicKey: public_key }
}

function isCount(value: Json | undefined): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

/** Returns the public key of a node as a header has it. */
export function publicKeyHex(key: KeyObject): string {
  const { x = '' } = createPublicKey(key).export({ format: 'jwk' })
  return Buffer.from(x, 'base64url').toString('hex')
}

/** Returns the server id of the public key of a header, or null if it is no key. */
export function serverIdOfHex(publicKey: string): number | null {
  if (!/^[0-9a-f]{64}$/.test(publicKey)) return null
  return serverIdOfRaw(Buffer.from(publicKey, 'hex'))
}

/** Errors of exports and imports. */
export type ExportErrorCode =
  | 'EXPORT_FOREIGN' // the file is no export
  | 'EXPORT_TOO_NEW' // a newer daicho wrote it
  | 'EXPORT_DAMAGED' // a line of it is wrong; `finding` says where
  | 'CHAIN_DAMAGED' // the chain to export does not verify
  | 'IMPORT_OVER_STORE' // the folder has a store already
  | 'IMPORT_WITHOUT_KEY' // the folder does not have the key of the chain's node

/** The first error in an export. Lines count from 1. */
export interface ExportFinding {
  readonly line: number
  readonly height: number | null
  readonly index: number | null
  readonly what: string
}

/** Thrown by exports and imports. */
export class ExportError extends CodedError<ExportErrorCode> {
  override readonly name = 'ExportError'
  /** Of EXPORT_DAMAGED; null otherwise. */
  readonly finding: ExportFinding | null

  constructor(
    code: ExportErrorCode,
    message: string,
    finding: ExportFinding | null = null,
    options?: ErrorOptions,
  ) {
    super(code, message, options)
    this.finding = finding
  }
}

/** Returns EXPORT_DAMAGED with the location in the message. */
export function damagedExport(finding: ExportFinding, cause?: unknown): ExportError {
  const { line, height, index, what } = finding
  const location = [
    `line ${line}`,
    ...(height === null ? [] : [`height ${height}`]),
    ...(index === null ? [] : [`entry ${index}`]),
  ].join(', ')
  return new ExportError('EXPORT_DAMAGED', `${location}: ${what}`, finding, { cause })
}
