import { expect, it } from 'vitest'
import { type Block, type Entry, packPosition } from '../../chain/index.ts'
import { entry } from '../contract/test-store.ts'
import { toEffect } from './effect.ts'
import { ErasureCheck } from './erasure.ts'

/** A block in which the entries in `erased` have no blind. */
function blockOf(height: number, entries: readonly string[], erased: readonly number[] = []) {
  const blinds = Buffer.alloc(entries.length * 32, 1)
  for (const index of erased) blinds.fill(0, index * 32, (index + 1) * 32)
  return { height, entries, blinds } as const satisfies Partial<Block>
}

/** Checks a block with `entries` at `height`. */
function gone(check: ErasureCheck, height: number, entries: readonly Entry[]) {
  const effects = entries.map((one, index) => toEffect(one, packPosition(height, index)))
  return check.block(
    sealedLike(
      blockOf(
        height,
        entries.map(() => '{}'),
      ),
    ),
    effects,
  )
}

function sealedLike(block: ReturnType<typeof blockOf>): Block {
  return {
    ...{ serverId: 4_126, id: '', prevId: null, nonce: 0, root: '', timestamps: [] },
    ...{ commitments: Buffer.alloc(0), ...block },
  }
}

const LEFT = '{"db":"fruit","item":{"id":"a"},"method":"update_item","serverid":4126}'

it('requires for each erased entry a later entry that erases the same item', () => {
  const check = new ErasureCheck()
  expect(check.block(sealedLike(blockOf(3, ['{}', LEFT], [1])), [])).toBeNull()
  expect([check.erased, check.end()]).toEqual([
    1,
    '1 entries have no blind, but no entry erases them',
  ])
  const wrong: Entry[] = [
    entry.erase('fruit', 'a', ['3.0']),
    entry.erase('fruit', 'b', ['3.1']),
    entry.erase('veg', 'a', ['3.1']),
  ]
  for (const one of wrong) {
    expect(gone(check, 4, [entry.createDb('x'), one])).toEqual({
      index: 1,
      what: 'the entry erases another entry, which still has its content',
    })
  }
  expect(gone(check, 4, [entry.erase('fruit', 'a', ['3.1'])])).toBeNull()
  expect([check.erased, check.end()]).toEqual([1, null])
  // An entry can be erased only once.
  expect(gone(check, 5, [entry.erase('fruit', 'a', ['3.1'])])).toMatchObject({ index: 0 })
})

it('rejects an erasure if the item in the erased entry still has members besides its id', () => {
  const check = new ErasureCheck()
  const more = LEFT.replace('"id":"a"', '"id":"a","n":1')
  expect(check.block(sealedLike(blockOf(0, [more], [0])), [])).toBeNull()
  expect(gone(check, 1, [entry.erase('fruit', 'a', ['0.0'])])).toMatchObject({ index: 0 })
})
