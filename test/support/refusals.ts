import { expect } from 'vitest'
import { type LedgerNode, type LedgerNodeOptions, startLedgerNode } from './ledger-node.ts'
import type { RawReply } from './raw-socket.ts'

/** A node for invalid requests, with the item `x` in the database `a`. */
export interface RefusingNode extends LedgerNode {
  /** Expects that the chain has not changed, and that the node answers. */
  expectUnmoved(): Promise<void>
}

/** Starts a node for invalid requests, which the caller closes. */
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

/** Expects a reply with the ledger's error format. A reply to `HEAD` has no body. */
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
