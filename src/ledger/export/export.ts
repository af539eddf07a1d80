import { createPublicKey, type KeyObject } from 'node:crypto'
import { CodedError } from '../../base/coded-error.ts'
import { isCount, isJsonObject, type Json } from '../../base/json.ts'
import {
  type Block,
  ChainVerifier,
  findErased,
  packPosition,
  provenBlockJson,
  serverIdOfRaw,
  unpackPosition,
} from '../../chain/index.ts'
import type { StoreReader } from '../../storage/index.ts'
import { findNodeKey } from '../log/node-key.ts'

// An export is a chain as lines of JSON: a header, a line for each block (`provenBlockJson`), and an end line, which
// shows that the file is complete. The content of a line determines its text, so any changed byte is detected.
// Source: docs/reference/export.md.

export const EXPORT_VERSION = 1

/** Content of the first line. */
export interface ExportHeader {
  readonly version: number
  readonly serverId: number
  readonly size: number
  /** Id of the last block, or null if there is none. */
  readonly headId: string | null
  /** The node's raw Ed25519 key as 64 lowercase hex digits, or null if it is not available. */
  readonly publicKey: string | null
}

/** Content of the last line: the totals of the preceding lines. */
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

/**
 * Returns the header in `value`, or null if it is not a header. If the version is newer than EXPORT_VERSION, the other
 * members may have another meaning.
 */
export function decodeExportHeader(value: Json): ExportHeader | null {
  if (!isJsonObject(value) || value.daicho !== 'export') return null
  const { version, serverid, size, head = null, public_key = null } = value
  if (!isCount(version) || version < 1 || !isCount(serverid) || !isCount(size)) return null
  if (head !== null && typeof head !== 'string') return null
  if (public_key !== null && typeof public_key !== 'string') return null
  return { version, serverId: serverid, size, headId: head, publicKey: public_key }
}

/** Returns the public key of a node as 64 hex digits, as in the header. */
function publicKeyHex(key: KeyObject): string {
  const { x = '' } = createPublicKey(key).export({ format: 'jwk' })
  return Buffer.from(x, 'base64url').toString('hex')
}

/** Returns the server id for the public key of a header, or null if the key is invalid. */
export function parseServerIdHex(publicKey: string): number | null {
  if (!/^[0-9a-f]{64}$/.test(publicKey)) return null
  return serverIdOfRaw(Buffer.from(publicKey, 'hex'))
}

export type ExportErrorCode =
  | 'EXPORT_FOREIGN' // the file is not an export
  | 'EXPORT_TOO_NEW' // written by a newer daicho
  | 'EXPORT_DAMAGED' // a line is wrong; `finding` has its number
  | 'CHAIN_DAMAGED' // the chain to export or copy does not verify
  | 'COPY_OVER_STORE' // the target of a copy already has a store, or another key
  | 'COPY_REFUSED' // the copy does not verify
  | 'IMPORT_OVER_STORE' // the folder already has a store
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
  /** The first error in the export if the code is EXPORT_DAMAGED; null for other codes. */
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

/** Returns an EXPORT_DAMAGED error with the location in its message. */
export function damagedExport(finding: ExportFinding, cause?: unknown): ExportError {
  const { line, height, index, what } = finding
  const location = [
    `line ${line}`,
    ...(height === null ? [] : [`height ${height}`]),
    ...(index === null ? [] : [`entry ${index}`]),
  ].join(', ')
  return new ExportError('EXPORT_DAMAGED', `${location}: ${what}`, finding, { cause })
}

/** Maximum blocks of a page. A page can have fewer, because the store limits the length of the texts. */
const BLOCKS_PER_PAGE = 256

/** Called after each page of blocks, with the totals so far. */
export type ExportProgress = (done: { blocks: number; ofBlocks: number; entries: number }) => void

/**
 * Yields the lines of an export of `store`, page by page, and returns the totals of the end line. Reads the public key
 * of the header from `folder` unless `folder` is null.
 *
 * Exports the blocks that exist at the first call. The chain only grows, so the export needs no database snapshot,
 * and a slow consumer does not delay the node. Each block is verified before it is yielded. Errors: CHAIN_DAMAGED;
 * StoreError.
 */
export async function* exportLines(
  store: StoreReader,
  folder: string | null,
  progress: ExportProgress,
): AsyncGenerator<string, ExportEnd> {
  const { serverId } = store
  const key = folder === null ? null : findNodeKey(folder)
  const last = await store.head(serverId)
  const size = last === null ? 0 : last.height + 1
  const header = { version: EXPORT_VERSION, serverId, size, headId: last?.id ?? null }
  const publicKey = key?.serverId === serverId ? publicKeyHex(key.privateKey) : null
  yield `${headerLine({ ...header, publicKey })}\n`
  const chain = new ChainVerifier()
  let blocks = 0
  let entries = 0
  while (blocks < size) {
    const page = await store.blocks(serverId, blocks, Math.min(BLOCKS_PER_PAGE, size - blocks))
    if (page.length === 0) throw damaged(blocks, 'the block is missing')
    let text = ''
    for (const block of page) {
      const fault = chain.push(block)
      if (fault !== null) throw damaged(fault.height, fault.what, fault.index)
      await requireErasers(store, block, size)
      entries += block.entries.length
      text += `${provenBlockJson(block)}\n`
    }
    blocks += page.length
    yield text
    progress({ blocks, ofBlocks: size, entries })
  }
  const end = { blocks, entries, headId: header.headId }
  yield `${endLine(end)}\n`
  return end
}

/**
 * Checks that each erased entry of `block` is erased by an entry of the first `size` blocks, which are the export. An
 * import would reject an erased entry without its erasure.
 */
async function requireErasers(store: StoreReader, block: Block, size: number): Promise<void> {
  const { height } = block
  for (const index of findErased(block)) {
    const eraser = await store.eraser(packPosition(height, index))
    if (eraser === null)
      throw damaged(height, 'the entry has no blind, but no other entry erases it', index)
    if (unpackPosition(eraser).height >= size) {
      throw damaged(height, 'the entry was erased during the export; export again', index)
    }
  }
}

function damaged(height: number, what: string, index: number | null = null): ExportError {
  const entry = index === null ? '' : `, entry ${index}`
  return new ExportError(
    'CHAIN_DAMAGED',
    `the chain does not verify at height ${height}${entry}: ${what}`,
  )
}
