import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import {
  HandClock,
  type LedgerNode,
  startLedgerNode,
  temporaryFolder,
} from '../../../test/support/ledger-node.ts'
import { TestLog } from '../../../test/support/test-log.ts'
import {
  cosignatureBy,
  nodeVerifySignature,
  parseWitnessKey,
  unverifiedText,
} from '../../chain/index.ts'

const PATH = '/api/ledgers/witness/add-checkpoint'
/** Number of concurrent requests with contradicting heads. Manual runs use 10,000. */
const REQUESTS = Number(process.env.WITNESS_REQUESTS ?? 1_000)

async function witnessOf(log: TestLog, folder: string | null = null, clock = new HandClock()) {
  const node = await startLedgerNode({ folder, clock, witnessOf: [log.key.verifier] })
  const key = parseWitnessKey((await node.send('GET', '/api/ledgers/witness/vkey')).text.trim())
  return { node, key }
}

async function add(node: LedgerNode, body: string | Buffer, type = 'text/plain') {
  const { status, text, headers } = await node.send('POST', PATH, body, { 'content-type': type })
  return { status, text, type: headers.get('content-type') }
}

it('cosigns the checkpoints of a growing log with its own clock and key', async () => {
  const log = new TestLog(20, 'leaf')
  const { node, key } = await witnessOf(log)
  expect(key.name).toBe(`daicho/${node.service.serverId}/witness`)
  for (const [old, size] of [
    [0, 0],
    [0, 3],
    [3, 3],
    [3, 8],
    [8, 19],
  ] as const) {
    const { status, text, type } = await add(node, await log.request(old, size), 'x/y')
    expect([status, type]).toEqual([200, 'text/plain; charset=utf-8'])
    const cosigned = `${unverifiedText(log.note(size))}\n${text}`
    expect(await cosignatureBy(nodeVerifySignature, key, cosigned)).toMatchObject({
      timestamp: 1_800_000_000,
      line: text,
    })
  }
  await node.close()
})

it('rejects invalid requests and contradicting checkpoints with the statuses of C2SP tlog-witness', async () => {
  const log = new TestLog(20, 'leaf')
  const [fork, other] = [new TestLog(20, 'fork', log.key), new TestLog(5, 'other')]
  const { node } = await witnessOf(log)
  expect((await add(node, await log.request(0, 8))).status).toBe(200)
  const text = await log.request(8, 12)
  const signature = /— \S+ (\S+)\n$/.exec(text)?.[1] ?? ''
  const changed = signature.replace(/.(?=.{10}$)/, (unit) => (unit === 'A' ? 'B' : 'A'))
  const line = text.slice(text.lastIndexOf('\n\n') + 2)
  // A valid signature line that is repeated is ignored, but no other line by the same key may be wrong.
  expect((await add(node, (await log.request(8, 8)).replace(/(— .*\n)$/, '$1$1'))).status).toBe(200)
  const conflict = [409, '8\n', 'text/x.tlog.size']
  const refused = (status: number, code: string) => [
    status,
    expect.stringContaining(`"code":"${code}"`),
    'application/json; charset=utf-8',
  ]
  const cases: [string | Buffer, unknown[]][] = [
    [text + line.replace(signature, changed), refused(403, 'WITNESS_SIGNATURE_REFUSED')],
    // The old size differs from the last cosigned size, 8.
    [await log.request(0, 12), conflict],
    [await log.request(9, 12), conflict],
    [await log.request(0, 3), conflict],
    [await fork.request(0, 12), conflict],
    // The head contradicts the last cosigned head, or the proof is wrong.
    [await fork.request(8, 8), refused(422, 'WITNESS_PROOF_WRONG')],
    [await fork.request(8, 12), refused(422, 'WITNESS_PROOF_WRONG')],
    [(await log.request(8, 12)).replace(/\n.+\n/, '\n'), refused(422, 'WITNESS_PROOF_WRONG')],
    [await log.request(8, 12, log.note(13)), refused(422, 'WITNESS_PROOF_WRONG')],
    [
      (await log.request(8, 8)).replace('\n\n', `\n${Buffer.alloc(32).toString('base64')}\n\n`),
      refused(422, 'WITNESS_PROOF_WRONG'),
    ],
    [await other.request(0, 5), refused(404, 'WITNESS_LOG_UNKNOWN')],
    [text.replace(signature, changed), refused(403, 'WITNESS_SIGNATURE_REFUSED')],
    [
      await log.request(
        8,
        12,
        unverifiedText(log.note(12)).concat(`\n— ${log.key.verifier.name} AAAAAAA=\n`),
      ),
      refused(403, 'WITNESS_SIGNATURE_REFUSED'),
    ],
    [`old 9\n\n${log.note(8)}`, refused(400, 'WITNESS_REQUEST_INVALID')],
    [text.replace('old 8', 'old 08'), refused(400, 'WITNESS_REQUEST_INVALID')],
    [text.replace('old 8', 'old -1'), refused(400, 'WITNESS_REQUEST_INVALID')],
    [text.replace('old 8\n', ''), refused(400, 'WITNESS_REQUEST_INVALID')],
    [text.replace('old 8\n', 'old 8\nAAAA\n'), refused(400, 'WITNESS_REQUEST_INVALID')],
    [
      text.replace('old 8\n', `old 8\n${`${Buffer.alloc(32).toString('base64')}\n`.repeat(64)}`),
      refused(400, 'WITNESS_REQUEST_INVALID'),
    ],
    [text.slice(0, -1), refused(400, 'WITNESS_REQUEST_INVALID')],
    ['', refused(400, 'WITNESS_REQUEST_INVALID')],
    ['old 0\n\n', refused(404, 'WITNESS_LOG_UNKNOWN')],
    [Buffer.from([0xff]), refused(400, 'WITNESS_REQUEST_INVALID')],
    [Buffer.alloc(90_000, 'a'), refused(413, 'BODY_TOO_LARGE')],
  ]
  for (const [at, [body, expected]] of cases.entries()) {
    const { status, text: reply, type } = await add(node, body)
    expect([at, status, reply, type]).toEqual([at, ...expected])
  }
  // None of these requests has changed the last cosigned head.
  expect((await add(node, text)).status).toBe(200)
  await node.close()
})

it('keeps its key and heads across restarts, and does not replace a damaged file with a new one', async () => {
  const log = new TestLog(20, 'leaf')
  const folder = temporaryFolder()
  const first = await witnessOf(log, folder)
  expect((await add(first.node, await log.request(0, 8))).status).toBe(200)
  await first.node.close()
  const again = await witnessOf(log, folder)
  expect(again.key).toEqual(first.key)
  expect(await add(again.node, await log.request(0, 9))).toMatchObject({ status: 409, text: '8\n' })
  await again.node.close()

  const file = join(folder, 'witness.json')
  const content = readFileSync(file, 'utf8')
  writeFileSync(file, content.replace('"size":8', '"size":"8"'))
  const damaged = await startLedgerNode({ folder, witnessOf: [log.key.verifier] })
  const reply = await add(damaged, await log.request(0, 9))
  expect([reply.status, JSON.parse(reply.text).code]).toEqual([500, 'WITNESS_STATE_DAMAGED'])
  writeFileSync(file, content)
  expect((await add(damaged, await log.request(8, 9))).status).toBe(200)
  await damaged.close()
})

it(`cosigns only one of three chains when ${REQUESTS} concurrent requests contradict each other`, async () => {
  const one = new TestLog(40, 'one')
  const logs = [one, new TestLog(40, 'two', one.key), new TestLog(40, 'three', one.key)]
  const { node } = await witnessOf(one, temporaryFolder())
  const requests = await Promise.all(
    Array.from({ length: REQUESTS }, async (_, n) => {
      const [old, log] = [Math.floor(n / 30) % 38, n % logs.length]
      const size = old + 1 + (n % 2)
      return { log, size, body: (await logs[log]?.request(old, size)) ?? '' }
    }),
  )
  const cosigned = new Map<number, Set<number>>()
  let next = 0
  const client = async () => {
    for (let at = next++; at < requests.length; at = next++) {
      const request = requests[at]
      if (request === undefined) return
      const { status } = await add(node, request.body)
      expect([200, 409, 422]).toContain(status)
      if (status !== 200) continue
      cosigned.set(request.size, (cosigned.get(request.size) ?? new Set()).add(request.log))
    }
  }
  await Promise.all(Array.from({ length: 100 }, client))
  expect(cosigned.size).toBeGreaterThan(1)
  expect(new Set([...cosigned.values()].flatMap((of) => [...of])).size).toBe(1)
  await node.close()
})
