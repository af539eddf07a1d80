import { generateKeyPairSync, sign } from 'node:crypto'
import { expect, it } from 'vitest'
import { KEYS_KEPT, nodeCrypto, rawPublicKey } from './node-crypto.ts'

it('tells whose signature it is, of more keys than are kept, however often they are asked of', () => {
  const message = Buffer.from('message')
  const pairs = Array.from({ length: KEYS_KEPT + 1 }, () => generateKeyPairSync('ed25519'))
  const signed = pairs.map(({ privateKey, publicKey }) => ({
    raw: rawPublicKey(publicKey),
    signature: sign(null, message, privateKey),
  }))
  for (let round = 0; round < 2; round += 1) {
    for (const [at, { raw, signature }] of signed.entries()) {
      expect(nodeCrypto.verifySignature(raw, message, signature)).toBe(true)
      const other = signed[(at + 1) % signed.length]?.raw ?? raw
      expect(nodeCrypto.verifySignature(other, message, signature)).toBe(false)
    }
  }
})
