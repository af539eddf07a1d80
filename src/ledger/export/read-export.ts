import { decompressInput } from '../../base/files/compressed-input.ts'
import { parseForeignJsonOrNull } from '../../base/strict-json.ts'
import { ChainVerifier, PROVEN_BLOCK_BYTES_MAX, rawBlock } from '../../chain/index.ts'
import { ErasureCheck } from '../../storage/index.ts'
import { type DecodedBlock, decodeNextBlock } from '../write/decoded-block.ts'
import {
  damagedExport,
  decodeExportHeader,
  EXPORT_VERSION,
  type ExportEnd,
  ExportError,
  type ExportHeader,
  endLine,
  headerLine,
  parseServerIdHex,
} from './export.ts'

const LINE_BREAK = 0x0a

/** A verified block, with the effects of its entries. */
export interface ReadBlock extends DecodedBlock {
  /** Number of the block's line in the export, counted from 1. */
  readonly line: number
}

/** Receives the content of an export while it is read. */
export interface ExportReceiver {
  /** Receives the header before any block. If the promise rejects, reading stops. */
  header(header: ExportHeader): Promise<void>
  /** Receives the next verified blocks. `entries` is the total number of entries so far. */
  blocks(blocks: readonly ReadBlock[], entries: number): Promise<void>
}

/**
 * Reads an export to its end. Before `receiver` gets a block, verifies its commitments, its root, its id, its link to
 * the previous block, and the format and names of its entries. Detects a change of any byte, because each line has
 * exactly one valid text. Only one batch of lines is in memory at a time.
 *
 * This does not prove that the chain is the node's own, because anybody can compute another valid chain. To detect a
 * replaced chain, compare `headId` with a value that you recorded earlier.
 *
 * Errors: ExportError.
 */
export async function readExport(
  chunks: AsyncIterable<Uint8Array>,
  receiver: ExportReceiver,
): Promise<ExportHeader & ExportEnd> {
  let header: ExportHeader | null = null
  let verifier: LineVerifier | null = null
  for await (const { lines, first } of splitLines(chunks)) {
    let at = 0
    if (verifier === null) {
      at = 1
      header = requireHeader(lines[0] ?? '')
      verifier = new LineVerifier(header)
      await receiver.header(header)
    }
    const blocks: ReadBlock[] = []
    try {
      for (; at < lines.length; at += 1) {
        const block = verifier.verifyLine(lines[at] ?? '', first + at)
        if (block !== null) blocks.push(block)
      }
    } finally {
      // If a line is damaged, the receiver still gets the blocks before it.
      if (blocks.length > 0) await receiver.blocks(blocks, verifier.entries)
    }
  }
  if (header === null || verifier === null)
    throw new ExportError('EXPORT_FOREIGN', 'the file is empty')
  return { ...header, ...verifier.totals() }
}

/** Complete lines that arrived together, without their line breaks. */
interface LineBatch {
  readonly lines: readonly string[]
  /** Number of the first of these lines in the export, counted from 1. */
  readonly first: number
}

/** Splits `chunks`, compressed by gzip or not, into lines. Errors: EXPORT_DAMAGED. */
async function* splitLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<LineBatch> {
  let rest: Uint8Array[] = []
  let restBytes = 0
  let first = 1
  const damaged = (what: string, cause?: unknown) =>
    damagedExport({ line: first, height: null, index: null, what }, cause)
  const bytes = decompressInput(chunks, (error) =>
    damaged(`the compressed data are damaged: ${error.message}`, error),
  )
  for await (const chunk of bytes) {
    const end = chunk.lastIndexOf(LINE_BREAK)
    restBytes += chunk.length
    if (end === -1) {
      rest.push(chunk)
      if (restBytes > PROVEN_BLOCK_BYTES_MAX) {
        throw damaged(`it is longer than a block can be: ${PROVEN_BLOCK_BYTES_MAX} bytes`)
      }
      continue
    }
    const lines = Buffer.concat([...rest, chunk.subarray(0, end)])
      .toString()
      .split('\n')
    rest = [chunk.subarray(end + 1)]
    restBytes = chunk.length - end - 1
    yield { lines, first }
    first += lines.length
  }
  if (restBytes > 0) throw damaged('the line is incomplete')
}

function requireHeader(line: string): ExportHeader {
  const header = decodeExportHeader(parseForeignJsonOrNull(line))
  if (header === null) {
    throw new ExportError('EXPORT_FOREIGN', 'the first line is not the header of an export')
  }
  if (header.version > EXPORT_VERSION) {
    throw new ExportError(
      'EXPORT_TOO_NEW',
      `the export has version ${header.version}, but this daicho reads only versions up to ${EXPORT_VERSION}: use a newer daicho`,
    )
  }
  const damaged = (what: string) => damagedExport({ line: 1, height: null, index: null, what })
  if (line.endsWith('\r')) throw damaged('the lines end with CR LF: convert the line ends to LF')
  if (headerLine(header) !== line) throw damaged('the header is not in canonical form')
  const { publicKey, serverId } = header
  if (publicKey !== null && parseServerIdHex(publicKey) !== serverId) {
    throw damaged(`the public key does not belong to server id ${serverId}`)
  }
  return header
}

/** Verifies the lines after the header, in order. */
class LineVerifier {
  entries = 0
  readonly #header: ExportHeader
  readonly #erasures = new ErasureCheck()
  readonly #chain = new ChainVerifier()
  #line = 1
  #isEnded = false

  constructor(header: ExportHeader) {
    this.#header = header
  }

  /** Returns the block on `line`, or null if it is the end line. Errors: EXPORT_DAMAGED. */
  verifyLine(line: string, number: number): ReadBlock | null {
    this.#line = number
    if (this.#isEnded) throw this.#damaged('there is data after the end line')
    if (line.startsWith('{"daicho":')) {
      this.#end(line)
      return null
    }
    const { serverId } = this.#header
    const block = rawBlock(line, serverId)
    if (block === null) throw this.#damaged('it is not a block as daicho writes it')
    const decoded = decodeNextBlock(block, serverId, this.#chain)
    if ('what' in decoded) throw this.#damaged(decoded.what, decoded.index)
    const fault = this.#erasures.block(decoded.block, decoded.effects)
    if (fault !== null) throw this.#damaged(fault.what, fault.index)
    this.entries += decoded.block.entries.length
    return { ...decoded, line: number }
  }

  /** Returns the content of the end line. Errors: EXPORT_DAMAGED if the end line is missing. */
  totals(): ExportEnd {
    if (this.#isEnded) return this.#counted()
    this.#line += 1
    throw this.#damaged('the end line is missing: the file is truncated')
  }

  #end(line: string): void {
    const { size, headId } = this.#header
    const counted = this.#counted()
    if (counted.blocks !== size || counted.headId !== headId) {
      throw this.#damaged(`the header announces ${size} blocks, but there are ${counted.blocks}`)
    }
    const erasing = this.#erasures.end()
    if (erasing !== null) throw this.#damaged(erasing)
    if (endLine(counted) !== line) {
      throw this.#damaged('the totals of the end line do not match the lines before it')
    }
    this.#isEnded = true
  }

  #counted(): ExportEnd {
    const { size: blocks, state } = this.#chain
    return { blocks, entries: this.entries, headId: state.head?.id ?? null }
  }

  #damaged(what: string, index: number | null = null): ExportError {
    return damagedExport({ line: this.#line, height: this.#chain.size, index, what })
  }
}
