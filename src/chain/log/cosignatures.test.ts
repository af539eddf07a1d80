import { createPrivateKey, createPublicKey, generateKeyPairSync, hash, sign } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { nodeVerifySignature, rawPublicKey } from '../node-keys.ts'
import { checkpointText, signedNote, verifierKeyText, webVerifySignature } from './checkpoint.ts'
import {
  cosignatureBy,
  cosignatureLine,
  openCosigned,
  parsePolicy,
  parseWitnessKey,
  quorumPolicy,
  requireQuorum,
  witnessKeyText,
} from './cosignatures.ts'

const TEXT = `daicho/7\n3\n${Buffer.alloc(32, 5).toString('base64')}\n`
const TIMESTAMP = 1_800_000_000
const EMPTY_ROOT = Buffer.from(hash('sha256', '', 'hex'), 'hex')

/** Creates a key from a seed of one repeated byte, so that all texts in this file are constant. */
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

// filippo.io/torchwood (Go) accepts these values: test/foreign/.
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

it('opens a checkpoint only if its cosignatures reach the quorum of the policy', async () => {
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
  const policy = parsePolicy(
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
  ['', 'the policy has no quorum line'],
  [
    'quorum x',
    'line 1 of the policy: the quorum must be none, or a witness or group that an earlier line defines',
  ],
  ['quorum none\nquorum none', 'line 2 of the policy: the policy has two quorum lines'],
  ['member x', 'line 1 of the policy: unknown keyword member'],
  ['x'.repeat(1_000), `line 1 of the policy: unknown keyword ${'x'.repeat(184)}`],
  [`log ${a.vkey}`, 'line 1 of the policy: a log has an Ed25519 verifier key, and may have a URL'],
  [
    `witness a ${verifierKeyText(a.key)}`,
    'line 1 of the policy: a witness has a name and a cosignature key (type 4 or 6), and may have a URL',
  ],
  [
    `witness a ${a.vkey}\nwitness b ${a.vkey}`,
    'line 2 of the policy: two witnesses have the same key',
  ],
  [`witness a ${a.vkey}\nwitness a ${b.vkey}`, 'line 2 of the policy: a is defined twice'],
  [
    `witness none ${a.vkey}`,
    'line 1 of the policy: the name is missing, or is the reserved word none',
  ],
  [`witness a ${a.vkey}\ngroup g 2 a a`, 'line 2 of the policy: a member is named twice'],
  [
    `witness a ${a.vkey}\ngroup g 2 a`,
    'line 2 of the policy: a group has any, all or a number of its members',
  ],
  ['group g any', 'line 1 of the policy: a group has any, all or a number of its members'],
  ['group g any x', 'line 1 of the policy: no earlier line defines x'],
  ['#'.repeat(262_145), 'the policy is too long'],
])('rejects the policy %j', (text, message) => {
  expect(() => parsePolicy(text)).toThrow(message)
})

it('rejects keys of another type, and a quorum that the witnesses cannot reach', () => {
  expect(parseWitnessKey(a.vkey)).toEqual(a.key)
  expect(() => parseWitnessKey(verifierKeyText(a.key))).toThrow('not the key of a witness')
  expect(() => quorumPolicy([a.vkey], 2)).toThrow('a group has any, all or a number')
  expect(() => quorumPolicy([], 0)).toThrow('a group has any, all or a number')
})

it('rejects a cosignature time that no JavaScript date can represent', async () => {
  for (const [timestamp, code] of [
    [8_640_000_000_000, 'taken'],
    [8_640_000_000_001, 'NOTE_FORGED'],
  ] as const) {
    const line = cosignatureLine(a.key, { text: TEXT, timestamp }, a.signWith)
    const found = cosignatureBy(nodeVerifySignature, a.key, note + line)
    if (code === 'taken') expect(await found).toMatchObject({ timestamp })
    else await expect(found).rejects.toMatchObject({ code })
  }
})

const hasMlDsa = createsMlDsaKeys()
function createsMlDsaKeys(): boolean {
  try {
    return generateKeyPairSync('ml-dsa-44').publicKey.asymmetricKeyType === 'ml-dsa-44'
  } catch {
    return false
  }
}

// Key and cosignature of `TEXT` by filippo.io/torchwood (Go): test/foreign/ml-dsa.ts.
const VECTOR = new URL('../../../test/vectors/ml-dsa-cosignature.txt', import.meta.url)
const [mlDsaKey = '', mlDsaLine = ''] = readFileSync(VECTOR, 'utf8').split('\n')

it.skipIf(!hasMlDsa)('counts an ML-DSA-44 cosignature made by another program', async () => {
  const key = parseWitnessKey(mlDsaKey)
  expect(witnessKeyText(key)).toBe(mlDsaKey)
  const line = `${mlDsaLine}\n`
  const policy = quorumPolicy([mlDsaKey, a.vkey])
  const cosigned = note + line + a.cosign()
  for (const verify of [nodeVerifySignature, webVerifySignature]) {
    const { cosignatures } = await openCosigned(verify, { key: log.key, policy }, cosigned)
    expect(cosignatures).toMatchObject([{ key, line }, { key: a.key }])
    await expect(
      openCosigned(verify, { key: log.key, policy }, note + a.cosign()),
    ).rejects.toMatchObject({ code: 'QUORUM_MISSED' })
  }
  const bytes = Buffer.from(line.split(' ')[2] ?? '', 'base64')
  // Offsets of the key id, of the time, and of bytes of the signature.
  for (const at of [4, 11, 12, 100, 1_000, bytes.length - 1]) {
    const changed = Buffer.from(bytes)
    changed[at] = (changed[at] ?? 0) ^ 1
    const forged = note + line.replace(/\S+\n$/, `${changed.toString('base64')}\n`)
    await expect(cosignatureBy(nodeVerifySignature, key, forged)).rejects.toMatchObject({
      code: 'NOTE_FORGED',
    })
  }
})

it.skipIf(!hasMlDsa)(
  'rejects ML-DSA-44 cosignatures whose message would not contain the whole text',
  async () => {
    const { publicKey, privateKey } = generateKeyPairSync('ml-dsa-44')
    const raw = publicKey.export({ format: 'der', type: 'spki' }).subarray(-1_312)
    const key = { name: 'w.example/m', publicKey: Uint8Array.from(raw) }
    const signWith = (message: Uint8Array) => sign(null, message, privateKey)
    const cosign = (text: string, name = key.name) =>
      cosignatureLine({ ...key, name }, { text, timestamp: TIMESTAMP }, signWith)
    const longName = 'x'.repeat(256)
    for (const [text, name] of [
      [`${TEXT}extension\n`, key.name],
      [TEXT.replace('\n3\n', '\n0\n'), key.name],
      [TEXT.replace('daicho/7', longName), key.name],
      [TEXT, longName],
    ] as const) {
      expect(() => cosign(text, name)).toThrow('cannot cosign this checkpoint')
      // The note has a cosignature that was made for another text.
      const line = cosign(TEXT).replace(' w.example/m ', ` ${name} `)
      const found = cosignatureBy(nodeVerifySignature, { ...key, name }, `${text}\n${line}`)
      expect(await found.catch(({ code }) => code)).toSatisfy((result) => {
        return result === 'NOTE_FORGED' || result === null
      })
    }
    const empty = checkpointText({ origin: 'daicho/7', size: 0, root: EMPTY_ROOT })
    expect(
      await cosignatureBy(nodeVerifySignature, key, `${empty}\n${cosign(empty)}`),
    ).not.toBeNull()
  },
)
