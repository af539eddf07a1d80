import fc from 'fast-check'
import { expect, it } from 'vitest'
import { decodePortably, encodePortably, fromBase64, toBase64 } from './base64.ts'

it('round-trips bytes, and encodes in browsers like in Node', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => {
      const text = toBase64(bytes)
      expect([text, encodePortably(bytes)]).toEqual(
        Array(2).fill(Buffer.from(bytes).toString('base64')),
      )
      expect([fromBase64(text), decodePortably(text)]).toEqual(
        Array(2).fill(Uint8Array.from(bytes)),
      )
    }),
  )
  expect(fromBase64('')).toEqual(new Uint8Array(0))
})

it('decodes only text that is exactly the output of the encoder', () => {
  const others = ['A', 'AA', 'AAA', 'AA=', 'AAAA=', 'AA==AA==', '=', 'AB==', 'AAB=', 'AA==\n']
  for (const text of [...others, ' AAA', 'A AA', 'AAA ', '-_-_', 'AAA台', 'AAAé', '\u0000AAA']) {
    expect([text, fromBase64(text)]).toEqual([text, null])
    const decoded = decodePortably(text)
    expect(decoded === null || encodePortably(decoded) !== text).toBe(true)
  }
})

it('decodes 32 MiB of base64 text', () => {
  const bytes = Buffer.alloc(24 * 1024 * 1024, 0xfb)
  const text = encodePortably(bytes)
  expect(text.length).toBe(32 * 1024 * 1024)
  expect(toBase64(bytes) === text).toBe(true)
  expect(decodePortably(text)?.length).toBe(bytes.length)
  expect(Buffer.from(fromBase64(text) ?? []).equals(bytes)).toBe(true)
  expect(fromBase64(`${text}A`)).toBeNull()
})
