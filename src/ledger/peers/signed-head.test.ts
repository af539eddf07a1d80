import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { expect, it } from 'vitest'
import { checkpointText, nodeSha256, rawPublicKey, signedNote } from '../../chain/index.ts'
import { HEADS_KEPT, openedHead } from './signed-head.ts'

const NAME = 'daicho/7'
const pair = () => {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  return { key: { name: NAME, publicKey: rawPublicKey(publicKey) }, privateKey }
}
const headOf = (key: { name: string; publicKey: Uint8Array }, by: KeyObject, size: number) =>
  signedNote(
    nodeSha256,
    key,
    checkpointText({ origin: NAME, size, root: new Uint8Array(32) }),
    (message) => sign(null, message, by),
  )

it('a note that was opened once opens nothing for another key, and no other note for its own', async () => {
  const [one, other] = [pair(), pair()]
  const note = headOf(one.key, one.privateKey, 3)
  expect(await openedHead(one.key, note)).toEqual(await openedHead(one.key, note))
  expect(await openedHead(one.key, note)).toMatchObject({ origin: NAME, size: 3, note })
  await expect(openedHead(other.key, note)).rejects.toMatchObject({ code: 'NOTE_UNSIGNED' })
  const forged = note.replace('\n3\n', '\n4\n')
  for (let n = 0; n < 2; n += 1) {
    await expect(openedHead(one.key, forged)).rejects.toMatchObject({ code: 'NOTE_FORGED' })
  }
})

it(`no more than ${HEADS_KEPT} notes are remembered`, async () => {
  const { key, privateKey } = pair()
  const note = headOf(key, privateKey, 0)
  const head = await openedHead(key, note)
  for (let size = 1; size <= HEADS_KEPT; size += 1) {
    await openedHead(key, headOf(key, privateKey, size))
  }
  expect(await openedHead(key, note)).not.toBe(head)
  expect(await openedHead(key, note)).toBe(await openedHead(key, note))
})
