import { generateKeyPairSync, sign } from 'node:crypto'
import { expect, it } from 'vitest'
import { fromBase64, toBase64 } from '../../base/base64.ts'
import { nodeVerifySignature, rawPublicKey } from '../node-keys.ts'
import {
  checkpointText,
  openCheckpoint,
  openNote,
  parseCheckpoint,
  parseVerifierKey,
  signedNote,
  verifierKeyText,
} from './checkpoint.ts'

const keyOf = (text: string) => parseVerifierKey(text)
const codeOf = async (work: () => unknown): Promise<string> => {
  try {
    await work()
    return 'taken'
  } catch (error) {
    return (error as { code: string }).code
  }
}

// The example from c2sp.org/signed-note.
const FOO = 'example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k'
const FOO_NOTE = `This is an example message.

— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=
`
// The example from golang.org/x/mod/sumdb/note, with two signatures.
const PETER = 'PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW'
const ENOCH = 'EnochRoot+af0cfe78+ATtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop'
const PETER_TEXT = `If you think cryptography is the answer to your problem,
then you don't know what your problem is.
`
const PETER_LINE =
  '— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n'
const ENOCH_LINE =
  '— EnochRoot rwz+eBzmZa0SO3NbfRGzPCpDckykFXSdeX+MNtCOXm2/5n2tiOHp+vAF1aGrQ5ovTG01oOTGwnWLox33WWd1RvMc+QQ=\n'

it('opens each published example with each of its keys', async () => {
  expect(await openNote(nodeVerifySignature, keyOf(FOO), FOO_NOTE)).toBe(
    'This is an example message.\n',
  )
  const both = `${PETER_TEXT}\n${PETER_LINE}${ENOCH_LINE}`
  expect(await openNote(nodeVerifySignature, keyOf(PETER), both)).toBe(PETER_TEXT)
  expect(await openNote(nodeVerifySignature, keyOf(ENOCH), both)).toBe(PETER_TEXT)
  expect(await codeOf(() => openNote(nodeVerifySignature, keyOf(FOO), both))).toBe('NOTE_UNSIGNED')
  for (const key of [FOO, PETER, ENOCH]) expect(verifierKeyText(keyOf(key))).toBe(key)
})

it('rejects keys that are not Ed25519 verifier keys', async () => {
  const wrong = [
    FOO.replace('530d903a', '530d903b'),
    FOO.replace('530d903a', '530D903A'),
    FOO.replace('example.com/foo', 'example.com/fop'),
    FOO.replace('+Aek', '+Bek'),
    FOO.slice(0, -1),
    `${FOO}\n`,
    ` ${FOO}`,
    'example.com/foo+530d903a+',
    '+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k',
    '',
  ]
  for (const text of wrong) expect(await codeOf(() => keyOf(text))).toBe('NOTE_MALFORMED')
})

it('opens a note signed by the key, even if the note has 16 other signatures', async () => {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const key = { name: 'daicho/7', publicKey: rawPublicKey(publicKey) }
  const own = signedNote(key, 'text\n', (message) => sign(null, message, privateKey))
  expect(await openNote(nodeVerifySignature, key, own)).toBe('text\n')
  const others = Array.from(
    { length: 16 },
    (_, n) => `— witness/${n} ${toBase64(Buffer.alloc(76, n))}\n`,
  )
  expect(await openNote(nodeVerifySignature, key, own + others.join(''))).toBe('text\n')
  // The text of a note ends at the last empty line, so a prefix with an empty line becomes part of the text, and the
  // signature is wrong for this text.
  expect(await codeOf(() => openNote(nodeVerifySignature, key, `x\n\n${own}`))).toBe('NOTE_FORGED')
  const text = 'first\n\n— second QUJDREVGR0g=\n'
  const nested = signedNote(key, text, (message) => sign(null, message, privateKey))
  expect(await openNote(nodeVerifySignature, key, nested)).toBe(text)
})

it('rejects a note in which a byte was flipped, dropped or duplicated', async () => {
  const key = keyOf(FOO)
  const bytes = Buffer.from(FOO_NOTE)
  let tried = 0
  const opened: string[] = []
  const attempt = async (label: string, changed: Buffer) => {
    tried += 1
    const code = await codeOf(() => openNote(nodeVerifySignature, key, changed.toString('utf8')))
    if (code === 'taken') opened.push(label)
    expect(code).toMatch(/^(taken|NOTE_.*)$/)
  }
  for (const [at, byte] of bytes.entries()) {
    for (let bit = 0; bit < 8; bit += 1) {
      const flipped = Buffer.from(bytes)
      flipped[at] = byte ^ (1 << bit)
      await attempt(`flip ${at}.${bit}`, flipped)
    }
    await attempt(`drop ${at}`, Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1)]))
    await attempt(`double ${at}`, Buffer.concat([bytes.subarray(0, at + 1), bytes.subarray(at)]))
  }
  expect(opened).toEqual([])
  expect(tried).toBeGreaterThan(1_400)
})

it.each([
  ['no signature', 'text\n\n'],
  ['no empty line', 'text\n— a QUJDREVGR0g=\n'],
  ['no content', ''],
  ['no newline at the end', FOO_NOTE.slice(0, -1)],
  ['a control character', FOO_NOTE.replace('an', 'a\tn')],
  ['a carriage return', FOO_NOTE.replaceAll('\n', '\r\n')],
  ['a hyphen instead of the dash', FOO_NOTE.replace('—', '-')],
  ['a plus in the name', `${FOO_NOTE}— a+b QUJDREVGR0g=\n`],
  ['base64 without padding', `${FOO_NOTE}— a QUJDREVGR0g\n`],
  ['only a key id', `${FOO_NOTE}— a QUJDRA==\n`],
  ['two spaces', FOO_NOTE.replace('foo U', 'foo  U')],
  ['a line of another kind', `${FOO_NOTE}signed\n`],
])('rejects a note with %s', async (_, note) => {
  expect(await codeOf(() => openNote(nodeVerifySignature, keyOf(FOO), note))).toBe('NOTE_MALFORMED')
})

it('rejects a note with two signatures by the key, even if both are valid', async () => {
  const [, line = ''] = FOO_NOTE.split('\n\n')
  const code = (added: string) =>
    codeOf(() => openNote(nodeVerifySignature, keyOf(FOO), FOO_NOTE + added))
  expect(await code(line)).toBe('NOTE_MALFORMED')
  const wrong = line.replace(/.(?=.{10}\n$)/, (unit) => (unit === 'A' ? 'B' : 'A'))
  expect(await code(wrong)).toBe('NOTE_FORGED')
})

it('opens a note of 65,536 characters, and rejects a longer note', async () => {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const key = { name: 'daicho/7', publicKey: rawPublicKey(publicKey) }
  const noteWith = (text: string) => {
    return signedNote(key, text, (message) => sign(null, message, privateKey))
  }
  const longest = `${'x'.repeat(65_536 - noteWith('\n').length)}\n`
  expect(await openNote(nodeVerifySignature, key, noteWith(longest))).toBe(longest)
  expect(await codeOf(() => openNote(nodeVerifySignature, key, noteWith(`x${longest}`)))).toBe(
    'NOTE_MALFORMED',
  )
})

// The checkpoint in the tests of golang.org/x/mod/sumdb/tlog.
const TREE = 'go.sum database tree\n123456789012\nTszzRgjTG6xce+z2AG31kAXYKBgQVtCSCE40HmuwBb0=\n'

it('reads and writes the checkpoint of the Go package sumdb/tlog', () => {
  const tree = parseCheckpoint(TREE)
  expect(tree).toMatchObject({ origin: 'go.sum database tree', size: 123_456_789_012 })
  expect(checkpointText(tree)).toBe(TREE)
  expect(parseCheckpoint(`${TREE}an extension\n`)).toEqual(tree)
})

it.each([
  ['no hash', 'x\n1\n'],
  ['an empty origin', TREE.slice(20)],
  ['a size with a leading zero', TREE.replace('\n1', '\n01')],
  ['a negative size', TREE.replace('\n1', '\n-1')],
  ['a signed size', TREE.replace('\n1', '\n+1')],
  ['a hexadecimal size', TREE.replace('123456789012', '0xabcdef')],
  ['a size above the safe integers', TREE.replace('123456789012', '9007199254740993')],
  ['a short hash', TREE.replace('TszzRgjT', '')],
  ['a hash that is not base64', TREE.replace('Tszz', 'T*zz')],
  ['an empty line', `${TREE}\n`],
  ['no newline at the end', TREE.slice(0, -1)],
])('rejects a checkpoint with %s', async (_, text) => {
  expect(await codeOf(() => parseCheckpoint(text))).toBe('CHECKPOINT_MALFORMED')
})

it('rejects a checkpoint of another log, even if it is signed with the expected key', async () => {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const key = { name: 'daicho/7', publicKey: rawPublicKey(publicKey) }
  const signed = (origin: string) =>
    signedNote(key, checkpointText({ ...parseCheckpoint(TREE), origin }), (message) =>
      sign(null, message, privateKey),
    )
  expect(await openCheckpoint(nodeVerifySignature, key, signed('daicho/7'))).toMatchObject({
    origin: 'daicho/7',
  })
  expect(await codeOf(() => openCheckpoint(nodeVerifySignature, key, signed('daicho/8')))).toBe(
    'CHECKPOINT_FOREIGN',
  )
})

it('accepts only the canonical base64 text of each value', () => {
  for (let length = 0; length < 70; length += 1) {
    const bytes = Uint8Array.from({ length }, (_, at) => at * 37)
    expect(toBase64(bytes)).toBe(Buffer.from(bytes).toString('base64'))
    expect(fromBase64(toBase64(bytes))).toEqual(bytes)
  }
  const big = new Uint8Array(20_000).fill(255)
  expect(fromBase64(toBase64(big))).toEqual(big)
  for (const wrong of ['QQ', 'QR==', 'QQ==\n', 'QQ= =', 'Q===', '_-==', 'QUJ=']) {
    expect(fromBase64(wrong)).toBeNull()
  }
})
