import { expect, it } from 'vitest'
import { type Block, entryText, toHex } from '../../chain/index.ts'
import { erasedEntryText, StateFile } from '../../storage/index.ts'
import { StateFollower } from './state-follower.ts'

const ID = 7
const item = (id: string, n: number) => `{"id":"${id}","n":${n}}`
const attachment = (method: 'create_attachment' | 'delete_attachment', name: string) =>
  entryText.attachment(
    method,
    ID,
    { db: 'd', id: 'i' },
    { content_type: 'text/plain', length: 1, name, sha256: '0'.repeat(64) },
  )
const ENTRIES = [
  `{"db":"d","method":"create_db","serverid":${ID}}`,
  entryText.item('create_item', ID, 'd', item('i', 1)),
  attachment('create_attachment', 'a'),
  attachment('create_attachment', 'a'),
  attachment('create_attachment', 'b'),
  attachment('delete_attachment', 'a'),
  entryText.item('update_item', ID, 'd', item('i', 2)),
  attachment('delete_attachment', 'b'),
  `{"db":"d","id":"i","method":"delete_item","serverid":${ID}}`,
  entryText.item('create_item', ID, 'd', item('i', 3)),
]

/** Returns the root of the state after each block, one entry in each. */
function rootsAtEachHeight(entries: readonly string[]): string[] {
  const file = StateFile.open(null)
  const follower = new StateFollower(file, ID)
  const roots = entries.map((text, height) => {
    let root = ''
    follower.push({ height, id: `${height}`, entries: [text], serverId: ID } as unknown as Block)
    follower.commit((computed) => {
      root = toHex(computed)
      return null
    })
    return root
  })
  file.close()
  return roots
}

it('a recomputed state has the same root at every height, whether the entries are read before or after they were erased', () => {
  const erased = ENTRIES.map((text) => erasedEntryText(text, 'd', 'i') ?? text)
  expect(erased.filter((text, at) => text !== ENTRIES[at])).toHaveLength(8)
  const roots = rootsAtEachHeight(ENTRIES)
  // After the deletion of the item, the state is the one after the creation of the database.
  expect(new Set(roots).size).toBe(ENTRIES.length - 1)
  expect(rootsAtEachHeight(erased)).toEqual(roots)
})
