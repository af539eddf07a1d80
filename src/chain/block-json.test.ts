import { randomBytes } from 'node:crypto'
import { expect, it } from 'vitest'
import type { JsonObject } from '../base/json.ts'
import { type Block, sealBlock } from './block.ts'
import { parseBlockParts, provenBlockJson } from './block-json.ts'

const SERVER_ID = 4_126

function block(entries: number): Block {
  return sealBlock(null, {
    serverId: SERVER_ID,
    entries: Array.from(
      { length: entries },
      (_, n) =>
        `{"db":"fruit","item":{"id":"${n}","台":"🍎\\n"},"method":"create_item","serverid":${SERVER_ID}}`,
    ),
    timestamps: Array.from({ length: entries }, (_, n) => 1_000 + n),
    blinds: randomBytes(entries * 32),
  })
}

it.each([1, 2, 7])('splits the JSON of a block with %i entries into its parts', (entries) => {
  const { serverId, entries: texts, ...sealed } = block(entries)
  const parts = parseBlockParts(
    JSON.parse(provenBlockJson({ serverId, entries: texts, ...sealed })),
  )
  expect(parts).toEqual({
    ...sealed,
    blinds: Uint8Array.from(sealed.blinds),
    body: texts.map((text) => JSON.parse(text)),
  })
})

it('decodes a null blind as an erased entry', () => {
  const erased = { ...block(2), blinds: Buffer.concat([Buffer.alloc(32), Buffer.alloc(32, 7)]) }
  const text = provenBlockJson(erased)
  expect(text).toContain(`"blinds":[null,"${'07'.repeat(32)}"]`)
  expect(parseBlockParts(JSON.parse(text))).toMatchObject({
    blinds: Uint8Array.from(erased.blinds),
  })
})

it.each<[string, (value: JsonObject) => void]>([
  ['prev_id is neither an id nor null', (value) => Object.assign(value, { prev_id: 1 })],
  ['prev_id is neither an id nor null', (value) => delete value.prev_id],
  ['body is not a list', (value) => Object.assign(value, { body: {} })],
  ['timestamps is not a list of integers', (value) => Object.assign(value, { timestamps: [1.5] })],
  ['timestamps is not a list of integers', (value) => delete value.timestamps],
  ['nonce is not an integer', (value) => Object.assign(value, { nonce: -1 })],
  ['nonce is not an integer', (value) => Object.assign(value, { nonce: 0.5 })],
  ['nonce is not an integer', (value) => Object.assign(value, { nonce: '0' })],
  ['id is not a string', (value) => Object.assign(value, { id: null })],
  ['there is no proof', (value) => delete value.proof],
  ['proof.height is not an integer', (value) => Object.assign(proof(value), { height: '0' })],
  ['proof.height is not an integer', (value) => Object.assign(proof(value), { height: 0.5 })],
  ['proof.root is not a string', (value) => Object.assign(proof(value), { root: 0 })],
  ['proof.blinds is not a list', (value) => delete proof(value).blinds],
  [
    'proof.blinds[0] is not 64 lowercase hex digits',
    (value) => Object.assign(proof(value), { blinds: ['A'.repeat(64)] }),
  ],
  [
    'proof.commitments[0] is not 64 lowercase hex digits',
    (value) => Object.assign(proof(value), { commitments: [null] }),
  ],
  [
    'proof.commitments[0] is not 64 lowercase hex digits',
    (value) => Object.assign(proof(value), { commitments: ['a'.repeat(66)] }),
  ],
])('reports that %s', (what, change) => {
  const value: JsonObject = JSON.parse(provenBlockJson(block(1)))
  change(value)
  expect(parseBlockParts(value)).toBe(what)
  expect(parseBlockParts([])).toBe('it is not an object')
})

function proof(value: JsonObject): JsonObject {
  return value.proof as JsonObject
}
