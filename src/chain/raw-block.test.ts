import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { roundsOf } from '../../test/support/rounds.ts'
import { decodeAuthor } from '../base/author.ts'
import { canonicalJson } from '../base/canonical-json.ts'
import { isJsonObject, type Json, parseJson } from '../base/json.ts'
import { sealBlock } from './block.ts'
import { type BlockParts, parseBlockParts, provenBlockJson } from './block-json.ts'
import { plainValue } from './contract/test-plain.ts'
import { type Authorship, entryText, isReason } from './entry.ts'
import { findItemId, type RawBlock, RawEntry, rawBlocks, rawEntry } from './raw-block.ts'

const SERVER_ID = 4_126
const MANY = { serverId: SERVER_ID, blocksMax: 10 }
const RUNS = roundsOf(500)
const ENTRY_RUNS = roundsOf(2_000)

/** The text of a block with these entries. Erased entries have no blind. */
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

/** Returns the decoded parts of a block, after comparing each raw entry with its decoded value. */
function valuesOf({ body: entries, ...parts }: RawBlock): BlockParts {
  const body = entries.map((entry) => {
    if (!(entry instanceof RawEntry)) return parseJson(entry)
    const { text, method, db, id, itemText } = entry
    const value = parseJson(text)
    expect(canonicalJson(value)).toBe(text)
    expect([method, db, id]).toEqual([value.method, value.db, value.item.id])
    expect(findItemId(text)).toBe(id)
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

it('returns the same result as parsing, for all blocks that a node can write', () => {
  fc.assert(
    fc.property(blocks, (bodies) => {
      const texts = bodies.map((body, at) => blockText(body, at === 1 ? [0] : []))
      const list = `[${texts.join(',')}]`
      const cut = rawBlocks(`xx${list},"limit":0`, 2, MANY)
      expect(cut?.end).toBe(2 + list.length)
      expect(cut?.blocks.map(valuesOf)).toEqual(texts.map((t) => parseBlockParts(parseJson(t))))
    }),
    { numRuns: RUNS },
  )
})

it('returns entries that create or change items as raw entries, and other entries as texts', () => {
  const entries = [
    '{"db":"fruit","item":{"id":"a","台":"🍎"},"method":"create_item","serverid":4126}',
    '{"db":"fruit","item":{"id":"b","x":"\\n"},"method":"create_item","serverid":4126}',
    '{"db":"fruit","item":{"id":"c","x":[1,{"y":null}]},"method":"update_item","serverid":4126}',
    '{"db":"fruit","id":"a","method":"delete_item","serverid":4126}',
    '{"db":"fruit","item":{"id":"d"},"method":"create_item","serverid":7}',
  ]
  const cut = rawBlocks(`[${blockText(entries)}]`, 0, MANY)
  const body = cut?.blocks[0]?.body ?? []
  expect(body.map((one) => one instanceof RawEntry)).toEqual([true, true, true, false, false])
})

it('returns null for a block text in which one byte was changed, unless parsing the text gives the same result', () => {
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
      const position = at % list.length
      // Decoded UTF-8 never contains a lone surrogate.
      const text = (list.slice(0, position) + by + list.slice(position + cut)).toWellFormed()
      const found = rawBlocks(text, 0, MANY)
      if (found === null || found.end !== text.length) return
      const isJson = found.blocks.every(({ body }) => body.every(isJsonOrRaw))
      if (!isJson) return
      same += 1
      const values: Json[] = parseJson(text)
      expect(found.blocks.map(valuesOf)).toEqual(values.map((value) => parseBlockParts(value)))
    }),
    { numRuns: RUNS * 4 },
  )
  expect(same).toBeGreaterThan(0)
})

it.each([
  ['hashes of another length', (text: string) => text.replace(/"blinds":\["(..)/, '"blinds":["')],
  ['an upper-case hash', (text: string) => text.replace(/"blinds":\["(..)/, '"blinds":["AB')],
  ['an extra member', (text: string) => text.replace('"nonce":0', '"nonce":0,"x":1')],
  ['a space', (text: string) => text.replace('"nonce":0', '"nonce": 0')],
  [
    'no entries',
    (text: string) => text.replace(/"body":\[.*\],"timestamps/, '"body":[],"timestamps'),
  ],
  ['a missing end', (text: string) => text.slice(0, -9)],
  ['half an entry', (text: string) => text.slice(0, 40)],
])('returns null for a block with %s', (_what, change) => {
  const text = `[${blockText(['{"db":"fruit","method":"create_db","serverid":4126}'])}]`
  expect(rawBlocks(text, 0, MANY)).not.toBeNull()
  expect(rawBlocks(change(text), 0, MANY)).toBeNull()
})

function isJsonOrRaw(entry: string | RawEntry): boolean {
  try {
    return entry instanceof RawEntry || parseJson(entry) !== undefined
  } catch {
    return false
  }
}

/** The entry that parsing and printing `text` gives, or null if `text` is not canonical. */
function parsedEntry(text: string): Omit<RawEntry, 'text'> | null {
  try {
    const value: Json = parseJson(text)
    if (!isJsonObject(value) || canonicalJson(value) !== text) return null
    const { by, reason, ...plain } = value
    const { db, method, item, serverid } = plain
    if (typeof db !== 'string' || !isJsonObject(item) || typeof item.id !== 'string') return null
    if (method !== 'create_item' && method !== 'update_item') return null
    if (by !== undefined && decodeAuthor(by) === null) return null
    if (reason !== undefined && !isReason(reason)) return null
    return serverid === SERVER_ID && Object.keys(plain).length === 4
      ? { method, db, id: item.id, itemText: canonicalJson(item), plainText: canonicalJson(plain) }
      : null
  } catch {
    return null
  }
}

const entryWith = (itemText: string, made: Authorship = {}) =>
  entryText.item('update_item', SERVER_ID, 'd', itemText, made)
const plainText = fc.string({
  unit: fc.constantFrom(...'aZ09 .é本🍎/id"\\\n\u0001\u007f'),
  maxLength: 6,
})
const plain = plainValue(plainText)
const plainItem = fc
  .tuple(fc.dictionary(plainText, plain, { maxKeys: 6 }), plainText)
  .map(([members, id]) => canonicalJson({ ...members, id }))

const nonEmpty = fc.oneof(
  plainText.filter((text) => text !== ''),
  fc.constantFrom('é'.repeat(128), 'x'.repeat(256)),
)
const authorship: fc.Arbitrary<Authorship> = fc.record(
  { by: fc.record({ sub: nonEmpty, iss: nonEmpty }, { requiredKeys: ['sub'] }), reason: nonEmpty },
  { requiredKeys: [] },
)

it('accepts every entry that creates or changes an item', () => {
  fc.assert(
    fc.property(plainItem, authorship, (itemText, made) => {
      const text = entryWith(itemText, made)
      const entry = rawEntry(text, SERVER_ID)
      expect(entry).toEqual(expect.objectContaining({ text, itemText }))
      expect(entry).toMatchObject(parsedEntry(text) ?? { text: 'is not an entry' })
      expect(findItemId(text)).toBe(entry?.id)
    }),
    { numRuns: ENTRY_RUNS },
  )
})

it('rejects an entry in which one byte was changed, unless parsing the entry gives the same result', () => {
  const changes = [...'"{}[]:,-+.0 19eEaé\\\u0000tfn', '', '"id":1', ',,', '00', 'null']
  fc.assert(
    fc.property(
      plainItem,
      authorship,
      fc.nat(),
      fc.constantFrom(...changes),
      fc.nat(2),
      (item, made, at, put, cut) => {
        const text = entryWith(item, made)
        const place = at % (text.length + 1)
        // Decoded UTF-8 never contains a lone surrogate.
        const changed = (text.slice(0, place) + put + text.slice(place + cut)).toWellFormed()
        const entry = rawEntry(changed, SERVER_ID)
        if (entry !== null) expect(entry).toMatchObject(parsedEntry(changed) ?? { text: 'is none' })
      },
    ),
    { numRuns: 5 * ENTRY_RUNS },
  )
})

it.each([
  ['{"id":"x"}', true],
  ['{"a":{"id":2},"id":"x"}', true],
  ['{"a":-1.5,"b":[],"c":{},"id":"x"}', true],
  ['{"10":1,"2":2,"id":"x"}', true],
  ['{"a":100000000000000000000,"id":"x"}', true],
  ['{"a":"😀","id":"x"}', true],
  ['{"a":"\\n\\u001f\\"\\\\","id":"x"}', true],
  ['{"\\n":1,"!":2,"\\"":3,"id":"x"}', true],
  [`{"a":${'['.repeat(80)}${']'.repeat(80)},"id":"x"}`, true],
  [`{"a":${'['.repeat(81)}${']'.repeat(81)},"id":"x"}`, false],
  // Not items:
  ['{"id":1}', false],
  ['{"ie":"x"}', false],
  ['[{"id":"x"}]', false],
  ['"id"', false],
  ['{"a":{"id":"x"}}', false],
  // Not canonical:
  ['{"a":"\\u000a","id":"x"}', false],
  ['{"a":"\\u001F","id":"x"}', false],
  ['{"a":"\\/","id":"x"}', false],
  ['{"a":"\\u00e9","id":"x"}', false],
  ['{"a":"\u0001","id":"x"}', false],
  ['{"!":1,"\\n":2,"id":"x"}', false],
  ['{"id":"x","id":"x"}', false],
  ['{"id":"x","a":2}', false],
  ['{"2":2,"10":1,"id":"x"}', false],
  ['{"a":-0,"id":"x"}', false],
  ['{"a":01,"id":"x"}', false],
  ['{"a":1.0,"id":"x"}', false],
  ['{"a":1e3,"id":"x"}', false],
  ['{"a":9007199254740993,"id":"x"}', false],
  ['{"a":1e400,"id":"x"}', false],
  ['{"a":1 ,"id":"x"}', false],
  ['{"id":"x" }', false],
  ['{"id":"x"}}', false],
  ['{"id":"x"', false],
  ['{"id":"x",}', false],
  ['{"a":truely,"id":"x"}', false],
  ['{"id":"x}', false],
  ['["id",1]', false],
  ['', false],
])('recognizes whether %j is the canonical text of an item', (itemText, isTaken) => {
  expect(rawEntry(entryWith(itemText), SERVER_ID)?.id).toBe(isTaken ? 'x' : undefined)
})
