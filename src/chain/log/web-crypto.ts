import { HASH_BYTES } from './hashes.ts'
import type { VerifySignature } from './note.ts'

const BLOCK_BYTES = 64
const ROUNDS = 64

/** The first 32 bits of the fractions of `root` of the first `count` primes (FIPS 180-4, 4.2.2, 5.3.3). */
function fractions(count: number, root: (value: number) => number): Uint32Array {
  const found: number[] = []
  for (let value = 2; found.length < count; value += 1) {
    let isPrime = true
    for (let by = 2; by * by <= value; by += 1) isPrime &&= value % by !== 0
    if (isPrime) found.push(Math.floor((root(value) % 1) * 2 ** 32))
  }
  return Uint32Array.from(found)
}

const CONSTANTS = fractions(ROUNDS, Math.cbrt)
const START = fractions(8, Math.sqrt)

const rotated = (word: number, by: number) => (word >>> by) | (word << (32 - by))

/**
 * SHA-256 at once and everywhere: the one of browsers answers later, and not at all on pages without
 * TLS. Source: FIPS 180-4, section 6.2.
 */
export function portableSha256(bytes: Uint8Array): Uint8Array {
  const length = Math.ceil((bytes.length + 9) / BLOCK_BYTES) * BLOCK_BYTES
  const padded = new Uint8Array(length)
  padded.set(bytes)
  padded[bytes.length] = 0x80
  const view = new DataView(padded.buffer)
  view.setUint32(length - 8, Math.floor(bytes.length / 2 ** 29))
  view.setUint32(length - 4, (bytes.length * 8) % 2 ** 32)
  const state = START.slice()
  const words = new Uint32Array(ROUNDS)
  for (let at = 0; at < length; at += BLOCK_BYTES) {
    for (let word = 0; word < 16; word += 1) words[word] = view.getUint32(at + word * 4)
    compress(state, words)
  }
  const hash = new Uint8Array(HASH_BYTES)
  const out = new DataView(hash.buffer)
  for (const [index, word] of state.entries()) out.setUint32(index * 4, word)
  return hash
}

function compress(state: Uint32Array, words: Uint32Array): void {
  const word = (at: number) => words[at] ?? 0
  for (let at = 16; at < ROUNDS; at += 1) {
    const [early, late] = [word(at - 15), word(at - 2)]
    const small = rotated(early, 7) ^ rotated(early, 18) ^ (early >>> 3)
    const large = rotated(late, 17) ^ rotated(late, 19) ^ (late >>> 10)
    words[at] = word(at - 16) + small + word(at - 7) + large
  }
  let [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = state
  for (let at = 0; at < ROUNDS; at += 1) {
    const sumE = rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)
    const one = (h + sumE + ((e & f) ^ (~e & g)) + (CONSTANTS[at] ?? 0) + word(at)) | 0
    const sumA = rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)
    const two = (sumA + ((a & b) ^ (a & c) ^ (b & c))) | 0
    h = g
    g = f
    f = e
    e = (d + one) | 0
    d = c
    c = b
    b = a
    a = (one + two) | 0
  }
  for (const [index, add] of [a, b, c, d, e, f, g, h].entries()) {
    state[index] = (state[index] ?? 0) + add
  }
}

/** Ed25519 by WebCrypto. Rejects where there is none: old browsers, and pages without TLS. */
export const webVerifySignature: VerifySignature = async (publicKey, message, signature) => {
  const { subtle } = globalThis.crypto
  const key = await subtle.importKey('raw', Uint8Array.from(publicKey), 'Ed25519', false, [
    'verify',
  ])
  return subtle.verify('Ed25519', key, Uint8Array.from(signature), Uint8Array.from(message))
}
