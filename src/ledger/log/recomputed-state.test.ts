import { expect, it } from 'vitest'
import { type Block, entryText, toHex } from '../../chain/index.ts'
import { erasedEntryText, StateFile } from '../../storage/index.ts'
import { StateRecomputation } from './recomputed-state.ts'
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

function block(height: number, entries: readonly string[]): Block {
  return { height, id: `${height}`, entries, serverId: ID, blinds: [] } as unknown as Block
}

/** Returns the root of the state after each block, one entry in each. */
function rootsAtEachHeight(entries: readonly string[]): string[] {
  const file = StateFile.open(null)
  const follower = new StateFollower(file, ID)
  const roots = entries.map((text, height) => {
    let root = ''
    follower.push(block(height, [text]))
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

it('the state of many items in several databases is the same recomputed as followed', () => {
  const database = (method: string, db: string) =>
    `{"db":"${db}","method":"${method}","serverid":${ID}}`
  const items = (method: 'create_item' | 'update_item', db: string) =>
    Array.from({ length: 3_000 }, (_, n) => entryText.item(method, ID, db, item(`${n}`, n)))
  const blocks = [
    [database('create_db', 'd'), database('create_db', 'e'), ...items('create_item', 'd')],
    [...items('create_item', 'e'), database('delete_db', 'd'), ...items('create_item', 'd')],
    [database('create_db', 'd'), ...items('update_item', 'd').slice(0, 40)],
    [`{"db":"d","id":"7","method":"delete_item","serverid":${ID}}`, database('create_db', 'f')],
  ].map((entries, height) => block(height, entries))
  const file = StateFile.open(null)
  const follower = new StateFollower(file, ID)
  for (const size of [1, 2, 3, 4]) {
    follower.push(blocks[size - 1] as Block)
    follower.commit(() => null)
    // A range of keys has about 12 items of each database.
    for (const itemsMax of [undefined, 5]) {
      const recomputation = new StateRecomputation(ID, size, itemsMax)
      for (const one of blocks) recomputation.push(one)
      expect(toHex(recomputation.end().root)).toBe(toHex(follower.root))
      recomputation.close()
    }
  }
  file.close()
})

it('an item that an entry creates although it exists has no attachments, in any chain', () => {
  const [created = '', first = ''] = ENTRIES
  const attached = attachment('create_attachment', 'a')
  const again = entryText.item('create_item', ID, 'd', item('i', 2))
  const changed = entryText.item('update_item', ID, 'd', item('i', 2))
  const last = (entries: readonly string[]) => rootsAtEachHeight(entries).at(-1)
  const fresh = last([created, attached, attached, again])
  expect(last([created, first, attached, again])).toBe(fresh)
  expect(last([created, first, attached, changed])).not.toBe(fresh)
})
