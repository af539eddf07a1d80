import fc from 'fast-check'
import { expect, it } from 'vitest'
import { canonicalJson } from '../../base/canonical-json.ts'
import type { Operation } from '../unit-of-work.ts'
import { decodeBatch, encodeUnit } from './batch-text.ts'

it('carries any units of work to the thread and back unchanged', () => {
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
    fc.property(fc.array(fc.array(operation, { minLength: 1 })), (units) => {
      expect(decodeBatch(units.map(encodeUnit).join(''))).toEqual(units)
    }),
  )
})
