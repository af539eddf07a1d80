import { generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import {
  checkpointText,
  logOrigin,
  rawPublicKey,
  signedNote,
  toServerId,
  verifierKeyText,
} from '../../src/chain/index.ts'

/** A server with the key of a node, whose replies the caller makes. */
export interface HostileNode {
  readonly url: string
  readonly serverId: number
  readonly vkey: string
  readonly privateKey: KeyObject
  /** Returns a signed head of a log of `size` blocks, always with the same root. */
  note(size: number): string
  close(): Promise<void>
}

/** Answers a request. `path` is its path without the query. */
export type HostileAnswer = (
  path: string,
  reply: ServerResponse,
  request: IncomingMessage,
  node: HostileNode,
) => void

export async function startHostileNode(answer: HostileAnswer): Promise<HostileNode> {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const serverId = toServerId(publicKey)
  const verifier = { name: logOrigin(serverId), publicKey: rawPublicKey(publicKey) }
  const root = randomBytes(32)
  const server = createServer((request, reply) => {
    reply.on('error', () => {})
    request.resume()
    answer((request.url ?? '').split('?')[0] ?? '', reply, request, node)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const node: HostileNode = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    serverId,
    vkey: verifierKeyText(verifier),
    privateKey,
    note(size) {
      const text = checkpointText({ origin: verifier.name, size, root })
      return signedNote(verifier, text, (message) => sign(null, message, privateKey))
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
  return node
}

/** The texts of pages and pushes whose values would take more memory than a thread has, each of at most 80 MB. */
export function hugeLists(bytesMax: number): Record<string, { page: string; push: string }> {
  const hash = `"${'ab'.repeat(32)}"`
  const many = (element: string, around = 1_000) =>
    new Array(Math.floor((bytesMax - around) / (element.length + 1))).fill(element).join(',')
  const blockWith = (body: string, timestamps: string, hashes: string) =>
    `{"prev_id":null,"body":[${body}],"timestamps":[${timestamps}],"nonce":0,"id":"${'ab'.repeat(64)}",` +
    `"proof":{"height":0,"root":"${'ab'.repeat(32)}","blinds":[${hashes}],"commitments":[${hash}]}}`
  const item = '{"db":"d","item":{"id":"a"},"method":"create_item","serverid":1}'
  const wide = (value: string) => item.replace('"a"}', `"a","x":[${value}]}`)
  const lists: Record<string, string> = {
    'empty objects as blocks': many('{}'),
    'empty objects as entries': blockWith(many('{}'), '1', hash),
    'an item of empty objects': blockWith(wide(many('{}')), '1', hash),
    'an item of empty objects with an escape': blockWith(wide(`${many('{}')},"\\n"`), '1', hash),
    'an item of empty objects that is not canonical': blockWith(
      wide(`${many('{}')},1.0`),
      '1',
      hash,
    ),
    timestamps: blockWith(item, many('1'), hash),
    hashes: blockWith(item, '1', many('null')),
    'nested lists': many('[[[[[[[[]]]]]]]]'),
    'many members': `{${new Array(Math.floor(bytesMax / 14)).fill(0).map((_, n) => `"${n.toString(36)}":${n % 10}`)}}`,
  }
  return Object.fromEntries(
    Object.entries(lists).map(([what, list]) => [
      what,
      {
        // Ends like a page of one block.
        page: `{"status":true,"ledgers":[${list}],"x":{"a":1,"proof":{"height":0,"x":1}},"limit":1,"offset":0}`,
        push: `{"from":0,"blocks":[${list}],"checkpoint":0,"proofs":{},"roots":{}}`,
      },
    ]),
  )
}
