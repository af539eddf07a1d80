import { generateKeyPairSync, sign } from 'node:crypto'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { nodeSha256 } from '../hashing.ts'
import { nodeCrypto, rawPublicKey } from './node-crypto.ts'
import { portableSha256, webVerifySignature } from './web-crypto.ts'

it('SHA-256 is that of Node, for every length around its blocks and any bytes', () => {
  for (let length = 0; length <= 260; length += 1) {
    const bytes = Uint8Array.from({ length }, (_, at) => (at * 7 + length) % 256)
    expect(portableSha256(bytes), `${length}`).toEqual(Uint8Array.from(nodeSha256(bytes)))
  }
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 2_000 }), (bytes) => {
      expect(portableSha256(bytes)).toEqual(Uint8Array.from(nodeSha256(bytes)))
    }),
  )
})

it('Ed25519 by WebCrypto takes the signatures that Node takes, and no other', async () => {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const raw = rawPublicKey(publicKey)
  const message = Uint8Array.of(1, 2, 3)
  const signature = Uint8Array.from(sign(null, message, privateKey))
  const wrong = signature.with(5, (signature[5] ?? 0) ^ 1)
  for (const one of [signature, wrong, signature.slice(1)]) {
    expect(await webVerifySignature(raw, message, one)).toBe(one === signature)
    expect(await nodeCrypto.verifySignature(raw, message, one)).toBe(one === signature)
  }
})
