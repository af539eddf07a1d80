// Tests the signed state over HTTP. The tests verify with public data and compute roots from their definition.
import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, it, onTestFinished, vi } from 'vitest'
import {
  modelRoot,
  replayBlocks,
  type StateModel,
} from '../../../test/support/independent-state.ts'
import {
  type LedgerNode,
  startLedgerNode,
  temporaryFolder,
} from '../../../test/support/ledger-node.ts'
import { roundsOf } from '../../../test/support/rounds.ts'
import {
  nodeVerifySignature,
  openState,
  parseVerifierKey,
  verifyStateList,
  verifyStateProof,
} from '../../chain/index.ts'
import { StateFile } from '../../storage/index.ts'

/** Replays the entries of a chain, and returns its state. */
async function replay(node: LedgerNode): Promise<StateModel> {
  const { serverId } = node.service
  const { json } = await node.send('GET', `/api/ledgers?serverid=${serverId}&proof=1`)
  const model: StateModel = new Map()
  replayBlocks(model, json.ledgers)
  return model
}

async function keyOf(node: LedgerNode) {
  const reply = await node.send('GET', `/api/ledgers/${node.service.serverId}/vkey`)
  return parseVerifierKey(reply.text.trimEnd())
}

async function stateOf(node: LedgerNode) {
  const reply = await node.send('GET', `/api/ledgers/${node.service.serverId}/state`)
  expect([reply.status, reply.text]).toEqual([200, expect.any(String)])
  return openState(nodeVerifySignature, await keyOf(node), reply.text)
}

async function proofOf(node: LedgerNode, db: string, id: string) {
  const reply = await node.send('GET', `/api/${db}/${id}/proof?current=1`)
  expect([reply.status, reply.text]).toEqual([200, expect.any(String)])
  return verifyStateProof(nodeVerifySignature, await keyOf(node), reply.text)
}

async function listOf(node: LedgerNode, db: string) {
  const reply = await node.send('GET', `/api/${db}?proof=1`)
  expect([reply.status, reply.text]).toEqual([200, expect.any(String)])
  return verifyStateList(nodeVerifySignature, await keyOf(node), reply.text.split('\n'))
}

async function expectReplayed(node: LedgerNode): Promise<void> {
  const model = await replay(node)
  const state = await stateOf(node)
  expect(Buffer.from(state.root)).toEqual(modelRoot(model))
  for (const db of ['d0', 'd1', 'd2']) {
    for (const id of ['i0', 'i1', 'i9']) {
      const proven = await proofOf(node, db, id)
      const item = model.get(db)?.items.get(id)
      const kind = item ? 'current' : model.has(db) ? 'absent' : 'absent-database'
      expect([db, id, proven.kind]).toEqual([db, id, kind])
    }
    const list = await listOf(node, db)
    const ids = list.items?.map(({ id }) => id).toSorted()
    expect([db, ids]).toEqual([
      db,
      model.has(db) ? [...(model.get(db)?.items.keys() ?? [])].sort() : undefined,
    ])
  }
}

const names = { db: fc.constantFrom('d0', 'd1', 'd2'), id: fc.nat(9).map((n) => `i${n}`) }
const step = fc.oneof(
  { weight: 2, arbitrary: fc.record({ method: fc.constantFrom('POST', 'DELETE'), db: names.db }) },
  {
    weight: 8,
    arbitrary: fc.record({ method: fc.constantFrom('POST', 'PUT', 'PUT', 'DELETE'), ...names }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      ...{ method: fc.constantFrom('PUT', 'DELETE'), ...names },
      attachment: fc.constantFrom('a', 'b.txt', '10', '9'),
    }),
  },
  { weight: 1, arbitrary: fc.record({ method: fc.constant('ERASE'), ...names }) },
)

it('the state has the root that a replay of the chain gives, after any changes and a restart, and proves every item and its absence', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 80 }), async (steps) => {
      const folder = temporaryFolder()
      let node = await startLedgerNode({ folder })
      for (const [at, { method, db, ...of }] of steps.entries()) {
        const id = 'id' in of ? of.id : null
        const name = 'attachment' in of ? of.attachment : null
        if (id === null) await node.send(method, `/api/${db}`)
        else if (method === 'ERASE') await node.send('POST', `/api/${db}/${id}/erase`)
        else if (name !== null) {
          const path = `/api/${db}/${id}/attachments/${name}`
          const body = method === 'PUT' ? `${at}` : undefined
          const { json } = await node.send(method, path, body, { 'content-type': 'text/plain' })
          expect(json?.code).not.toBe('PATH_UNKNOWN')
        } else if (method === 'POST') await node.send('POST', `/api/${db}`, { id, at })
        else if (method === 'PUT') await node.send('POST', `/api/${db}/${id}`, { at })
        else await node.send(method, `/api/${db}/${id}`)
        if (at === 15) await stateOf(node)
        if (at === 18) {
          await node.close()
          node = await startLedgerNode({ folder })
        }
      }
      await expectReplayed(node)
      await node.close()
    }),
    { numRuns: roundsOf(8) },
  )
})

it('the state is followed again from the chain if its file was damaged or removed', async () => {
  const folder = temporaryFolder()
  for (const harm of [
    (path: string) => rmSync(path),
    (path: string) => writeFileSync(path, 'not a database'),
  ]) {
    const before = await startLedgerNode({ folder })
    await before.send('POST', '/api/d0')
    await before.send('POST', '/api/d0', { id: 'i0' })
    const { root } = await stateOf(before)
    await before.close()
    const path = join(folder, 'state.db')
    expect(existsSync(path)).toBe(true)
    harm(path)
    const node = await startLedgerNode({ folder })
    expect((await stateOf(node)).root).toEqual(root)
    await expectReplayed(node)
    await node.close()
  }
})

it('answers 503 while the state cannot be opened because the process has no more files', async () => {
  const node = await startLedgerNode()
  onTestFinished(() => node.close())
  await node.send('POST', '/api/fruit')
  const open = vi.spyOn(StateFile, 'openReader').mockImplementation(() => {
    throw Object.assign(new Error('unable to open database file'), { errcode: 14 })
  })
  onTestFinished(() => open.mockRestore())
  const path = `/api/ledgers/${node.service.serverId}/state`
  const refused = await node.send('GET', path)
  expect([refused.status, refused.json.code]).toEqual([503, 'LOG_BEHIND'])
  open.mockRestore()
  expect((await node.send('GET', path)).status).toBe(200)
})

it('refuses a list proof with parameters that select something', async () => {
  const node = await startLedgerNode()
  await node.send('POST', '/api/d0')
  for (const query of ['limit=1', 'offset=0', 'filter=a', 'docs=1', 'count=1', 'at=0', 'after=x']) {
    const { status, json } = await node.send('GET', `/api/d0?proof=1&${query}`)
    expect([query, status, json.code]).toEqual([query, 400, 'REQUEST_INVALID'])
  }
  await node.close()
})
