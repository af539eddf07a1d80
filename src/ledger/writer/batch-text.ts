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
 * A unit of work as one text. Units cross to the writer's thread as their texts, one behind the other:
 * copying a text is far cheaper than copying as many objects, and while it waits it takes the least
 * memory. A line for the number of operations, then for each its code, database, id and text. None of
 * them can hold a newline: names have no control characters, canonical JSON escapes them.
 */
export function encodeUnit(unit: UnitOfWork): string {
  const [only] = unit
  if (unit.length === 1 && only !== undefined) return `1\n${encode(only)}`
  // Joining gives one piece; a text added to piece by piece keeps all of them.
  return `${unit.length}\n${unit.map(encode).join('')}`
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

/** The units whose texts stand in `text`. Errors: AssertionError on any other text. */
export function decodeBatch(text: string): UnitOfWork[] {
  const lines = text.split('\n')
  let at = 0
  const next = (): string => {
    const line = lines[at]
    assert(line !== undefined)
    at += 1
    return line
  }
  const units: UnitOfWork[] = []
  while (at < lines.length - 1) {
    const unit: Operation[] = []
    for (let count = Number(next()); count > 0; count -= 1) unit.push(decode(next))
    units.push(unit)
  }
  return units
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
