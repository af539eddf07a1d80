import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { mapRoot, sha256 } from '../../../test/support/map-root.ts'
import { roundsOf } from '../../../test/support/rounds.ts'
import { EMPTY_SUBTREE, mapKey, provenValue, toHex } from '../../chain/index.ts'
import { StateFile } from './state-file.ts'
import { changeMap, proveValue, readValue, type ValueChange } from './stored-map.ts'

const NAMES = Array.from({ length: 200 }, (_, n) => `name ${n}`)
const change = fc.tuple(fc.constantFrom(...NAMES), fc.option(fc.nat(999)))

it('a stored map has the root of its definition after any changes, and proves what every name has, and nothing else', () => {
  fc.assert(
    fc.property(fc.array(fc.array(change, { maxLength: 120 }), { maxLength: 6 }), (batches) => {
      const file = StateFile.open(null)
      const pages = file.pages(1)
      const model = new Map<string, string>()
      let root: Uint8Array = Buffer.alloc(32)
      for (const batch of batches) {
        const changes = new Map<string, ValueChange>()
        for (const [name, value] of batch) {
          const text = value === null ? null : `{"position":"${value}.0"}`
          changes.set(Buffer.from(mapKey(name)).toString('hex'), { apply: () => text })
          if (text === null) model.delete(name)
          else model.set(name, text)
        }
        root = changeMap(pages, root, changes)
        expect(Buffer.from(root)).toEqual(
          mapRoot([...model].map(([name, value]) => [sha256(name), value] as const)),
        )
      }
      for (const name of NAMES.slice(0, 40)) {
        const value = model.get(name) ?? null
        const proof = proveValue(pages, root, name)
        expect(readValue(pages, name)).toBe(value)
        expect(provenValue(mapKey(name), root, proof)).toBe(value)
        const { leaf, path } = proof
        const others = [
          { path, leaf: leaf === null ? { key: mapKey(name), value: 'x' } : null },
          { path: path.slice(1), leaf },
          { path: [...path, Buffer.alloc(32)], leaf },
          ...(leaf === null ? [] : [{ path, leaf: { ...leaf, value: `${leaf.value} ` } }]),
          ...(leaf === null ? [] : [{ path, leaf: { key: mapKey('other'), value: leaf.value } }]),
        ]
        for (const wrong of others) {
          const isSame = wrong.path.length === 0 && path.length === 0 && wrong.leaf === leaf
          expect(isSame ? undefined : provenValue(mapKey(name), root, wrong)).toBeUndefined()
        }
      }
      file.close()
    }),
    { numRuns: roundsOf(40) },
  )
})

it('refuses a page that was changed, lost, moved or replaced by an older one, also where only a change reads it', () => {
  const file = StateFile.open(null)
  const pages = file.pages(1)
  const changes = (n: number) =>
    new Map(NAMES.map((name) => [toHex(mapKey(name)), { apply: () => `{"position":"${n}.0"}` }]))
  const before = changeMap(pages, EMPTY_SUBTREE.hash, changes(1))
  const prefixes = ['', ...'0123456789abcdef']
  const old = prefixes.map((prefix) => Buffer.from(pages.read(prefix) ?? []))
  const root = changeMap(pages, before, changes(2))
  for (const [at, prefix] of prefixes.entries()) {
    const page = Buffer.from(pages.read(prefix) ?? [])
    const flipped = Buffer.from(page)
    flipped[20] = (flipped[20] ?? 0) ^ 1
    const moved = Buffer.from(pages.read(prefix === '3' ? '4' : '3') ?? [])
    for (const wrong of [flipped, old[at], moved, page.subarray(0, 3), null]) {
      if (wrong === null) pages.remove(prefix)
      else pages.write(prefix, wrong ?? page)
      expect(() => changeMap(pages, root, changes(3))).toThrow('state map')
      expect(() => NAMES.map((name) => proveValue(pages, root, name))).toThrow('state map')
      // The failed change has written other pages.
      for (const [n, one] of prefixes.entries()) pages.write(one, old[n] ?? page)
      expect(changeMap(pages, before, changes(2))).toEqual(root)
    }
  }
  file.close()
})

it('gives the roots of the reference page', () => {
  const page = readFileSync('docs/reference/ledger/state.md', 'utf8')
  const table = [...page.matchAll(/^\| `(apple|pear|plum)` \| `([^`]+)` \|$/gm)]
  const items = table.map(([, id = '', value = '']) => [id, value] as const)
  const rootOf = (values: readonly (readonly [string, string])[]) => {
    const file = StateFile.open(null)
    const changes = values.map(
      ([name, value]) => [toHex(mapKey(name)), { apply: () => value }] as const,
    )
    const root = toHex(changeMap(file.pages(1), EMPTY_SUBTREE.hash, new Map(changes)))
    file.close()
    expect(root).toBe(mapRoot(values.map(([name, value]) => [sha256(name), value])).toString('hex'))
    return root
  }
  const database = (at: string, root: string) => `{"items":"${root}","position":"${at}"}`
  const root = rootOf(items)
  const veg = database('4.0', '0'.repeat(64))
  const whole = rootOf([
    ['fruit', database('0.0', root)],
    ['veg', veg],
  ])
  const roots = [root, rootOf(items.slice(0, 1)), whole]
  expect([items.length, roots.map((one) => page.includes(`\`${one}\``))]).toEqual([
    3,
    [true, true, true],
  ])
})
