import { expect } from 'vitest'
import { type LedgerNode, type LedgerNodeOptions, startLedgerNode } from './ledger-node.ts'
import type { RawReply } from './raw-socket.ts'

/** A node with the item `x` in the database `a`, which must not change. */
export interface RefusingNode extends LedgerNode {
  /** Expects an unchanged chain, and that the node answers. */
  expectUnmoved(): Promise<void>
}

/** Starts a node for invalid requests; the caller closes it. */
export async function startRefusingNode(options: LedgerNodeOptions = {}): Promise<RefusingNode> {
  const node = await startLedgerNode(options)
  await node.send('POST', '/api/a')
  await node.send('POST', '/api/a', { id: 'x', n: 1 })
  const chainText = async () => {
    const { serverid } = (await node.send('GET', '/api/serverid')).json
    return (await node.send('GET', `/api/ledgers?serverid=${serverid}`)).text
  }
  const chain = await chainText()
  return {
    ...node,
    async expectUnmoved() {
      expect(await chainText()).toBe(chain)
      expect((await node.send('GET', '/readyz')).text).toBe('{"status":true}')
    },
  }
}

/** Expects an error in the ledger's shape; a reply to `HEAD` has no body. */
export function expectRefusal(
  reply: RawReply | undefined,
  status: number,
  code: string,
  method = '',
): void {
  expect([reply?.status, reply?.headers.get('content-type')]).toEqual([
    status,
    'application/json; charset=utf-8',
  ])
  if (method === 'HEAD') return
  const json = JSON.parse(reply?.body ?? '')
  expect(json).toEqual({ status: false, code, message: expect.any(String) })
  expect(json.message).not.toMatch(/\bat .*:\d+:\d+|node_modules/)
}
