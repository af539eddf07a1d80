// The page's verification of an item, with the replies of a real node and with changed replies.
import { afterAll, beforeAll, expect, it } from 'vitest'
import {
  type ItemVerdict,
  type ProofSource,
  proveItem,
  proveList,
  type ShownItem,
} from '../../src/dashboard/browser/verification/item-proof.ts'
import { verifySignature } from '../../src/dashboard/browser/verification/signature.ts'
import { type LedgerNode, startLedgerNode } from '../support/ledger-node.ts'

let node: LedgerNode
let verifierKey = ''
beforeAll(async () => {
  node = await startLedgerNode()
  await node.send('POST', '/api/fruit')
  await node.send('POST', '/api/fruit', { id: 'plum', price: 90 })
  await node.send('POST', '/api/fruit/plum', { price: 80 })
  const path = `/api/ledgers/${node.service.serverId}/vkey`
  verifierKey = (await node.send('GET', path)).text.trim()
})
afterAll(() => node.close())

const PLUM: ShownItem = {
  db: 'fruit',
  id: 'plum',
  position: '2.0',
  item: { id: 'plum', price: 80 },
}

function sourceWith(change: Partial<ProofSource>): ProofSource {
  return {
    serverId: node.service.serverId,
    verifierKey,
    remembered: null,
    fetch: (path: string) => node.send('GET', path),
    ...change,
  }
}

function prove(change: Partial<ProofSource> = {}, shown = PLUM): Promise<ItemVerdict> {
  return proveItem(verifySignature, sourceWith(change), shown)
}

it('proves current and former revisions under a signed checkpoint that continues the remembered checkpoint', async () => {
  const first = await prove()
  expect(first).toMatchObject({ refused: null, size: 3, isErased: false, isKeyKnown: false })
  if (first.refused !== null) throw new Error('refused')
  expect(first.remember).toMatchObject({ verifierKey, size: 3 })
  await node.send('POST', '/api/fruit', { id: 'fig' })
  const former = { ...PLUM, position: '1.0', item: { id: 'plum', price: 90 } }
  const second = await prove({ remembered: first.remember }, former)
  expect(second).toMatchObject({ refused: null, isKeyKnown: true })
  const newest = { position: '2.0', size: 4 }
  expect([first, second]).toMatchObject([{ newest: { ...newest, size: 3 } }, { newest }])
})

it('proves by the signed state that an item is absent, and that a list is complete', async () => {
  const absent = { db: 'fruit', id: 'kiwi', position: null, item: undefined }
  expect(await prove({}, absent)).toMatchObject({
    refused: null,
    newest: { position: null, size: 4 },
  })
  expect(await prove({}, { ...absent, id: 'plum' })).toEqual({ refused: 'otherItem' })
  const list = (ids: string[], count: number) =>
    proveList(verifySignature, sourceWith({}), { db: 'fruit', ids, count })
  expect(await list(['plum'], 2)).toMatchObject({ refused: null, count: 2, size: 4 })
  expect(await list(['plum'], 1)).toEqual({ refused: 'otherList' })
  expect(await list(['kiwi'], 2)).toEqual({ refused: 'otherList' })
})

it('says that the newest revision is unknown while the node has no signed state, and refuses a wrong state', async () => {
  const state = (change: (text: string) => string, status = 200): Partial<ProofSource> => ({
    fetch: async (path) => {
      const reply = await node.send('GET', path)
      return path.includes('current') ? { status, text: change(reply.text) } : reply
    },
  })
  expect(await prove(state((text) => text, 503))).toMatchObject({ refused: null, newest: null })
  const forged = state((text) =>
    text.replace(/(?<=\n— \S+ \S{10})\S/, (one) => (one === 'A' ? 'B' : 'A')),
  )
  expect(await prove(forged)).toEqual({ refused: 'signature' })
})

it('proves only the position of an erased revision', async () => {
  await node.send('POST', '/api/fruit', { id: 'old', name: 'Ann' })
  const { headers } = await node.send('POST', '/api/fruit/old', {})
  const last = Number(headers.get('ledger-position')?.split('/')[1]?.split('.')[0])
  await node.send('POST', '/api/fruit/old/erase')
  const shown = { db: 'fruit', id: 'old', position: `${last - 1}.0`, item: undefined }
  expect(await prove({}, shown)).toMatchObject({ refused: null, isErased: true, timestamp: null })
})

it('reports that the content on the page differs from the proven content', async () => {
  const other = { ...PLUM, item: { id: 'plum', price: 81 } }
  expect(await prove({}, other)).toEqual({ refused: 'otherItem' })
  expect(await prove({}, { ...PLUM, position: '3.0' })).toEqual({ refused: 'unanswered' })
})

it.each<[string, () => Partial<ProofSource>, string]>([
  ['a key of another server id', () => ({ serverId: 1 }), 'key'],
  ['a text that is not a key', () => ({ verifierKey: 'daicho/1+00000000+AA==' }), 'key'],
  [
    'a key that differs from the remembered one',
    () => ({ remembered: { verifierKey: `${verifierKey}x`, size: 1, root: '' } }),
    'keyChanged',
  ],
  [
    'a chain that is shorter than the remembered one',
    () => ({ remembered: { verifierKey, size: 99, root: btoa('\0'.repeat(32)) } }),
    'rolledBack',
  ],
  [
    'a chain that does not continue the remembered one',
    () => ({ remembered: { verifierKey, size: 1, root: btoa('\0'.repeat(32)) } }),
    'forked',
  ],
  ['a wrong signature', () => ({ fetch: changed(/(?<=\n— \S+ \S{10})\S/) }), 'signature'],
  ['a wrong hash', () => ({ fetch: changed(/(?<=\nindex \d+\n)./) }), 'proof'],
  ['a text that is not a proof', () => ({ fetch: changed(/^c/) }), 'proof'],
  [
    'a reply without a proof',
    () => ({ fetch: async () => ({ status: 503, text: '' }) }),
    'unanswered',
  ],
])('refuses a proof with %s', async (_, change, refused) => {
  expect(await prove(change())).toEqual({ refused })
})

/** Returns a `fetch` that requests from the node, and replaces the character `at` by another one in each reply. */
function changed(at: RegExp): ProofSource['fetch'] {
  return async (path) => {
    const { status, text } = await node.send('GET', path)
    const other = text.replace(at, (character) => (character === '/' ? 'A' : '/'))
    expect(other).not.toBe(text)
    return { status, text: other }
  }
}
