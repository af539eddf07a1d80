import fc from 'fast-check'
import { expect, it } from 'vitest'
import { canonicalJson } from '../../base/canonical-json.ts'
import { type PackedUnit, packBatch, packUnit, unpackBatch } from './messages.ts'
import type { Operation } from './unit-of-work.ts'

/** Returns the units as the thread receives them. */
function received(...packed: PackedUnit[]): unknown {
  const transfer = packed.flatMap((unit) => (unit instanceof Uint8Array ? [unit.buffer] : []))
  return unpackBatch(structuredClone(packBatch(packed), { transfer }))
}

it('passes any unit of work to the thread unchanged, with any characters in its names', () => {
  const name = fc.string({ unit: 'grapheme' })
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
      kind: fc.constant('patch_item' as const),
      db: name,
      id: name,
      text,
      currentBytes: fc.nat(),
    }),
    fc.record({ kind: fc.constant('update_item' as const), db: name, id: name, text }),
    fc.record({ kind: fc.constant('delete_item' as const), db: name, id: name }),
    fc.record({ kind: fc.constant('create_attachment' as const), db: name, id: name, text }),
    fc.record({ kind: fc.constant('delete_attachment' as const), db: name, id: name, name }),
    fc.record({
      kind: fc.constant('erase_item' as const),
      db: name,
      of: name,
      positions: fc.option(fc.array(fc.nat())),
    }),
  )
  // The size passed to `packUnit`: 0 for a short unit, 1 MiB for a unit that is packed as bytes.
  const size = fc.constantFrom(0, 1024 * 1024)
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.array(operation, { minLength: 1 }), size), { minLength: 1 }),
      (units) => {
        const packed = units.map(([unit, bytes]) => packUnit(unit, bytes))
        expect(received(...packed)).toEqual(units.map(([unit]) => unit))
      },
    ),
  )
})

it('a newline in a name does not create another change', () => {
  const unit = [{ kind: 'create_db' as const, db: 'a\nX\nb' }]
  for (const bytes of [0, 1024 * 1024]) {
    expect(received(packUnit(unit, bytes))).toEqual([unit])
  }
})

it('transfers a long unit of work as bytes, without a copy', () => {
  const text = canonicalJson({ id: 'ä', text: '→'.repeat(100) })
  const create = { kind: 'create_item' as const, db: 'fruit', id: 'ä', text, assigned: true }
  const unit = new Array<Operation>(500).fill(create)
  const packed = packUnit(unit, 32 * 1024)
  if (!(packed instanceof Uint8Array)) throw new Error('not serialized')
  expect(received(packed)).toEqual([unit])
  expect(packed.buffer.byteLength).toBe(0)
  expect(packUnit(unit, 32 * 1024 - 1)).toBe(unit)
})
