// `daicho load` over HTTP with attachments, when a connection is cut, a token expires or the process is killed at any
// request, and the load is resumed.
import { copyFileSync, rmSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import fc from 'fast-check'
import { beforeAll, describe, expect, it } from 'vitest'
import type { Json, JsonObject } from '../src/base/json.ts'
import { itemIdFor, LoadStateFile, newLoad } from '../src/cli/node/load-state.ts'
import { nodeTarget } from '../src/cli/node/node-target.ts'
import { CONFLICT_POLICIES, type ConflictPolicy } from '../src/exchange/choices.ts'
import { type LoadCounts, LoadError, loadRecords } from '../src/exchange/index.ts'
import { type LedgerNode, startLedgerNode, temporaryFolder } from './support/ledger-node.ts'
import { IS_THOROUGH, roundsOf } from './support/rounds.ts'

const FAULTS = ['cut-before', 'cut-after', 'expired', 'killed-before', 'killed-after'] as const
interface Fault {
  readonly kind: (typeof FAULTS)[number]
  /** Number of the request at which the fault begins, from 0. */
  readonly at: number
}

/** Items that exist before the load; the load has other items and attachments for them. */
const EXISTING = ['old', 'deep-old']
const text = (name: string, bytes: string) => {
  return { name, contentType: 'text/plain', bytes: Buffer.from(bytes) }
}
// A list of changes cannot contain an item with 62 levels, so each is a batch of its own.
const deep = (): Json => JSON.parse(`${'['.repeat(62)}${']'.repeat(62)}`)
const item = (line: number, members: JsonObject, attachments: ReturnType<typeof text>[] = []) => {
  return { kind: 'item' as const, line, item: members, attachments }
}
const records = (policy: ConflictPolicy) => [
  item(1, { id: 'a', n: 1 }, [text('a.txt', 'one')]),
  item(2, { n: 2 }, [text('b.txt', 'two'), { ...text('c', 'x'), contentType: 'none' }]),
  ...(policy === 'fail' ? [] : [item(3, { id: 'old', n: 3 }, [text('note.txt', 'new')])]),
  item(4, { id: 'deep', deep: deep() }, [text('d.txt', 'three')]),
  { kind: 'refused' as const, line: 5, reason: 'it is not JSON' },
  ...(policy === 'fail' ? [] : [item(6, { id: 'deep-old', deep: deep() })]),
  item(7, { n: 7, deep: deep() }, [text('e.txt', 'four'), text('f.txt', 'five')]),
  item(8, { n: 8 }),
  ...(policy === 'fail' ? [] : [item(9, { id: 'a', n: 9 })]),
]

/** What the whole load changes, by policy: created, replaced, attachments, skipped. */
const WHOLE: Record<ConflictPolicy, Partial<LoadCounts>> = {
  fail: { created: 5, replaced: 0, attachments: 5, skipped: 0, refused: 2, records: 6 },
  skip: { created: 5, replaced: 0, attachments: 5, skipped: 3, refused: 2, records: 9 },
  replace: { created: 5, replaced: 3, attachments: 6, skipped: 0, refused: 2, records: 9 },
}

describe('a load that is interrupted at any request, and resumed', () => {
  let node: LedgerNode
  let number = 0
  const folder = temporaryFolder(() => {})

  beforeAll(async () => {
    node = await startLedgerNode()
    return async () => {
      await node.close()
      rmSync(folder, { recursive: true })
    }
  })

  /** Runs the load once. Returns the report, or null if the process was killed, and the number of requests. */
  async function run(
    db: string,
    state: string,
    policy: ConflictPolicy,
    fault: Fault | null,
    forgetsKeys = false,
  ) {
    let requests = 0
    const killed = Promise.withResolvers<null>()
    const held: ServerResponse[] = []
    let isKilled = false
    const server = createServer(async (request, reply) => {
      const body = await bodyOf(request)
      const at = requests++
      const kind = fault !== null && at >= fault.at ? fault.kind : null
      const forward = () => forwarded(node.url, request, body, forgetsKeys)
      if (isKilled) return void held.push(reply)
      if (kind?.startsWith('killed') === true) {
        isKilled = true
        held.push(reply)
        if (kind === 'killed-after') await forward()
        copyFileSync(state, `${state}.killed`)
        return killed.resolve(null)
      }
      if (kind === 'expired') {
        return void reply
          .writeHead(401)
          .end('{"status":false,"code":"TOKEN_EXPIRED","message":"old"}')
      }
      if (kind === 'cut-before') return void request.socket.destroy()
      const received = await forward()
      if (isKilled) return void held.push(reply)
      if (kind === 'cut-after') return void request.socket.destroy()
      reply.writeHead(received.status).end(received.bytes)
    })
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
    const address = server.address()
    const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`
    const pause = () => (isKilled ? new Promise(() => {}) : Promise.resolve())
    const identity = {
      ...{ db, target: 'node', files: [], stamps: [], format: null, id: null, schema: null },
      attachments: true,
    }
    const isNew = !exists.has(state)
    exists.add(state)
    const file = isNew
      ? LoadStateFile.create(state, identity, newLoad(1_800_000_000_000))
      : LoadStateFile.resume(state, identity)
    const { load, progress } = file
    let refused = progress.position.counts.refused
    const loading = loadRecords(
      (async function* () {
        yield records(policy)
      })(),
      nodeTarget({ url }, pause),
      {
        ...{ chooseDatabase: () => db, idMember: null, onConflict: policy, loadId: load.loadId },
        newId: (record) => itemIdFor(load, record),
        progress,
        write: (note) => file.write(note),
        finished(_, refusals) {
          refused += refusals.length
        },
      },
    ).then(
      (counts) => ({ counts, unknown: 0, error: null }),
      (error: unknown) => {
        if (!(error instanceof LoadError)) throw error
        return { counts: error.counts, unknown: error.unknown, error }
      },
    )
    const report = await Promise.race([loading, killed.promise])
    if (report === null) copyFileSync(`${state}.killed`, state)
    else file.close(true)
    server.closeAllConnections()
    server.close()
    return { report, requests, refused, isUnused: progress.isUnused }
  }
  const exists = new Set<string>()

  async function fresh(policy: ConflictPolicy, hasDatabase: boolean): Promise<string> {
    number += 1
    const db = `db${number}`
    if (!hasDatabase && policy === 'fail') return db
    await node.send('POST', `/api/${db}`)
    for (const id of EXISTING) await node.send('POST', `/api/${db}`, { id, n: 0 })
    await node.send('PUT', `/api/${db}/old/attachments/note.txt`, 'original', {
      'content-type': 'text/plain',
    })
    return db
  }

  /** Counts the changes of `db` in the blocks from height `from` on. */
  async function inLedger(db: string, from: number) {
    const found = { created: 0, replaced: 0, attachments: 0 }
    for (let offset = from; ; ) {
      const { json } = await node.send(
        'GET',
        `/api/ledgers?serverid=${node.service.serverId}&offset=${offset}&limit=64`,
      )
      if (json.ledgers.length === 0) return found
      offset += json.ledgers.length
      for (const { method, ...entry } of json.ledgers.flatMap((block: JsonObject) => block.body)) {
        if (entry.db !== db) continue
        if (method === 'create_item') found.created += 1
        if (method === 'update_item') found.replaced += 1
        if (method === 'create_attachment') found.attachments += 1
      }
    }
  }

  async function check(policy: ConflictPolicy, faults: readonly Fault[], hasDatabase: boolean) {
    const db = await fresh(policy, hasDatabase)
    const { blocks } = await node.service.read.chainSize()
    const changed = () => inLedger(db, blocks)
    const state = join(folder, db)
    let requests = 0
    for (const fault of faults) {
      const result = await run(db, state, policy, fault)
      requests = result.requests
      const now = await changed()
      const { report } = result
      if (report === null) continue
      const { created, replaced, attachments } = report.counts
      const changes = now.created + now.replaced + now.attachments
      const reported = created + replaced + attachments
      expect(now.created).toBeGreaterThanOrEqual(created)
      expect(now.replaced).toBeGreaterThanOrEqual(replaced)
      expect(now.attachments).toBeGreaterThanOrEqual(attachments)
      expect(changes).toBeLessThanOrEqual(reported + report.unknown)
      if (fault.kind === 'expired' && fault === faults[0]) expect(changes).toBe(reported)
      // The command removes the state of an unused load, so nothing of it may be in the ledger.
      if (result.isUnused) expect(changes).toBe(0)
    }
    const forgetsKeys = policy !== 'replace' && faults.some(({ at }) => at % 2 === 1)
    const last = await run(db, state, policy, null, forgetsKeys)
    expect(last.report).toMatchObject({ counts: WHOLE[policy], unknown: 0, error: null })
    expect(last.refused).toBe(2)
    const { created = 0, replaced = 0, attachments = 0 } = WHOLE[policy]
    expect(await changed()).toEqual({ created, replaced, attachments })
    if (policy !== 'fail') {
      const { text } = await node.send('GET', `/api/${db}/old/attachments/note.txt`)
      expect(text).toBe(policy === 'skip' ? 'original' : 'new')
    }
    return requests
  }

  // Each run of the tests tries every fourth request, from a random one on; a thorough run tries all.
  const step = IS_THOROUGH ? 1 : 4
  for (const policy of CONFLICT_POLICIES) {
    it(`loads everything once with --on-conflict ${policy}, whatever fails at whatever request`, async () => {
      for (const kind of FAULTS) {
        for (let at = Math.floor(Math.random() * step); ; at += step) {
          if ((await check(policy, [{ kind, at }], at % 2 === 0)) <= at) break
        }
      }
    })
  }

  it('loads everything once after several faults of any kind', async () => {
    const fault = fc.record({ kind: fc.constantFrom(...FAULTS), at: fc.nat({ max: 14 }) })
    const faults = fc.array(fault, { minLength: 2, maxLength: 4 })
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...CONFLICT_POLICIES),
        faults,
        fc.boolean(),
        async (policy, several, hasDatabase) => {
          await check(policy, several, hasDatabase)
        },
      ),
      { numRuns: roundsOf(60) },
    )
  })
})

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = []
  for await (const part of request) parts.push(part)
  return Buffer.concat(parts)
}

async function forwarded(
  url: string,
  { method = 'GET', url: path = '/', headers }: IncomingMessage,
  body: Buffer,
  forgetsKeys: boolean,
): Promise<{ status: number; bytes: Buffer }> {
  const names = ['content-type', 'if-none-match', ...(forgetsKeys ? [] : ['idempotency-key'])]
  const sent = names.flatMap((name) =>
    headers[name] === undefined ? [] : [[name, String(headers[name])] as [string, string]],
  )
  const reply = await fetch(url + path, {
    method,
    headers: sent,
    body: body.length === 0 ? null : new Uint8Array(body),
  })
  return { status: reply.status, bytes: Buffer.from(await reply.arrayBuffer()) }
}
