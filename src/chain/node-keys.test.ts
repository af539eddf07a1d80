import { generateKeyPairSync, sign } from 'node:crypto'
import { expect, it } from 'vitest'
import { webVerifySignature } from './log/checkpoint.ts'
import { nodeVerifySignature, rawPublicKey } from './node-keys.ts'

it('verifies the signatures of many keys', () => {
  const message = Buffer.from('message')
  const pairs = Array.from({ length: 65 }, () => generateKeyPairSync('ed25519'))
  const signed = pairs.map(({ privateKey, publicKey }) => ({
    raw: rawPublicKey(publicKey),
    signature: sign(null, message, privateKey),
  }))
  for (let round = 0; round < 2; round += 1) {
    for (const [at, { raw, signature }] of signed.entries()) {
      expect(nodeVerifySignature(raw, message, signature)).toBe(true)
      const other = signed[(at + 1) % signed.length]?.raw ?? raw
      expect(nodeVerifySignature(other, message, signature)).toBe(false)
    }
  }
})

it('accepts the same Ed25519 signatures with Web Crypto and with Node', async () => {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const raw = rawPublicKey(publicKey)
  const message = Uint8Array.of(1, 2, 3)
  const signature = Uint8Array.from(sign(null, message, privateKey))
  const wrong = signature.with(5, (signature[5] ?? 0) ^ 1)
  for (const one of [signature, wrong, signature.slice(1)]) {
    expect(await webVerifySignature(raw, message, one)).toBe(one === signature)
    expect(await nodeVerifySignature(raw, message, one)).toBe(one === signature)
  }
})
