// Fails single reads of `ledger.db` while a node serves: only requests that need the data fail, and the node recovers.
//
// npm run build && node scripts/run.mjs test/faults/reads.ts [--runs 60] [--at 7]
//
// Needs Linux and strace (6.1 or newer).
//
// In one run, a node starts on a copy of a filled folder. In each thread, the N-th pread64 of `ledger.db` fails with
// EIO. The run calls every endpoint that reads, with writes in between, and then calls all again. Each thread has
// failed once by then, so all calls must succeed and `/readyz` must return 200. No reply may be 500, the process
// must not end, and a node that refuses to start must print one line and exit with code 78.
//
// --runs: one run for each N from 1 to this number. --at: only the run with this N. A run takes a second. Exit code 0:
// no run violated these rules.
import { once } from 'node:events'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startProgram } from '../support/program.ts'

const { values: flags } = parseArgs({
  options: { runs: { type: 'string', default: '60' }, at: { type: 'string' } },
})
const RUN_MS_MAX = 60_000
const ITEMS = 800
const ARGUMENTS = [
  'serve',
  '--only',
  'ledger,gateway',
  '--json',
  '--port',
  '0',
  '--gateway-port',
  '0',
]

const READS = [
  '/api/dbs',
  '/api/fruit',
  '/api/fruit?docs=true',
  '/api/fruit/i0',
  '/api/fruit/i400',
  '/api/fruit?filter={"order":"n DESC"}',
  '/api/fruit/i7/history',
  '/api/fruit/i7?at=1',
  '/api/fruit/i7/proof',
  '/api/fruit/i3/attachments',
  '/api/fruit/i3/attachments/photo',
  '/api/ledgers?serverid=SERVER',
  '/api/ledgers/SERVER/checkpoint',
  '/api/ledgers/SERVER/consistency?from=1',
  '/api/ledgers/SERVER/tile/0/000.p/2',
  '/metrics',
]

interface Node {
  readonly ledger: string
  readonly gateway: string
}

/** Sends a request. Returns its status and text, or null if the connection closed before the end of the reply. */
async function send(
  url: string,
  method = 'GET',
  body?: string,
): Promise<{ status: number; text: string } | null> {
  const json = { 'content-type': 'application/json' }
  const sent = body === undefined ? {} : { body, headers: json }
  try {
    const reply = await fetch(url, { method, ...sent, signal: AbortSignal.timeout(20_000) })
    return { status: reply.status, text: await reply.text() }
  } catch {
    return null
  }
}

/** Calls every endpoint once. Returns a description of each call that did not return 200. */
async function callAll({ ledger, gateway }: Node, round: number): Promise<string[]> {
  const refused: string[] = []
  const call = async (url: string, method?: string, body?: string) => {
    const reply = await send(url, method, body)
    if (reply?.status !== 200)
      refused.push(`${method ?? 'GET'} ${url} ${reply?.status ?? 'ended'} ${reply?.text}`)
    return reply
  }
  const id = await call(`${ledger}/api/serverid`)
  const serverId = /\d+/.exec(id?.text ?? '')?.[0] ?? ''
  for (const path of READS) await call(ledger + path.replace('SERVER', serverId))
  await call(`${ledger}/api/fruit/i5`, 'POST', `{"n":${round}}`)
  await call(`${ledger}/api/fruit/i6`, 'PATCH', `{"n":${round}}`)
  await call(`${ledger}/api/fruit`, 'POST', `{"id":"round ${round}"}`)
  await call(`${ledger}/api/fruit/i4/attachments/photo`, 'PUT', `"${round}"`)
  await call(`${gateway}/api/Commodity`)
  await call(
    `${gateway}/api/Commodity`,
    'POST',
    `{"tradingSymbol":"s${round}","description":"","mainExchange":"","quantity":1,"owner":"resource:org.acme.mynetwork.Trader#a"}`,
  )
  return refused
}

async function fill(folder: string): Promise<void> {
  const program = startProgram(ARGUMENTS, { SYSTEM_FOLDER: folder, LOG_LEVEL: 'silent' })
  const { ledger }: Node = JSON.parse(await program.firstLine)
  await send(`${ledger}/api/fruit`, 'POST')
  const items = Array.from({ length: ITEMS }, (_, n) => ({ id: `i${n}`, n, text: 'x'.repeat(60) }))
  await send(`${ledger}/api/fruit`, 'POST', JSON.stringify(items))
  for (let n = 0; n < 100; n += 1) await send(`${ledger}/api/fruit/i${n}`, 'POST', `{"n":${n}}`)
  for (let n = 0; n < 5; n += 1)
    await send(`${ledger}/api/fruit/i${n}/attachments/photo`, 'PUT', '"x"')
  program.child.kill('SIGTERM')
  await program.ended
}

/**
 * Result of a run: the violations, and how many requests failed in the first round (null if the node did not
 * start).
 */
interface Run {
  readonly faults: readonly string[]
  readonly refused: number | null
}

/** Runs a node in which the read number `at` of each thread fails. */
async function run(whole: string, at: number): Promise<Run> {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-reads-'))
  cpSync(whole, folder, { recursive: true })
  const via = [
    ...['strace', '-D', '-f', '-qq', '-o', '/dev/null', '-P', join(folder, 'ledger.db')],
    ...['-e', 'trace=pread64', '-e', `inject=pread64:error=EIO:when=${at}`],
  ]
  const program = startProgram(ARGUMENTS, { SYSTEM_FOLDER: folder, LOG_LEVEL: 'error' }, { via })
  const { child, ended } = program
  const timer = setTimeout(() => child.kill('SIGKILL'), RUN_MS_MAX)
  try {
    const line = await program.firstLine.catch(() => null)
    if (line === null) {
      const { code, stderr } = await ended
      const isOneLine = code === 78 && /^daicho: [^\n]+\n$/.test(stderr)
      return { faults: isOneLine ? [] : [`start: ${code} ${stderr}`], refused: null }
    }
    const node: Node = JSON.parse(line)
    const first = await callAll(node, 1)
    const faults = first.filter((text) => / 500 /.test(text))
    // A thread that has read less than the others may fail in a later round, so up to seven rounds are allowed.
    let refused = await callAll(node, 2)
    for (let round = 3; refused.length > 0 && round < 8; round += 1)
      refused = await callAll(node, round)
    for (const text of refused) faults.push(`does not recover: ${text}`)
    const ready = await send(`${node.ledger}/readyz`)
    if (ready?.status !== 200) faults.push(`readyz: ${ready?.text}`)
    child.kill('SIGTERM')
    const { code, stderr } = await ended
    if (code !== 0 || stderr.includes('    at '))
      faults.push(`end: ${code} ${stderr.slice(0, 2_000)}`)
    return { faults, refused: first.length }
  } finally {
    clearTimeout(timer)
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGKILL')
      await once(child, 'close')
    }
    rmSync(folder, { recursive: true, force: true })
  }
}

const whole = mkdtempSync(join(tmpdir(), 'daicho-reads-'))
let failed = 0
try {
  await fill(whole)
  const last = Number(flags.at ?? flags.runs)
  for (let at = Number(flags.at ?? 1); at <= last; at += 1) {
    const { faults, refused } = await run(whole, at)
    if (faults.length > 0) failed += 1
    const summary = refused === null ? 'start refused' : `${refused} requests refused`
    process.stdout.write(
      `${at}: ${summary}; ${faults.length === 0 ? 'passed' : faults.join('\n   ')}\n`,
    )
  }
} finally {
  rmSync(whole, { recursive: true, force: true })
}
process.exitCode = failed === 0 ? 0 : 1
