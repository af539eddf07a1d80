import assert from 'node:assert/strict'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { canonicalJson } from '../../base/canonical-json.ts'
import type { Operation } from '../unit-of-work.ts'
import { decodeUnit, encodeUnit } from './batch-text.ts'

it('carries any unit of work to the thread and back unchanged', () => {
  // What names can be: anything but control characters.
  const name = fc
    .string({ unit: 'grapheme', minLength: 1 })
    .filter((text) => !/[\u0000-\u001f]/.test(text))
  const text = fc.dictionary(fc.string(), fc.string()).map((object) => canonicalJson(object))
  const operation: fc.Arbitrary<Operation> = fc.oneof(
    fc.record({ kind: fc.constantFrom('create_db' as const, 'delete_db' as const), db: name }),
    fc.record({
      kind: fc.constant('create_item' as const),
      db: name,
      id: name,
      text,
      assigned: fc.boolean(),
    }),
    fc.record({
      kind: fc.constantFrom('update_item' as const, 'patch_item' as const),
      db: name,
      id: name,
      text,
    }),
    fc.record({ kind: fc.constant('delete_item' as const), db: name, id: name }),
    fc.record({
      kind: fc.constant('create_attachment' as const),
      db: name,
      id: name,
      text,
    }),
    fc.record({
      kind: fc.constant('delete_attachment' as const),
      db: name,
      id: name,
      name,
    }),
  )
  fc.assert(
    fc.property(fc.array(operation, { minLength: 1 }), (unit) => {
      const encoded = encodeUnit(unit)
      expect(decodeUnit(encoded)).toEqual(unit)
      expect(decodeUnit(Uint8Array.from(Buffer.from(String(encoded))))).toEqual(unit)
    }),
  )
})

it('a long unit of work crosses as bytes, which are let go of once they are read', () => {
  const text = canonicalJson({ id: 'ä', text: '→'.repeat(100) })
  const create = { kind: 'create_item' as const, db: 'fruit', id: 'ä', text, assigned: true }
  const unit = new Array<Operation>(500).fill(create)
  const encoded = encodeUnit(unit)
  assert(typeof encoded !== 'string')
  expect(decodeUnit(encoded)).toEqual(unit)
  expect(encoded.buffer.byteLength).toBe(0)
})
