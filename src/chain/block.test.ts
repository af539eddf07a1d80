import { execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { canonicalJson } from '../base/canonical-json.ts'
import type { Json } from '../base/json.ts'
import {
  type Block,
  type BlockFault,
  findErased,
  type Head,
  headerText,
  sealBlock,
  toHead,
  toHeader,
  verifyBlock,
} from './block.ts'
import { blockJson } from './block-json.ts'
import { entryText } from './entry.ts'

const vectors = new URL('../../test/vectors/', import.meta.url)
const read = (name: string) => JSON.parse(readFileSync(new URL(name, vectors), 'utf8'))

interface Case {
  name: string
  serverid: number
  previous: string | null
  entries: Json[]
  timestamps: number[]
  blinds: string[]
  nonce: number
}
const cases: Case[] = read('chain-v1-cases.json')
const expected = read('chain-v1.json')

function seal(of: Case, made: ReadonlyMap<string, Block>): Block {
  const previous = of.previous === null ? undefined : made.get(of.previous)
  const content = {
    serverId: of.serverid,
    entries: of.entries.map((entry) => canonicalJson(entry)),
    timestamps: of.timestamps,
    blinds: Buffer.from(of.blinds.join(''), 'hex'),
  }
  return withNonce(sealBlock(previous === undefined ? null : toHead(previous), content), of.nonce)
}

/** Returns the block with another nonce and the id that belongs to it. A node writes only the nonce 0. */
function withNonce(block: Block, nonce: number): Block {
  const id = createHash('sha512').update(headerText(toHeader({ ...block, nonce })))
  return { ...block, nonce, id: id.digest('hex') }
}

it('seals each stored example of format version 1 to the same bytes as in all earlier releases', () => {
  const made = new Map<string, Block>()
  for (const one of cases) {
    const block = seal(one, made)
    made.set(one.name, block)
    expect(expected[one.name]).toEqual({
      count: one.entries.length,
      height: block.height,
      nonce: block.nonce,
      prev_id: block.prevId,
      root: block.root,
      serverid: one.serverid,
      version: 1,
      header: headerText(toHeader(block)),
      id: block.id,
      commitments: one.blinds.map((_, index) =>
        Buffer.from(block.commitments).toString('hex', index * 32, index * 32 + 32),
      ),
      texts: [...block.entries],
    })
  }
  expect([...made.keys()]).toEqual(Object.keys(expected))
})

it('an independent program computes the same bytes for each example of format version 1', () => {
  const script = fileURLToPath(new URL('independent-chain.mjs', vectors))
  expect(execFileSync(process.execPath, [script, '--check'], { encoding: 'utf8' })).toBe('same\n')
})

const item = fc.record({ id: fc.string({ minLength: 1 }), value: fc.jsonValue() })
const texts = fc.array(
  item.map((one) =>
    entryText.item('create_item', 7, 'db', canonicalJson(one as Json as { id: string })),
  ),
  { minLength: 1, maxLength: 20 },
)

function sealed(entries: string[], head: Head | null = null, timestamp = 5): Block {
  const blinds = randomBytes(32 * entries.length)
  const timestamps = entries.map(() => timestamp)
  return sealBlock(head, { serverId: 7, entries, timestamps, blinds })
}

it('verifies a sealed chain, one block after the other', () => {
  fc.assert(
    fc.property(fc.array(texts, { minLength: 1, maxLength: 6 }), (bodies) => {
      let head: Head | null = null
      for (const body of bodies) {
        const block = sealed(body, head)
        expect(verifyBlock(block, head)).toBeNull()
        head = toHead(block)
      }
    }),
  )
})

it('detects a changed byte anywhere in a block, and reports the index of a changed entry', () => {
  const first = sealed(['{"db":"a","method":"create_db","serverid":7}'])
  const block = sealed(
    [1, 2, 3, 4, 5].map((n) => entryText.item('create_item', 7, 'a', `{"id":"${n}"}`)),
    toHead(first),
  )
  const flip = (bytes: Uint8Array, at: number) =>
    bytes.map((byte, i) => (i === at ? byte ^ 1 : byte))
  const flipText = (text: string, at: number) =>
    text.slice(0, at) + String.fromCharCode(text.charCodeAt(at) ^ 1) + text.slice(at + 1)
  const found = (changed: Partial<Block>) => verifyBlock({ ...block, ...changed }, toHead(first))

  for (const [index, entry] of block.entries.entries()) {
    for (let at = 0; at < entry.length; at += 1) {
      const entries = block.entries.map((text, i) => (i === index ? flipText(text, at) : text))
      expect(found({ entries })).toMatchObject({ height: 1, index })
    }
    const timestamps = block.timestamps.map((time, i) => (i === index ? time + 1 : time))
    expect(found({ timestamps })).not.toBeNull()
  }
  for (let at = 0; at < block.blinds.length; at += 1) {
    const index = Math.floor(at / 32)
    expect(found({ blinds: flip(block.blinds, at) })).toMatchObject({ index })
    expect(found({ commitments: flip(block.commitments, at) })).toMatchObject({ index })
  }
  for (let at = 0; at < 128; at += 1) expect(found({ id: flipText(block.id, at) })).not.toBeNull()
  for (let at = 0; at < 64; at += 1)
    expect(found({ root: flipText(block.root, at) })).not.toBeNull()
  expect(found({ prevId: null })).not.toBeNull()
  expect(found({ nonce: 1 })).not.toBeNull()
  expect(found({ height: 2 })).not.toBeNull()
  expect(found({ serverId: 8 })).not.toBeNull()
  expect(found({ entries: block.entries.slice(1) })).not.toBeNull()
  expect(found({})).toBeNull()
})

it('seals with the nonce 0, and accepts a block with any nonce if its id matches', () => {
  const content = { serverId: 7, entries: ['{}'], timestamps: [1], blinds: Buffer.alloc(32, 9) }
  const block = sealBlock(null, content)
  expect(block.nonce).toBe(0)
  for (const nonce of [0, 1, 311, Number.MAX_SAFE_INTEGER]) {
    expect(verifyBlock(withNonce(block, nonce), null)).toBeNull()
    const other = verifyBlock({ ...withNonce(block, nonce), nonce: nonce - 1 }, null)
    expect(other?.what).toBe('the id does not match the header')
  }
})

it('rejects decreasing timestamps, within a block and from block to block', () => {
  const content = { serverId: 7, entries: ['{}', '{}'], blinds: Buffer.alloc(64) }
  expect(() => sealBlock(null, { ...content, timestamps: [2, 1] })).toThrow()
  const head = toHead(sealBlock(null, { ...content, timestamps: [1, 2] }))
  expect(() => sealBlock(head, { ...content, timestamps: [1, 2] })).toThrow()
  expect(sealBlock(head, { ...content, timestamps: [2, 2] }).height).toBe(1)
})

it('returns a block with exactly the five documented fields', () => {
  const block = sealed(['{"db":"a","method":"create_db","serverid":7}'])
  expect(JSON.parse(blockJson(block))).toEqual({
    prev_id: null,
    body: [{ db: 'a', method: 'create_db', serverid: 7 }],
    timestamps: [5],
    nonce: 0,
    id: block.id,
  })
})

it('limits a block to 1 to 10000 entries', () => {
  const content = (count: number) => ({
    serverId: 7,
    entries: new Array(count).fill('{}'),
    timestamps: new Array(count).fill(1),
    blinds: Buffer.alloc(32 * count, 9),
  })
  const full = sealBlock(null, content(10_000))
  expect(verifyBlock(full, null)).toBeNull()
  for (const count of [0, 10_001]) {
    expect(() => sealBlock(null, content(count))).toThrow()
    const message = `it has ${count} entries`
    expect(verifyBlock({ ...full, ...content(count) }, null)).toEqual({
      code: 'counts',
      height: 0,
      index: null,
      what: message,
    })
  }
})

it('reports the reason why a block is invalid, and the index of the invalid entry', () => {
  const first = sealed(['{}'])
  const block = sealed(['{"n":1}', '{"n":2}', '{"n":3}'], toHead(first))
  const { timestamps, blinds, commitments, id, root } = block
  const faults: [Partial<Block>, BlockFault['code'], string, number | null][] = [
    [{ height: 2 }, 'link', 'a block of height 1 is expected here', null],
    [{ prevId: null }, 'link', 'prev_id is not the id of the previous block', null],
    [
      { timestamps: [5, 5] },
      'counts',
      'the number of timestamps differs from the number of entries',
      null,
    ],
    [{ timestamps: [5, 5, 5.5] }, 'time', 'the timestamp is not an integer', 2],
    [{ timestamps: [4, 5, 5] }, 'time', 'the timestamp is earlier than the previous timestamp', 0],
    [{ timestamps: [5, 6, 5] }, 'time', 'the timestamp is earlier than the previous timestamp', 2],
    [
      { blinds: blinds.subarray(1) },
      'counts',
      'the number of blinds differs from the number of entries',
      null,
    ],
    [
      { commitments: commitments.subarray(1) },
      'counts',
      'the number of commitments differs from the number of entries',
      null,
    ],
    [
      { timestamps: timestamps.with(2, 6) },
      'commitment',
      'the entry, its timestamp, blind and commitment do not match',
      2,
    ],
    [{ root: `${root.slice(0, -1)}x` }, 'root', 'the root does not match the commitments', null],
    [{ id: `${id.slice(0, -1)}x` }, 'id', 'the id does not match the header', null],
  ]
  for (const [changed, code, what, index] of faults) {
    const fault = verifyBlock({ ...block, ...changed }, toHead(first))
    expect(fault).toEqual({ code, height: changed.height ?? 1, index, what })
  }
  expect(verifyBlock(block, null)?.what).toBe('a block of height 0 is expected here')
})

it('treats an entry as erased only if its blind is 32 zero bytes, and then uses the stored commitment', () => {
  const blinds = Buffer.alloc(32 * 4)
  blinds[32 + 31] = 1
  blinds[64] = 1
  blinds[96 + 1] = 1
  expect([...findErased({ blinds })]).toEqual([0])
  expect([...findErased({ blinds: Buffer.alloc(64) })]).toEqual([0, 1])
  expect([...findErased({ blinds: blinds.subarray(32) })]).toEqual([])

  const block = sealed(['{"n":1}', '{"n":2}', '{"n":3}'])
  const gone = {
    ...block,
    entries: block.entries.with(1, '{}'),
    blinds: Buffer.from(block.blinds).fill(0, 32, 64),
  }
  expect([...findErased(gone)]).toEqual([1])
  expect(verifyBlock(gone, null, findErased(gone))).toBeNull()
  expect(verifyBlock(gone, null)).toMatchObject({ index: 1 })
  // The block is invalid if the commitment of an erased entry is changed, because the root no longer matches.
  const changed = Buffer.from(block.commitments).fill(7, 32, 64)
  expect(verifyBlock({ ...gone, commitments: changed }, null, findErased(gone))?.what).toBe(
    'the root does not match the commitments',
  )
  const more = { ...gone, entries: gone.entries.with(2, '{}') }
  expect(verifyBlock(more, null, findErased(gone))).toMatchObject({ index: 2 })
})
