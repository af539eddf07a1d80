import { expect } from 'vitest'
import type { LedgerNode } from './ledger-node.ts'

const METHODS = [
  'create_db',
  'delete_db',
  'create_item',
  'update_item',
  'delete_item',
  'erase_item',
]
const OF_ATTACHMENTS = ['create_attachment', 'delete_attachment']

/**
 * Records 12 blocks with entries of every method, attachments and an erasure. Returns the reply with the
 * whole chain.
 */
export async function recordEveryMethod(node: LedgerNode): Promise<string> {
  const type = { 'content-type': 'text/plain' }
  const attachments = '/api/fruit/plum/attachments'
  const steps: readonly (readonly [method: string, path: string, body?: unknown])[] = [
    ['POST', '/api/fruit'],
    ['POST', '/api/veg'],
    [
      'POST',
      '/api/fruit',
      [
        { id: 'plum', price: 1e21 },
        { id: '無花果', n: -0.5 },
      ],
    ],
    ['PUT', `${attachments}/a.txt`, 'one'],
    ['PUT', `${attachments}/a.txt`, 'two'],
    ['PUT', `${attachments}/b.txt`, 'three'],
    ['DELETE', `${attachments}/b.txt`],
    ['PATCH', '/api/fruit/plum', { price: 85 }],
    ['DELETE', `/api/fruit/${encodeURIComponent('無花果')}`],
    ['POST', '/api/fruit/plum/erase'],
    ['POST', '/api/fruit', { id: '無花果' }],
    ['DELETE', '/api/veg'],
  ]
  for (const [method, path, body] of steps) {
    const { status } = await node.send(method, path, body, method === 'PUT' ? type : {})
    expect([path, status < 300]).toEqual([path, true])
  }
  const { text } = await node.send('GET', `/api/ledgers?serverid=${node.service.serverId}&proof=1`)
  const methods = new Set(text.match(/(?<="method":")[a-z_]+/g))
  expect([...methods].sort()).toEqual([...METHODS, ...OF_ATTACHMENTS].sort())
  return text
}
