import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { canonicalJson } from '../base/canonical-json.ts'
import { type Json, parseJson } from '../base/json.ts'
import { plainValue } from '../base/test-plain.ts'
import { sealBlock } from './block.ts'
import { type CutBlock, CutEntry, cutBlocks, type ProvenBlockParts } from './cut-block.ts'
import { provenBlockJson, provenBlockParts } from './proven-block.ts'

const SERVER_ID = 4_126
const RUNS = 500

/** The text of a block with these entries, of which the erased ones have no blind. */
function blockText(entries: readonly string[], erased: readonly number[] = []): string {
  const block = sealBlock(null, {
    serverId: SERVER_ID,
    entries,
    timestamps: entries.map((_, at) => 1_000 + Math.floor(at / 2)),
    blinds: randomBytes(entries.length * 32),
  })
  const blinds = Buffer.from(block.blinds)
  for (const at of erased) blinds.fill(0, at * 32, (at + 1) * 32)
  return provenBlockJson({ ...block, blinds })
}

/** What was cut, with values in the place of entries, each of which is what was cut of it. */
function valuesOf({ parts }: CutBlock): ProvenBlockParts {
  const body = parts.body.map((entry) => {
    if (!(entry instanceof CutEntry)) return entry
    const { text, method, db, id, itemText } = entry
    const value = parseJson(text)
    expect(canonicalJson(value)).toBe(text)
    expect([method, db, id]).toEqual([value.method, value.db, value.item.id])
    expect(canonicalJson(value.item)).toBe(itemText)
    expect(value.serverid).toBe(SERVER_ID)
    return value
  })
  return { ...parts, body }
}

const short = fc.string({ unit: fc.constantFrom(...'aZ09 .é本🍎/id"\\\n'), maxLength: 5 })
const entry = fc
  .record({
    db: fc.constantFrom('fruit', 'a b', 'o"o'),
    method: fc.constantFrom('create_item', 'update_item', 'delete_item', 'create_db'),
    item: fc.dictionary(short, plainValue(short), { maxKeys: 4 }),
    id: short,
    serverid: fc.constantFrom(SERVER_ID, SERVER_ID, SERVER_ID, 7),
  })
  .map(({ item, id, ...rest }): string => {
    const { method, db, serverid } = rest
    if (method === 'create_db') return canonicalJson({ db, method, serverid })
    if (method === 'delete_item') return canonicalJson({ ...rest, id })
    return canonicalJson({ ...rest, item: { ...item, id } })
  })
const blocks = fc.array(fc.array(entry, { minLength: 1, maxLength: 5 }), {
  minLength: 1,
  maxLength: 3,
})

it('gives what parsing gives, of all blocks that a node can write', () => {
  fc.assert(
    fc.property(blocks, (bodies) => {
      const texts = bodies.map((body, at) => blockText(body, at === 1 ? [0] : []))
      const list = `[${texts.join(',')}]`
      const cut = cutBlocks(`xx${list},"limit":0`, 2, SERVER_ID)
      expect(cut?.end).toBe(2 + list.length)
      expect(cut?.blocks.map(valuesOf)).toEqual(texts.map((t) => provenBlockParts(parseJson(t))))
    }),
    { numRuns: RUNS },
  )
})

it('cuts plain creations and changes of items, also beside entries with escapes', () => {
  const entries = [
    '{"db":"fruit","item":{"id":"a","台":"🍎"},"method":"create_item","serverid":4126}',
    '{"db":"fruit","item":{"id":"b","x":"\\n"},"method":"create_item","serverid":4126}',
    '{"db":"fruit","item":{"id":"c","x":[1,{"y":null}]},"method":"update_item","serverid":4126}',
    '{"db":"fruit","id":"a","method":"delete_item","serverid":4126}',
    '{"db":"fruit","item":{"id":"d"},"method":"create_item","serverid":7}',
  ]
  const cut = cutBlocks(`[${blockText(entries)}]`, 0, SERVER_ID)
  const body = cut?.blocks[0]?.parts.body ?? []
  expect(body.map((one) => one instanceof CutEntry)).toEqual([true, false, true, false, false])
})

it('says nothing of a text that is changed in any one place, unless parsing it says the same', () => {
  const changes = [
    ...'"{}[]:,-+.0 19eEaé\\\u0000tfn',
    '',
    '"id":1',
    ',,',
    '00',
    'null',
    '7'.repeat(20),
  ]
  let same = 0
  fc.assert(
    fc.property(blocks, fc.nat(), fc.nat(2), fc.constantFrom(...changes), (bodies, at, cut, by) => {
      const list = `[${bodies.map((body) => blockText(body)).join(',')}]`
      const place = at % list.length
      // Half a surrogate does not come out of UTF-8.
      const text = (list.slice(0, place) + by + list.slice(place + cut)).toWellFormed()
      const found = cutBlocks(text, 0, SERVER_ID)
      if (found === null || found.end !== text.length) return
      same += 1
      const values: Json[] = parseJson(text)
      expect(found.blocks.map(valuesOf)).toEqual(values.map((value) => provenBlockParts(value)))
    }),
    { numRuns: RUNS * 4 },
  )
  expect(same).toBeGreaterThan(0)
})

it.each([
  ['hashes of another length', (text: string) => text.replace(/"blinds":\["(..)/, '"blinds":["')],
  ['upper case', (text: string) => text.replace(/"root":"(..)/, '"root":"AB')],
  ['a member more', (text: string) => text.replace('"nonce":0', '"nonce":0,"x":1')],
  ['a space', (text: string) => text.replace('"nonce":0', '"nonce": 0')],
  [
    'no entry',
    (text: string) => text.replace(/"body":\[.*\],"timestamps/, '"body":[],"timestamps'),
  ],
  ['the end', (text: string) => text.slice(0, -9)],
  ['half an entry', (text: string) => text.slice(0, 40)],
])('leaves a block with %s to the parser', (_what, change) => {
  const text = `[${blockText(['{"db":"fruit","method":"create_db","serverid":4126}'])}]`
  expect(cutBlocks(text, 0, SERVER_ID)).not.toBeNull()
  expect(cutBlocks(change(text), 0, SERVER_ID)).toBeNull()
})
