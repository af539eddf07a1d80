// Tests a node that asks witnesses to cosign its checkpoints.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text as textOf } from 'node:stream/consumers'
import { expect, it, onTestFinished } from 'vitest'
import { type LedgerNode, startLedgerNode } from '../../../test/support/ledger-node.ts'
import { until } from '../../../test/support/until.ts'
import {
  cosignatureBy,
  nodeVerifySignature,
  openNote,
  parseVerifierKey,
  parseWitnessKey,
  quorumPolicy,
  type VerifierKey,
  verifyProofFile,
  witnessKeyText,
} from '../../chain/index.ts'
import { LedgerError } from '../errors.ts'
import { parseWitness, type Witness } from './witnesses.ts'

/** Starts a node that cosigns the logs with the keys in `of`. */
async function witnessNode(of: VerifierKey[] = []) {
  const node = await startLedgerNode({ witnessOf: of })
  onTestFinished(() => node.close())
  const vkey = (await node.send('GET', '/api/ledgers/witness/vkey')).text.trim()
  const witness = parseWitness(`${vkey} ${node.url}/api/ledgers/witness/`)
  return { node, of, witness }
}

/** Starts a server that answers each request with `answer`. Returns the server as a witness. */
async function fakeWitness(
  key: VerifierKey,
  answer: (request: string, reply: ServerResponse) => void,
): Promise<Witness> {
  const server = createServer(async (request: IncomingMessage, reply) => {
    answer(`${request.method} ${request.url}\n${await textOf(request)}`, reply)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { key, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/w` }
}

async function startNode(witnesses: readonly Witness[], of: VerifierKey[][] = []) {
  const reports: string[] = []
  const report = (message: string) => reports.push(message)
  const node = await startLedgerNode({ witnesses: { witnesses, allowPrivate: true, report } })
  onTestFinished(() => node.close())
  const vkey = (await node.send('GET', `/api/ledgers/${node.service.serverId}/vkey`)).text
  const key = parseVerifierKey(vkey.trim())
  for (const keys of of) keys.push(key)
  return { node, key, reports }
}

const checkpointOf = async (node: LedgerNode) =>
  (await node.send('GET', `/api/ledgers/${node.service.serverId}/checkpoint`)).text

const signers = (note: string) => [...note.matchAll(/^— (\S+) /gm)].map(([, name]) => name)

/** Waits until `names` have signed the checkpoint, because a slow cosignature may be missing in the first replies. */
async function signedBy(node: LedgerNode, names: readonly string[]): Promise<string> {
  let note = ''
  await until(`${names.join(', ')} have signed`, async () => {
    note = await checkpointOf(node)
    return signers(note).length === names.length
  })
  expect(signers(note)).toEqual(names)
  return note
}

it('serves checkpoints and proof files with the cosignatures of its witnesses', async () => {
  const [one, two] = [await witnessNode(), await witnessNode()]
  const { node, key, reports } = await startNode([one.witness, two.witness], [one.of, two.of])
  await node.send('POST', '/api/fruit')
  for (const id of ['fig', 'plum', 'pear']) {
    await node.send('POST', '/api/fruit', { id })
    const note = await signedBy(node, [key.name, one.witness.key.name, two.witness.key.name])
    await openNote(nodeVerifySignature, key, note)
    for (const { witness } of [one, two]) {
      expect(await cosignatureBy(nodeVerifySignature, witness.key, note)).not.toBeNull()
    }
  }
  const file = (await node.send('GET', '/api/fruit/fig/proof')).text
  const policy = quorumPolicy([one, two].map(({ witness }) => witnessKeyText(witness.key)))
  const { checkpoint } = await verifyProofFile(nodeVerifySignature, key, file, policy)
  expect(checkpoint.cosignatures).toHaveLength(2)
  expect(reports).toEqual([])
  const { text } = await node.send('GET', '/metrics')
  // The size is not exact, because a checkpoint can be 100 ms older than the last block.
  const blocks = text.split(`daicho_witness_blocks{witness="${one.witness.key.name}"} `)[1] ?? ''
  expect(Number.parseInt(blocks, 10)).toBeGreaterThanOrEqual(checkpoint.size)
  expect(text).toContain(`daicho_witness_failing{witness="${two.witness.key.name}"} 0\n`)
})

it('sends a witness a consistency proof from the last size that the witness has cosigned', async () => {
  const one = await witnessNode()
  const requests: string[] = []
  const proxied = await fakeWitness(one.witness.key, async (request, reply) => {
    requests.push(request.split('\n\n')[0] ?? '')
    const body = request.slice(request.indexOf('\n') + 1)
    const answer = await one.node.send('POST', '/api/ledgers/witness/add-checkpoint', body)
    reply.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' })
    reply.end(answer.text)
  })
  const { node, key } = await startNode([proxied], [one.of])
  await node.send('POST', '/api/fruit')
  await signedBy(node, [key.name, one.witness.key.name])
  await node.send('POST', '/api/fruit', { id: 'fig' })
  const { proof } = (
    await node.send('GET', `/api/ledgers/${node.service.serverId}/consistency?from=1&to=2`)
  ).json
  await until('the second head is sent', () => requests.length > 1)
  await node.send('POST', '/api/fruit', { id: 'plum' })
  await until('the third head is sent', async () => {
    await checkpointOf(node)
    return requests.length > 2
  })
  expect(proof).toHaveLength(1)
  expect(requests[0]).toBe('POST /w/add-checkpoint\nold 0')
  expect(requests[1]).toBe(`POST /w/add-checkpoint\nold 1\n${proof[0]}`)
  expect(requests[2]?.split('\n')[1]).toBe('old 2')
})

it('retries after a 409 with the size in the reply, and reports a witness that has cosigned a different log', async () => {
  const one = await witnessNode()
  const sizes: string[] = []
  let known = '1'
  const conflicting = await fakeWitness(one.witness.key, (request, reply) => {
    sizes.push(request.split('\n')[1] ?? '')
    reply.writeHead(409, { 'content-type': 'text/x.tlog.size' }).end(`${known}\n`)
  })
  const { node, key, reports } = await startNode([conflicting])
  await node.send('POST', '/api/fruit')
  await node.send('POST', '/api/fruit', { id: 'fig' })
  expect(signers(await checkpointOf(node))).toEqual([key.name])
  expect(sizes).toEqual(['old 0', 'old 1'])
  const name = one.witness.key.name
  expect(reports).toEqual([
    `witness ${name}: it has cosigned another log of 1 blocks with the key of this node`,
  ])
  known = '7'
  await node.send('POST', '/api/fruit', { id: 'plum' })
  await checkpointOf(node)
  await until('the witness answers', async () => reports.length > 1)
  expect(reports[1]).toBe(
    `witness ${name}: it has cosigned 7 blocks of this log, and this checkpoint has 3: an older ` +
      'state was restored, or another process or node with the same key is ahead',
  )
  expect((await node.send('GET', '/readyz')).status).toBe(200)
  expect((await node.send('GET', '/metrics')).text).toContain(
    `daicho_witness_failing{witness="${name}"} 1\n`,
  )
})

it.each([
  [404, '', 'it answered 404: it does not know this log'],
  [403, '', 'it answered 403: it has a different key for this log'],
  [422, '', 'it answered 422: the checkpoint does not continue the log'],
  [500, '', 'it answered 500'],
  [200, 'hello\n', 'it answered with a wrong cosignature: a signature line'],
  [200, '', 'it answered with a wrong cosignature: this is not a signed note'],
  [200, '— x AAAAAAA=\n', 'it answered without a cosignature by its key'],
  [409, 'many\n', 'it answered 409'],
])(
  'serves the checkpoint without cosignatures when a witness answers %i %j',
  async (status, body, message) => {
    const { witness } = await witnessNode()
    const wrong = await fakeWitness(witness.key, (_, reply) => reply.writeHead(status).end(body))
    const { node, key, reports } = await startNode([wrong])
    await node.send('POST', '/api/fruit')
    expect(signers(await checkpointOf(node))).toEqual([key.name])
    await until('it is reported', async () => reports.length > 0)
    expect(reports[0]).toContain(`witness ${witness.key.name}: ${message}`)
  },
)

it('serves checkpoints with the cosignatures of the other witnesses while one witness does not answer', async () => {
  const [good, silent] = [await witnessNode(), await witnessNode()]
  const hung = await fakeWitness(silent.witness.key, () => {})
  const { node, key } = await startNode([good.witness, hung], [good.of])
  await node.send('POST', '/api/fruit')
  const names = [key.name, good.witness.key.name]
  await signedBy(node, names)
  await node.send('POST', '/api/fruit', { id: 'fig' })
  await signedBy(node, names)
})

it('aborts the request to a witness when the node closes, and reports no failure', async () => {
  const { witness } = await witnessNode()
  const [asked, aborted] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const hung = await fakeWitness(witness.key, (_request, reply) => {
    reply.once('close', aborted.resolve)
    asked.resolve()
  })
  const { node, reports } = await startNode([hung])
  await node.send('POST', '/api/fruit')
  await asked.promise
  await node.close()
  await aborted.promise
  expect(reports).toEqual([])
})

it('rejects malformed settings and duplicate witness names', async () => {
  const { witness } = await witnessNode()
  const vkey = witnessKeyText(witness.key)
  for (const text of ['', vkey, `${vkey} ftp://a`, `${vkey} http://a?b`, `${vkey} http://a b`]) {
    expect(() => parseWitness(text)).toThrow(
      'a witness is a cosignature key (type 4 or 6) and an address',
    )
  }
  expect(parseWitness(`${vkey} https://a.example/w/`)).toEqual({
    key: parseWitnessKey(vkey),
    url: 'https://a.example/w',
  })
  await expect(startNode([witness, witness])).rejects.toThrow(LedgerError)
})
