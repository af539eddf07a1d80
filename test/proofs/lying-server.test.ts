// The verifying client with a server that lies. The client detects every lie, and accepts honest replies.
import { copyFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import {
  type Checkpoint,
  nodeVerifySignature,
  type ProofErrorCode,
  parseVerifierKey,
} from '../../src/chain/index.ts'
import { type Fetch, VerifyingReader } from '../../src/chain/portable.ts'
import { type LedgerNode, startLedgerNode, temporaryFolder } from '../support/ledger-node.ts'

const asking =
  (node: LedgerNode): Fetch =>
  async (path) => {
    const { status, text } = await node.send('GET', path)
    return { status, text }
  }

async function keyOf(node: LedgerNode) {
  const { text } = await node.send('GET', `/api/ledgers/${node.service.serverId}/vkey`)
  return parseVerifierKey(text.trim())
}

/** Starts nodes with the same key and different folders, as an attacker with a copy of the key could. */
async function sameKeyNodes(count: number): Promise<LedgerNode[]> {
  const first = temporaryFolder()
  const nodes = [await startLedgerNode({ folder: first })]
  for (let n = 1; n < count; n += 1) {
    const folder = join(temporaryFolder(), 'data')
    mkdirSync(folder)
    copyFileSync(join(first, 'node.key'), join(folder, 'node.key'))
    nodes.push(await startLedgerNode({ folder }))
  }
  return nodes
}

async function record(node: LedgerNode, items: readonly object[]): Promise<void> {
  await node.send('POST', '/api/fruit')
  for (const item of items) expect((await node.send('POST', '/api/fruit', item)).status).toBe(200)
}

const plum = (price: number) => ({ id: 'plum', price })
const filler = (n: number) => ({ id: `filler-${n}` })
const fillers = (count: number) => Array.from({ length: count }, (_, n) => filler(n))

/** Returns a client that has verified `node`. The test then replaces `fetch`, so that another server replies. */
async function readerOf(node: LedgerNode, checkpoint: Checkpoint | null = null, current = false) {
  const options = { fetch: asking(node) }
  const key = await keyOf(node)
  const reader = new VerifyingReader({
    verifySignature: nodeVerifySignature,
    key,
    fetch: (path) => options.fetch(path),
    checkpoint,
    current,
  })
  return { reader, options }
}

const codeOf = async (work: Promise<unknown>): Promise<ProofErrorCode | 'believed'> =>
  work.then(
    () => 'believed',
    (error: { code: ProofErrorCode }) => error.code,
  )

it('accepts an honest server while the log grows, and keeps its newest head', async () => {
  const [node] = await sameKeyNodes(1)
  if (node === undefined) throw new Error('no node')
  await record(node, [plum(1), ...fillers(5)])
  const { reader } = await readerOf(node)
  expect((await reader.readItem('fruit', 'plum'))?.item).toEqual(plum(1))
  expect(await reader.readItem('fruit', 'none')).toBeNull()
  for (let price = 2; price < 8; price += 1) {
    await node.send('POST', '/api/fruit/plum', plum(price))
    expect((await reader.readItem('fruit', 'plum'))?.item).toEqual(plum(price))
  }
  expect(await Promise.all([reader.readItem('fruit', 'plum'), reader.refresh()])).toHaveLength(2)
  expect(reader.checkpoint?.size).toBe(13)
  const next = await readerOf(node, reader.checkpoint)
  expect((await next.reader.readItem('fruit', 'plum'))?.item).toEqual(plum(7))
  await node.send('DELETE', '/api/fruit/plum')
  expect(await reader.readItem('fruit', 'plum')).toBeNull()
  await node.close()
})

/** Returns the proof file with `change` applied to the decoded content of its line `extra`. */
const withExtra = (file: string, change: (extra: string) => string) =>
  file.replace(/^extra (\S+)$/m, (_, encoded: string) => {
    const extra = change(Buffer.from(encoded, 'base64').toString())
    return `extra ${Buffer.from(extra).toString('base64')}`
  })

it('detects a changed item, a changed header, another item and a truncated proof', async () => {
  const [node] = await sameKeyNodes(1)
  if (node === undefined) throw new Error('no node')
  await record(node, [plum(1), { id: 'fig', price: 1 }])
  const { reader, options } = await readerOf(node)
  const honest = asking(node)
  const lying = async (change: (text: string) => string) => {
    options.fetch = async (path) => {
      const { status, text } = await honest(path)
      return { status, text: change(text) }
    }
    return codeOf(reader.readItem('fruit', 'plum'))
  }
  expect(await lying((text) => text)).toBe('believed')
  const inExtra = (from: string, to: string) =>
    lying((text) => withExtra(text, (extra) => extra.replace(from, to)))
  expect(await inExtra('"price":1', '"price":2')).toBe('PROOF_WRONG')
  expect(await inExtra('"nonce":0', '"nonce":1')).toBe('PROOF_WRONG')
  expect(await lying((text) => text.replace('index 1', 'index 2'))).toBe('PROOF_WRONG')
  expect(await lying((text) => text.slice(0, -20))).toBe('NOTE_MALFORMED')
  expect(await lying(() => '{"status":true}')).toBe('PROOF_MALFORMED')
  options.fetch = () => honest('/api/fruit/fig/proof')
  expect(await codeOf(reader.readItem('fruit', 'plum'))).toBe('ITEM_OTHER')
  options.fetch = async () => ({ status: 500, text: '' })
  expect(await codeOf(reader.readItem('fruit', 'plum'))).toBe('SERVER_FAILED')
  options.fetch = async () => ({ status: 404, text: '' })
  expect(await codeOf(reader.readItem('fruit', 'plum'))).toBe('ITEM_STALE')
  await node.close()
})

it('detects a changed or dropped old block, a fork, a rollback and another key', async () => {
  const [truth, changed, dropped, forked] = await sameKeyNodes(4)
  const other = await startLedgerNode({ folder: temporaryFolder() })
  if (!truth || !changed || !dropped || !forked) throw new Error('too few nodes')
  await record(truth, [plum(1), ...fillers(6)])
  await record(changed, [plum(2), ...fillers(9)])
  await record(dropped, [plum(1), ...fillers(9).slice(1)])
  await record(forked, [plum(1), ...fillers(6)])
  await record(other, [plum(1), ...fillers(9)])
  const { reader, options } = await readerOf(truth)
  expect((await reader.readItem('fruit', 'plum'))?.item).toEqual(plum(1))
  const seen = reader.checkpoint
  const saidBy = (node: LedgerNode) => {
    options.fetch = asking(node)
    return codeOf(reader.readItem('fruit', 'plum'))
  }
  // All lying servers except the last have the true key, and the chain of each is consistent in itself.
  expect(await saidBy(changed)).toBe('LOG_FORKED')
  expect(await saidBy(dropped)).toBe('LOG_FORKED')
  expect(await saidBy(forked)).toBe('LOG_FORKED')
  expect(await saidBy(other)).toBe('NOTE_UNSIGNED')
  expect(reader.checkpoint).toEqual(seen)
  expect(await saidBy(truth)).toBe('believed')

  const rolledBack = await (await readerOf(truth)).options.fetch(
    `/api/ledgers/${truth.service.serverId}/checkpoint`,
  )
  await record(truth, [filler(77)])
  // Reads the item, because the checkpoint of its proof covers the item. `refresh` could still get the previous
  // checkpoint, which equals `rolledBack`, so no rollback could be detected.
  expect((await reader.readItem('fruit', 'filler-77'))?.item).toEqual(filler(77))
  options.fetch = async () => rolledBack
  expect(await codeOf(reader.refresh())).toBe('LOG_ROLLED_BACK')
  for (const node of [truth, changed, dropped, forked, other]) await node.close()
})

it('detects an older head, an older revision under the newest head, and a missing proof of consistency', async () => {
  const [node] = await sameKeyNodes(1)
  if (node === undefined) throw new Error('no node')
  await record(node, [plum(1)])
  const before = await asking(node)('/api/fruit/plum/proof')
  await node.send('POST', '/api/fruit/plum', plum(2))
  const { reader, options } = await readerOf(node)
  expect((await reader.readItem('fruit', 'plum'))?.item).toEqual(plum(2))
  options.fetch = async () => before
  expect(await codeOf(reader.readItem('fruit', 'plum'))).toBe('LOG_ROLLED_BACK')
  await record(node, [filler(1)])
  options.fetch = (path) => asking(node)(path.endsWith('/proof') ? `${path}?position=1.0` : path)
  expect(await codeOf(reader.readItem('fruit', 'plum'))).toBe('ITEM_STALE')
  await record(node, [filler(2)])
  options.fetch = async (path) =>
    path.includes('consistency') ? { status: 200, text: '{"proof":[1]}' } : asking(node)(path)
  expect(await codeOf(reader.readItem('fruit', 'filler-2'))).toBe('PROOF_MALFORMED')
  options.fetch = async (path) =>
    path.includes('consistency') ? { status: 404, text: '' } : asking(node)(path)
  expect(await codeOf(reader.readItem('fruit', 'filler-2'))).toBe('SERVER_FAILED')
  await node.close()
})

it('detects the proof of an older deletion of an item that was created again', async () => {
  const [node] = await sameKeyNodes(1)
  if (node === undefined) throw new Error('no node')
  await record(node, [plum(1)])
  await node.send('DELETE', '/api/fruit/plum')
  await record(node, [plum(2)])
  const { reader, options } = await readerOf(node)
  expect((await reader.readItem('fruit', 'plum'))?.item).toEqual(plum(2))
  options.fetch = async (path) => {
    if (path.endsWith('/proof')) return { status: 404, text: '' }
    if (!path.includes('/history')) return asking(node)(path)
    const history = [{ method: 'delete_item', position: '2.0' }]
    return { status: 200, text: JSON.stringify({ status: true, history }) }
  }
  expect(await codeOf(reader.readItem('fruit', 'plum'))).toBe('ITEM_STALE')
  await node.close()
})

it('detects a late reply whose shorter log contradicts the log that was verified meanwhile', async () => {
  const [node, forked] = await sameKeyNodes(2)
  if (node === undefined || forked === undefined) throw new Error('too few nodes')
  await record(node, [plum(1), ...fillers(3)])
  await record(forked, [plum(2)])
  const { reader, options } = await readerOf(node)
  const late = await asking(forked)('/api/fruit/plum/proof')
  const isSent = Promise.withResolvers<void>()
  options.fetch = async (path) => {
    if (!path.includes('plum')) return asking(node)(path)
    await isSent.promise
    return late
  }
  const read = codeOf(reader.readItem('fruit', 'plum'))
  await reader.readItem('fruit', 'filler-2')
  isSent.resolve()
  expect(await read).toBe('LOG_FORKED')
  for (const each of [node, forked]) await each.close()
})

it('detects a fork if the replies with both logs arrive at the same time', async () => {
  const nodes = await sameKeyNodes(2)
  for (const node of nodes) await record(node, [plum(1)])
  const [node] = nodes
  if (node === undefined) throw new Error('no node')
  const replies = await Promise.all(nodes.map((each) => asking(each)('/api/fruit/plum/proof')))
  const reader = new VerifyingReader({
    verifySignature: nodeVerifySignature,
    key: await keyOf(node),
    fetch: async () => replies.shift() ?? { status: 404, text: '' },
    checkpoint: null,
    // Takes long enough that both replies are verified before the first checkpoint is stored.
    keep: () => new Promise((resolve) => void setTimeout(() => resolve(null), 200)),
  })
  const reads = [reader.readItem('fruit', 'plum'), reader.readItem('fruit', 'plum')]
  expect((await Promise.all(reads.map(codeOf))).sort()).toEqual(['LOG_FORKED', 'believed'])
  for (const each of nodes) await each.close()
})

it('trusts a checkpoint only when the checkpoint is stored', async () => {
  const [node] = await sameKeyNodes(1)
  if (node === undefined) throw new Error('no node')
  await record(node, [plum(1)])
  const notes: string[] = []
  let isFull = true
  const reader = new VerifyingReader({
    verifySignature: nodeVerifySignature,
    key: await keyOf(node),
    fetch: asking(node),
    checkpoint: null,
    keep: async (note) => {
      if (isFull) throw new Error('the disk is full')
      notes.push(note)
      return null
    },
  })
  await expect(reader.readItem('fruit', 'plum')).rejects.toThrow('the disk is full')
  expect(reader.checkpoint).toBeNull()
  isFull = false
  expect((await reader.readItem('fruit', 'plum'))?.item).toEqual(plum(1))
  expect(notes).toHaveLength(1)
  await node.close()
})

it('remembers the newest position of an item, even if an older position is noted later', async () => {
  const [node] = await sameKeyNodes(1)
  if (node === undefined) throw new Error('no node')
  const { reader } = await readerOf(node)
  reader.note('fruit', 'plum', { height: 5, index: 1 }, false)
  reader.note('fruit', 'plum', { height: 5, index: 0 }, false)
  reader.note('fruit', 'plum', { height: 4, index: 2 }, true)
  expect(reader.seen('fruit', 'plum')).toMatchObject({ height: 5, index: 1, isDeleted: false })
  await node.close()
})

it('with `current`, refuses a signed state whose revision is older than one that it has seen', async () => {
  const [node] = await sameKeyNodes(1)
  if (node === undefined) throw new Error('no node')
  await record(node, [plum(1)])
  const { reader } = await readerOf(node, null, true)
  expect((await reader.readItem('fruit', 'plum'))?.item).toEqual(plum(1))
  reader.note('fruit', 'plum', { height: 1, index: 1 }, false)
  expect(await codeOf(reader.readItem('fruit', 'plum'))).toBe('ITEM_STALE')
  await node.close()
})

/** Changes that somebody else makes, as a method, a path and a body each. */
type Changes = readonly (readonly [string, string, object?])[]

const deletion: Changes = [['DELETE', '/api/fruit/plum']]
const recreation: Changes = [
  ['POST', '/api/fruit', plum(2)],
  ['POST', '/api/fruit/plum', plum(3)],
  ['POST', '/api/fruit/plum', plum(4)],
]
const deletionOfDatabase: Changes = [['DELETE', '/api/fruit']]
const recreationOfDatabase: Changes = [['POST', '/api/fruit'], ...recreation]
const erasure: Changes = [['POST', '/api/config/erasures', { db: 'fruit', deleted: true }]]

it.each<[string, boolean, Changes, Changes, object | null]>([
  ['a deleted item', false, deletion, recreation, plum(4)],
  ['a deleted item', true, deletion, recreation, null],
  ['an item of a deleted database', false, deletionOfDatabase, recreationOfDatabase, plum(4)],
  ['an item of a deleted database', true, deletionOfDatabase, recreationOfDatabase, null],
  ['an item whose deletion is erased', false, [...deletion, ...erasure], recreation, plum(4)],
  ['an item whose deletion is erased', true, [...deletion, ...erasure], recreation, null],
])(
  'believes an honest server if %s is created again and changed while it is read, with `current` %s',
  async (_, current, before, after, found) => {
    const node = await startLedgerNode({ folder: temporaryFolder() })
    const make = async (changes: Changes) => {
      for (const [method, path, body] of changes) {
        expect([path, (await node.send(method, path, body)).status]).toEqual([path, 200])
      }
    }
    await record(node, [plum(1)])
    const { reader, options } = await readerOf(node, null, current)
    expect((await reader.readItem('fruit', 'plum'))?.item).toEqual(plum(1))
    await make(before)
    let changes = after
    options.fetch = async (path) => {
      const reply = await asking(node)(path)
      await make(changes)
      changes = []
      return reply
    }
    const read = await reader.readItem('fruit', 'plum')
    expect(read?.item ?? null).toEqual(found)
    expect((await reader.readItem('fruit', 'plum'))?.item).toEqual(plum(4))
    await node.close()
  },
)
