import { gzipSync } from 'node:zlib'
import { expect, it } from 'vitest'
import { decompressInput } from './compressed-input.ts'

const ZEROS = Buffer.alloc(10_000)
const [ONE, TWO] = [gzipSync('one,'), gzipSync('two')]

async function* pieces(bytes: Uint8Array, length: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += length) yield bytes.subarray(at, at + length)
}

/** Returns the decompressed text, or the error. */
async function decompressed(bytes: Uint8Array, length: number): Promise<string> {
  const parts: Uint8Array[] = []
  const damaged = (error: Error) => new Error(`damaged: ${error.message}`)
  try {
    for await (const part of decompressInput(pieces(bytes, length), damaged)) parts.push(part)
  } catch (error) {
    return String(error)
  }
  return Buffer.concat(parts).toString()
}

it.each([1, 7, 100_000])(
  'decompresses all members of an input that arrives in pieces of %i bytes, and refuses data that would be ignored',
  async (length) => {
    expect(await decompressed(Buffer.concat([ONE, TWO]), length)).toBe('one,two')
    expect(await decompressed(Buffer.concat([ONE, TWO, ZEROS]), length)).toBe('one,two')
    expect(await decompressed(Buffer.concat([ONE, ZEROS, TWO]), length)).toContain('damaged: ')
    expect(await decompressed(Buffer.concat([ONE, ZEROS, Buffer.from('x')]), length)).toContain(
      'damaged: ',
    )
    expect(await decompressed(Buffer.from('plain'), length)).toBe('plain')
  },
)

it('closes an input whose decompression is not read to its end', async () => {
  let isClosed = false
  async function* endless() {
    try {
      yield ONE
      for (;;) yield TWO
    } finally {
      isClosed = true
    }
  }
  for await (const _ of decompressInput(endless(), (error) => error)) break
  await expect.poll(() => isClosed).toBe(true)
})
