import assert from 'node:assert/strict'
import type { Operation, UnitOfWork } from '../unit-of-work.ts'

const CODE_OF = {
  create_db: 'C',
  delete_db: 'X',
  create_item: 'c',
  update_item: 'u',
  patch_item: 'p',
  delete_item: 'd',
  create_attachment: 'b',
  delete_attachment: 'x',
  erase_item: 'e',
} as const

/** An item with an id that was assigned here: the most frequent operation. */
const ASSIGNED = 'a'

/**
 * A unit of work as it crosses to the writer's thread: copying a text is far cheaper than copying as many
 * objects, and while it waits it takes the least memory. A long one is the UTF-8 of its text: texts of
 * that size are collected late, and were most of a node's memory while lists came in; bytes move to the
 * thread without a copy, and are let go of at once.
 */
export type EncodedUnit = string | Uint8Array<ArrayBuffer>

/** Characters of a text that is kept as bytes. */
const LONG_CHARACTERS = 32 * 1024

/**
 * Encodes `unit`: a line for the number of operations, then for each its code, database, id and text.
 * None of them can hold a newline: names have no control characters, canonical JSON escapes them.
 */
export function encodeUnit(unit: UnitOfWork): EncodedUnit {
  const pieces = [`${unit.length}\n`]
  let characters = 0
  for (const operation of unit) {
    const piece = encode(operation)
    characters += piece.length
    pieces.push(piece)
  }
  if (characters < LONG_CHARACTERS) return pieces.join('')
  // Piece by piece: put together first, it would be one of those texts.
  const length = pieces.reduce((sum, piece) => sum + Buffer.byteLength(piece), 0)
  const bytes = Buffer.from(new ArrayBuffer(length))
  let at = 0
  for (const piece of pieces) at += bytes.write(piece, at)
  return bytes
}

function encode(operation: Operation): string {
  const { kind, db } = operation
  switch (kind) {
    case 'create_db':
    case 'delete_db':
      return `${CODE_OF[kind]}\n${db}\n`
    case 'create_item':
      return `${operation.assigned ? ASSIGNED : CODE_OF[kind]}\n${db}\n${operation.id}\n${operation.text}\n`
    case 'update_item':
    case 'patch_item':
    case 'create_attachment':
      return `${CODE_OF[kind]}\n${db}\n${operation.id}\n${operation.text}\n`
    case 'delete_item':
      return `${CODE_OF[kind]}\n${db}\n${operation.id}\n`
    case 'delete_attachment':
      return `${CODE_OF[kind]}\n${db}\n${operation.id}\n${operation.name}\n`
    case 'erase_item':
      return `${CODE_OF[kind]}\n${db}\n${operation.of}\n${operation.positions?.join() ?? ''}\n`
  }
}

/**
 * The unit of work that `encoded` was made of; bytes are gone afterwards.
 * Errors: AssertionError on any other text.
 */
export function decodeUnit(encoded: EncodedUnit): UnitOfWork {
  const next = typeof encoded === 'string' ? linesOf(encoded) : linesOfBytes(encoded)
  const unit: Operation[] = []
  for (let count = Number(next()); count > 0; count -= 1) unit.push(decode(next))
  if (typeof encoded !== 'string') encoded.buffer.transfer(0)
  return unit
}

function linesOf(text: string): () => string {
  const lines = text.split('\n')
  let at = 0
  return () => {
    const line = lines[at]
    assert(line !== undefined)
    at += 1
    return line
  }
}

const NEWLINE = 0x0a

function linesOfBytes(encoded: Uint8Array<ArrayBuffer>): () => string {
  const bytes = Buffer.from(encoded.buffer, encoded.byteOffset, encoded.length)
  let at = 0
  return () => {
    const end = bytes.indexOf(NEWLINE, at)
    assert(end !== -1)
    const line = bytes.toString('utf8', at, end)
    at = end + 1
    return line
  }
}

function decode(next: () => string): Operation {
  const code = next()
  const db = next()
  switch (code) {
    case ASSIGNED:
    case CODE_OF.create_item:
      return {
        kind: 'create_item',
        db,
        id: next(),
        text: next(),
        assigned: code === ASSIGNED,
      }
    case CODE_OF.update_item:
      return { kind: 'update_item', db, id: next(), text: next() }
    case CODE_OF.patch_item:
      return { kind: 'patch_item', db, id: next(), text: next() }
    case CODE_OF.delete_item:
      return { kind: 'delete_item', db, id: next() }
    case CODE_OF.create_attachment:
      return { kind: 'create_attachment', db, id: next(), text: next() }
    case CODE_OF.delete_attachment:
      return { kind: 'delete_attachment', db, id: next(), name: next() }
    case CODE_OF.erase_item: {
      const of = next()
      const positions = next()
      return {
        kind: 'erase_item',
        db,
        of,
        positions: positions === '' ? null : positions.split(',').map(Number),
      }
    }
    case CODE_OF.create_db:
      return { kind: 'create_db', db }
    case CODE_OF.delete_db:
      return { kind: 'delete_db', db }
    default:
      assert.fail(`unknown operation ${code}`)
  }
}
