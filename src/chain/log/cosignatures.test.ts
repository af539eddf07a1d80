import { createPrivateKey, createPublicKey, sign } from 'node:crypto'
import { expect, it } from 'vitest'
import { nodeVerifySignature, rawPublicKey } from '../node-keys.ts'
import { signedNote, verifierKeyText } from './checkpoint.ts'
import {
  cosignatureBy,
  cosignatureLine,
  openCosigned,
  policyOf,
  quorumPolicy,
  requireQuorum,
  witnessKeyOf,
  witnessKeyText,
} from './cosignatures.ts'

const TEXT = `daicho/7\n3\n${Buffer.alloc(32, 5).toString('base64')}\n`
const TIMESTAMP = 1_800_000_000

/** A key from a seed of one repeated byte, so that all texts in this file are fixed. */
function signer(name: string, seed: number) {
  const pkcs8 = Buffer.from(`302e020100300506032b657004220420${'00'.repeat(32)}`, 'hex')
  const privateKey = createPrivateKey({
    key: Buffer.concat([pkcs8.subarray(0, 16), Buffer.alloc(32, seed)]),
    format: 'der',
    type: 'pkcs8',
  })
  const key = { name, publicKey: Uint8Array.from(rawPublicKey(createPublicKey(privateKey))) }
  const signWith = (message: Uint8Array) => sign(null, message, privateKey)
  const cosign = (text = TEXT) => cosignatureLine(key, { text, timestamp: TIMESTAMP }, signWith)
  return { key, vkey: witnessKeyText(key), signWith, cosign }
}

const log = signer('daicho/7', 1)
const [a, b, c] = [signer('w.example/a', 2), signer('w.example/b', 3), signer('w.example/c', 4)]
const note = signedNote(log.key, TEXT, log.signWith)

// Values that filippo.io/torchwood (Go) accepts: test/foreign/.
it('writes keys and cosignatures of witnesses in the C2SP form, byte for byte', () => {
  expect(a.vkey).toBe('w.example/a+6aa9e1b7+BIE5dw6ofRdfVqNUZsNMfszLjYqRtO43ol32D1uPybOU')
  expect(a.cosign()).toBe(
    '— w.example/a aqnhtwAAAABrSdIACbbnGGNLO8y9l+EnWOPo3JuQ/BsaNS2GI7vVzW2RwXUwk3A5WjCcCrP03wxo5bvLrfrkv6CFDYy9Ih2cgUh/Cg==\n',
  )
})

it('finds the cosignature of a witness, and rejects a changed cosignature', async () => {
  const cosigned = note + b.cosign() + a.cosign()
  const found = await cosignatureBy(nodeVerifySignature, a.key, cosigned)
  expect(found).toEqual({ key: a.key, timestamp: TIMESTAMP, line: a.cosign() })
  expect(await cosignatureBy(nodeVerifySignature, c.key, cosigned)).toBeNull()
  expect(await cosignatureBy(nodeVerifySignature, { ...a.key, name: 'other' }, cosigned)).toBeNull()
  const wrong = note + a.cosign(TEXT.replace('\n3\n', '\n4\n'))
  await expect(cosignatureBy(nodeVerifySignature, a.key, wrong)).rejects.toMatchObject({
    code: 'NOTE_FORGED',
    message: 'the cosignature of the witness w.example/a is wrong',
  })
  const bytes = Buffer.from(a.cosign().split(' ')[2] ?? '', 'base64')
  for (const length of [5, 12, 13, bytes.length - 1]) {
    const line = `— w.example/a ${bytes.subarray(0, length).toString('base64')}\n`
    await expect(cosignatureBy(nodeVerifySignature, a.key, note + line)).rejects.toMatchObject({
      code: 'NOTE_FORGED',
    })
  }
})

it('opens a checkpoint only with the quorum of the policy', async () => {
  const rules = { key: log.key, policy: quorumPolicy([a.vkey, b.vkey], 1) }
  const open = (text: string, policy = rules.policy) =>
    openCosigned(nodeVerifySignature, { ...rules, policy }, text)
  expect(await open(note + b.cosign())).toMatchObject({
    size: 3,
    cosignatures: [{ timestamp: TIMESTAMP }],
  })
  await expect(open(note + c.cosign())).rejects.toMatchObject({
    code: 'QUORUM_MISSED',
    message: 'the checkpoint lacks the quorum of witnesses: 0 of 2 have cosigned it',
  })
  await expect(open(note + b.cosign(), quorumPolicy([a.vkey, b.vkey]))).rejects.toMatchObject({
    message: 'the checkpoint lacks the quorum of witnesses: 1 of 2 have cosigned it (w.example/b)',
  })
  // Without a policy, cosignatures are ignored.
  const plain = await openCosigned(nodeVerifySignature, { key: log.key }, note + c.cosign())
  expect(plain.cosignatures).toEqual([])
})

it.each([
  ['none', ['', 'a', 'abc'], []],
  ['a', ['a', 'ab'], ['', 'b']],
  ['g', ['ab', 'ac', 'bc', 'abc'], ['', 'a', 'c']],
  ['both', ['abc', 'ac', 'bc'], ['ab', 'c', '']],
] as const)('evaluates a policy with the quorum %s', async (quorum, met, missed) => {
  const policy = policyOf(
    [
      '# the witnesses',
      `log ${verifierKeyText(log.key)} https://log.example`,
      `witness a ${a.vkey}`,
      `witness b ${b.vkey} https://b.example # a comment`,
      `witness\tc ${c.vkey}`,
      '',
      'group ab any a b',
      'group g 2 a b c',
      'group both all ab c',
      `quorum ${quorum}`,
    ].join('\n'),
  )
  expect(policy.logs).toEqual([log.key])
  const of = (letters: string) =>
    note + [...letters].map((name) => ({ a, b, c })[name]?.cosign()).join('')
  for (const letters of met) await requireQuorum(nodeVerifySignature, policy, of(letters))
  for (const letters of missed) {
    await expect(requireQuorum(nodeVerifySignature, policy, of(letters))).rejects.toMatchObject({
      code: 'QUORUM_MISSED',
    })
  }
})

it.each([
  ['', 'the policy has no line with a quorum'],
  [
    'quorum x',
    'line 1 of the policy: a quorum is a witness or group that is defined before it, or none',
  ],
  ['quorum none\nquorum none', 'line 2 of the policy: there is a quorum already'],
  ['member x', 'line 1 of the policy: there is no keyword member'],
  [`log ${a.vkey}`, 'line 1 of the policy: a log has an Ed25519 verifier key, and may have a URL'],
  [
    `witness a ${verifierKeyText(a.key)}`,
    'line 1 of the policy: a witness has a name and an Ed25519 cosignature key (type 4), and may have a URL',
  ],
  [
    `witness a ${a.vkey}\nwitness b ${a.vkey}`,
    'line 2 of the policy: two witnesses have the same key',
  ],
  [`witness a ${a.vkey}\nwitness a ${b.vkey}`, 'line 2 of the policy: a is defined twice'],
  [`witness none ${a.vkey}`, 'line 1 of the policy: the name is missing, or none'],
  [`witness a ${a.vkey}\ngroup g 2 a a`, 'line 2 of the policy: a member is named twice'],
  [
    `witness a ${a.vkey}\ngroup g 2 a`,
    'line 2 of the policy: a group has any, all or a number of its members',
  ],
  ['group g any', 'line 1 of the policy: a group has any, all or a number of its members'],
  ['group g any x', 'line 1 of the policy: x is not defined before it'],
  ['#'.repeat(65_537), 'the policy is too long'],
])('rejects the policy %j', (text, message) => {
  expect(() => policyOf(text)).toThrow(message)
})

it('rejects keys of another type, and a quorum that the witnesses cannot reach', () => {
  expect(witnessKeyOf(a.vkey)).toEqual(a.key)
  expect(() => witnessKeyOf(verifierKeyText(a.key))).toThrow('not the Ed25519 key of a witness')
  expect(() => quorumPolicy([a.vkey], 2)).toThrow('a group has any, all or a number')
  expect(() => quorumPolicy([], 0)).toThrow('a group has any, all or a number')
})
