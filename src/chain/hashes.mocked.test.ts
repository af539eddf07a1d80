import { createHash, createHmac, randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { expect, it, vi } from 'vitest'
import * as hashesInNode from './hashes.ts'

vi.resetModules()
vi.stubGlobal('process', undefined)
const hashesInBrowsers = await import('./hashes.ts').finally(() => vi.unstubAllGlobals())

it('uses the portable implementation in browsers', () => {
  expect(hashesInBrowsers.sha256).not.toBe(hashesInNode.sha256)
  expect(String(hashesInBrowsers.sha256)).not.toContain('nodeHash')
})

it.each([
  ['Node', hashesInNode],
  ['browsers', hashesInBrowsers],
])('hashes any bytes in %s', (_, { sha256, sha512Hex }) => {
  const check = (bytes: Uint8Array) => {
    const [expected, id] = [createHash('sha256').update(bytes), createHash('sha512').update(bytes)]
    expect(Uint8Array.from(sha256(bytes))).toEqual(Uint8Array.from(expected.digest()))
    expect(sha512Hex(bytes)).toBe(id.digest('hex'))
  }
  for (let length = 0; length <= 260; length += 1) {
    check(Uint8Array.from({ length }, (__, at) => (at * 7 + length) % 256))
  }
  fc.assert(fc.property(fc.uint8Array({ maxLength: 2_000 }), check))
})

it.each([
  ['Node', hashesInNode],
  ['browsers', hashesInBrowsers],
])('computes HMAC-SHA-256 in %s for messages of any length', (_, { HmacSha256 }) => {
  const lengths = fc.oneof(fc.nat(200), fc.integer({ min: 16_000, max: 17_000 }))
  const hmac = new HmacSha256()
  fc.assert(
    fc.property(lengths, fc.constantFrom('a', 'é', '台', '🍎'), (length, unit) => {
      const key = randomBytes(32)
      const message = unit.repeat(length)
      const expected = createHmac('sha256', key).update(message).digest()
      expect(Buffer.from(hmac.digest(key, message))).toEqual(expected)
    }),
  )
})
