import { type Json, parseJson } from '../../base/json.ts'
import { erasedIn, type Head, headOf, provenBlockJson, verifyBlock } from '../../chain/index.ts'
import { ErasureTally } from '../../storage/index.ts'
import { type DecodedBlock, decodeBlock } from '../decoded-block.ts'
import { damagedExport, ExportError } from './errors.ts'
import {
  EXPORT_VERSION,
  type ExportEnd,
  type ExportHeader,
  endLine,
  headerLine,
  headerOf,
  serverIdOfHex,
} from './format.ts'
import { linesOf } from './lines.ts'

/** A block that holds, with what its entries do. */
export interface ReadBlock extends DecodedBlock {
  /** The number of its line, from 1. */
  readonly line: number
}

/** Takes an export while it is read. */
export interface ExportTaker {
  /** First; what it throws ends the reading. */
  header(header: ExportHeader): Promise<void>
  /** Blocks in their order, some at a time, each verified; `entries` counts all up to here. */
  blocks(blocks: readonly ReadBlock[], entries: number): Promise<void>
}

/**
 * Reads an export to its end, verifying each line before it is handed on: commitments, root, id and
 * link of each block, each entry's form and names, and that the file is whole. Every byte counts: a
 * line is compared with the one form it can have. One batch of lines is in memory at a time.
 *
 * What the chain does not prove: that it is the node's own. Whoever has the file can compute another
 * chain; compare `headId` with one that was noted.
 * Errors: ExportError.
 */
export async function readExport(
  chunks: AsyncIterable<Uint8Array>,
  taker: ExportTaker,
): Promise<ExportHeader & ExportEnd> {
  let header: ExportHeader | null = null
  let reading: Reading | null = null
  for await (const { lines, first } of linesOf(chunks)) {
    let at = 0
    if (reading === null) {
      at = 1
      header = headerIn(lines[0] ?? '')
      reading = new Reading(header)
      await taker.header(header)
    }
    const blocks: ReadBlock[] = []
    try {
      for (; at < lines.length; at += 1) {
        const block = reading.take(lines[at] ?? '', first + at)
        if (block !== null) blocks.push(block)
      }
    } finally {
      // What holds before a damaged line is counted too.
      if (blocks.length > 0) await taker.blocks(blocks, reading.entries)
    }
  }
  if (header === null || reading === null) throw foreign('it is empty')
  return { ...header, ...reading.ended() }
}

function foreign(why: string): ExportError {
  return new ExportError('EXPORT_FOREIGN', why)
}

function parsed(line: string): Json | undefined {
  try {
    return parseJson(line)
  } catch {
    return undefined
  }
}

function headerIn(line: string): ExportHeader {
  const value = parsed(line)
  const header = value === undefined ? null : headerOf(value)
  if (header === null) throw foreign('its first line is not the header of an export')
  if (header.version > EXPORT_VERSION) {
    throw new ExportError(
      'EXPORT_TOO_NEW',
      `the export has version ${header.version}; this daicho reads up to ${EXPORT_VERSION}: use a newer one`,
    )
  }
  const found = (what: string) => damagedExport({ line: 1, height: null, index: null, what })
  if (headerLine(header) !== line) throw found('the header is not as daicho writes it')
  const { publicKey, serverId } = header
  if (publicKey !== null && serverIdOfHex(publicKey) !== serverId) {
    throw found(`the public key is not that of server id ${serverId}`)
  }
  return header
}

/** Goes through the lines after the header. */
class Reading {
  entries = 0
  readonly #header: ExportHeader
  readonly #erasures = new ErasureTally()
  #head: Head | null = null
  #line = 1
  #isEnded = false

  constructor(header: ExportHeader) {
    this.#header = header
  }

  /** The block on `line`, or null when it is the end. Errors: EXPORT_DAMAGED. */
  take(line: string, number: number): ReadBlock | null {
    this.#line = number
    if (this.#isEnded) throw this.#found('something follows the end')
    const value = parsed(line)
    if (value === undefined) throw this.#found('it is not JSON')
    if (line.startsWith('{"daicho":')) {
      this.#end(line)
      return null
    }
    const { block, effects } = this.#blockOf(value)
    const fault =
      verifyBlock(block, this.#head, erasedIn(block)) ?? this.#erasures.block(block, effects)
    if (fault !== null) throw this.#found(fault.what, fault.index)
    if (provenBlockJson(block) !== line) throw this.#found('the line is not as daicho writes it')
    this.#head = headOf(block)
    this.entries += block.entries.length
    return { block, effects, line: number }
  }

  /** What the end said. Errors: EXPORT_DAMAGED when there was none. */
  ended(): ExportEnd {
    if (this.#isEnded) return this.#counted()
    this.#line += 1
    throw this.#found('the end is missing: the file was cut short')
  }

  #end(line: string): void {
    const { size, headId } = this.#header
    const counted = this.#counted()
    if (counted.blocks !== size || counted.headId !== headId) {
      throw this.#found(`the header gives ${size} blocks; ${counted.blocks} stand here`)
    }
    const erasing = this.#erasures.end()
    if (erasing !== null) throw this.#found(erasing)
    if (endLine(counted) !== line) throw this.#found('the end does not count what stands before it')
    this.#isEnded = true
  }

  #counted(): ExportEnd {
    const head = this.#head
    const blocks = head === null ? 0 : head.height + 1
    return { blocks, entries: this.entries, headId: head?.id ?? null }
  }

  #blockOf(value: Json): DecodedBlock {
    const height = this.#head === null ? 0 : this.#head.height + 1
    const played = decodeBlock(value, this.#header.serverId, height)
    if ('what' in played) throw this.#found(played.what, played.index)
    return played
  }

  #found(what: string, index: number | null = null): ExportError {
    const height = this.#head === null ? 0 : this.#head.height + 1
    return damagedExport({ line: this.#line, height, index, what })
  }
}
