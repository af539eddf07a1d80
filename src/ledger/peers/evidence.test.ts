import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { temporaryFolder } from '../../../test/support/ledger-node.ts'
import { checkpointText, rawPublicKey, signedNote } from '../../chain/index.ts'
import { CHECKPOINTS_MAX, CheckpointVerifier, readEvidence, storeEvidence } from './evidence.ts'

const NAME = 'daicho/7'
const pair = () => {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  return { key: { name: NAME, publicKey: rawPublicKey(publicKey) }, privateKey }
}
const headOf = (key: { name: string; publicKey: Uint8Array }, by: KeyObject, size: number) =>
  signedNote(key, checkpointText({ origin: NAME, size, root: new Uint8Array(32) }), (message) =>
    sign(null, message, by),
  )

it('accepts a note only for the key that signed it', async () => {
  const [one, other] = [pair(), pair()]
  const note = headOf(one.key, one.privateKey, 3)
  const verifier = new CheckpointVerifier(one.key)
  expect(await verifier.open(note)).toEqual(await verifier.open(note))
  expect(await verifier.open(note)).toMatchObject({ origin: NAME, size: 3, note })
  await expect(new CheckpointVerifier(other.key).open(note)).rejects.toMatchObject({
    code: 'NOTE_UNSIGNED',
  })
  const forged = note.replace('\n3\n', '\n4\n')
  for (let n = 0; n < 2; n += 1) {
    await expect(verifier.open(forged)).rejects.toMatchObject({ code: 'NOTE_FORGED' })
  }
})

it(`remembers at most ${CHECKPOINTS_MAX} notes`, async () => {
  const { key, privateKey } = pair()
  const note = headOf(key, privateKey, 0)
  const verifier = new CheckpointVerifier(key)
  const head = await verifier.open(note)
  for (let size = 1; size <= CHECKPOINTS_MAX; size += 1) {
    await verifier.open(headOf(key, privateKey, size))
  }
  expect(await verifier.open(note)).not.toBe(head)
  expect(await verifier.open(note)).toBe(await verifier.open(note))
})

it('does not replace stored evidence', () => {
  const folder = temporaryFolder()
  expect(readEvidence(folder)).toBeNull()
  const notes: [string, string] = ['one', 'other']
  const old = { what: 'two roots', notes, proof: null }
  storeEvidence(folder, old)
  expect(readEvidence(folder)).toEqual(old)
  storeEvidence(folder, { ...old, what: 'later' })
  expect(readEvidence(folder)).toEqual(old)
})

it('treats an unreadable evidence file as evidence', () => {
  const folder = temporaryFolder()
  for (const content of ['', '{"what":"no notes"}', '{"format":"daicho-evidence","version":2}']) {
    writeFileSync(join(folder, 'evidence.json'), content)
    expect(readEvidence(folder)).toMatchObject({
      what: expect.stringContaining('cannot be read'),
      notes: ['', ''],
    })
  }
})
