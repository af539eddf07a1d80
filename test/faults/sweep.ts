// Makes single file system calls fail. Every acknowledged write must survive each failure.
//
// npm run build && node scripts/run.mjs test/faults/sweep.ts [--minutes 60] [--call fdatasync] [--fault EIO] [--at 7]
//
// Needs Linux and strace (6.1 or newer).
//
// One run starts a node, creates a database, 20 items and an attachment, updates, erases, creates an index, makes a
// backup and stops. A first run without faults counts the calls on the data folder. Then the N-th such call of
// each thread fails with EIO, ENOSPC or EMFILE, or kills the process with SIGKILL: for each call, each fault, each N up
// to 24, and up to 12 evenly spaced N above. Up to N = 8, the run is repeated in a folder whose node
// was killed after the same work. After each run the node starts without faults, `verify` must find no fault, and the
// store must contain everything that was acknowledged and nothing that was never sent. A backup whose command succeeded
// must verify. About 2,000 runs, in shuffled order. Runs that have not started after --minutes are skipped.
//
// --call, --fault and --at choose single faults. Exit code 0: no run violated these rules.
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { Dice } from '../support/ledger-load.ts'
import { type Daicho, type Ended, startProgram } from '../support/program.ts'

const { values: flags } = parseArgs({
  options: {
    minutes: { type: 'string', default: '60' },
    call: { type: 'string' },
    fault: { type: 'string' },
    at: { type: 'string' },
  },
})
const FAULTS = ['EIO', 'ENOSPC', 'EMFILE', 'SIGKILL']
const ITEMS = 20
/** There is a run for each N up to EACH_MAX, and for up to ABOVE evenly spaced N above it. */
const EACH_MAX = 24
const ABOVE = 12
/** For each N up to KILLED_MAX, a second run uses the folder of a killed node. */
const KILLED_MAX = 8
/** Number of parallel runs. More than one, because a run mostly waits. */
const LANES = 3
const START_MS_MAX = 30_000
const REQUEST_MS_MAX = 15_000
const STOP_MS_MAX = 20_000
/** Classes of strace for calls with a path or a descriptor. */
const CALLS = '%file,%desc'
/** Calls in these classes that do not concern files. */
const NOT_OF_FILES = /^(epoll|socket|poll|accept|send|recv|execve|mmap|munmap|ioctl|shutdown|bind)/

interface Fault {
  readonly call: string
  readonly what: string
  readonly at: number
  /** Whether the run uses the folder of a killed node. */
  readonly killed: boolean
}

interface Outcome {
  readonly fired: boolean
  readonly started: boolean
  /**
   * Exit code and stderr of a node that refused to start without exit code 78 and a one-line message, and that
   * was not killed. Otherwise null.
   */
  readonly odd: string | null
  readonly acknowledged: number
  readonly refused: number
  /** Description of the violation, or null. */
  readonly failure: string | null
}

/** The acknowledged changes of a run. Each run uses one database. */
class Acknowledged {
  readonly db: string
  readonly items = new Map<string, string>()
  attachment = false
  erased = false
  index = false
  count = 0
  refused = 0

  constructor(db: string) {
    this.db = db
  }
}

const ATTACHED = Buffer.alloc(300_000, 'attached ')

function traced(log: string, fault: Fault | null, paths: readonly string[]): string[] {
  const call = fault === null ? CALLS : fault.call
  const what = fault?.what === 'SIGKILL' ? 'signal=KILL' : `error=${fault?.what}`
  return [
    ...['strace', '-D', '-f', '-y', '-qq', '-o', log, '-e', `trace=${call}`, '-e', 'signal=none'],
    ...(fault === null ? [] : ['-e', `inject=${call}:${what}:when=${fault.at}`]),
    ...paths.flatMap((path) => ['-P', path]),
  ]
}

async function within<Value>(ms: number, promise: Promise<Value>): Promise<Value | null> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<null>((resolve) => {
    timer = setTimeout(() => resolve(null), ms)
  })
  const value = await Promise.race([promise, late])
  clearTimeout(timer)
  return value
}

/** Starts a node and waits for its URL, which is null if the node exited or did not listen in time. */
async function serve(folder: string, via: readonly string[]): Promise<[Daicho, string | null]> {
  const node = startProgram(
    ['serve', '--only', 'ledger', '--port', '0', '--json'],
    { SYSTEM_FOLDER: folder, LOG_LEVEL: 'silent', UV_THREADPOOL_SIZE: '2' },
    { via },
  )
  const line = await within(
    START_MS_MAX,
    node.firstLine.catch(() => null),
  )
  return [node, line === null ? null : JSON.parse(line).ledger]
}

async function stop(node: Daicho): Promise<Ended> {
  node.child.kill('SIGTERM')
  const ended = await within(STOP_MS_MAX, node.ended)
  if (ended !== null) return ended
  node.child.kill('SIGKILL')
  return node.ended
}

/** Sends the changes of a run. */
async function work(url: string, done: Acknowledged): Promise<void> {
  const ask = async (method: string, path: string, body?: object | Buffer): Promise<boolean> => {
    const isBytes = body instanceof Buffer
    const type = isBytes ? 'application/octet-stream' : 'application/json'
    const status = await fetch(url + path, {
      method,
      signal: AbortSignal.timeout(REQUEST_MS_MAX),
      ...(body === undefined
        ? {}
        : {
            headers: { 'content-type': type },
            body: isBytes ? new Uint8Array(body) : JSON.stringify(body),
          }),
    }).then(
      async (reply) => {
        await reply.arrayBuffer().catch(() => null)
        return reply.status
      },
      () => 0,
    )
    if (status === 200) done.count += 1
    else done.refused += 1
    return status === 200
  }
  const put = async (path: string, id: string, text: string) => {
    // After an unacknowledged update, the text of the item is unknown.
    done.items.delete(id)
    if (await ask('POST', path, { id, text })) done.items.set(id, text)
  }
  const path = `/api/${done.db}`
  await ask('POST', path)
  for (let n = 0; n < ITEMS; n += 1) await put(path, `n${n}`, `text ${n} `.repeat(200))
  done.attachment = await ask('PUT', `${path}/n0/attachments/a`, ATTACHED)
  await put(`${path}/n1`, 'n1', 'updated')
  done.erased = await ask('POST', `${path}/n1/erase`)
  done.index = await ask('POST', '/api/config/indexes', { db: done.db, path: 'text' })
}

/** Returns the missing acknowledged data, or null if nothing is missing. */
async function lostOf(url: string, done: Acknowledged): Promise<string | null> {
  const read = async (path: string) => {
    const reply = await fetch(url + path, { signal: AbortSignal.timeout(REQUEST_MS_MAX) })
    return { status: reply.status, bytes: Buffer.from(await reply.arrayBuffer()) }
  }
  const json = async (path: string) => JSON.parse((await read(path)).bytes.toString())
  const { db } = done
  for (const [id, text] of done.items) {
    const { item } = await json(`/api/${db}/${id}`)
    if (item?.text !== text) return `item ${id} is lost`
  }
  const { items = [] } = await json(`/api/${db}`)
  for (const id of items) if (!/^n1?\d$/.test(id)) return `item ${id} was never sent`
  if (done.attachment) {
    const { bytes } = await read(`/api/${db}/n0/attachments/a`)
    if (!bytes.equals(ATTACHED)) return 'the attachment is lost'
  }
  if (done.erased) {
    const { history } = await json(`/api/${db}/n1/history`)
    if (history.some((one: { item?: { text: string } }) => one.item?.text.startsWith('text 1 '))) {
      return 'the erased revision is still stored'
    }
  }
  const { indexes } = await json('/api/config/indexes')
  const hasIndex = indexes.some((one: { db: string }) => one.db === db)
  return done.index && !hasIndex ? 'the index is lost' : null
}

async function verify(folder: string): Promise<string | null> {
  const { code, stdout, stderr } = await startProgram(['verify', folder, '--json']).ended
  return code === 0 ? null : `verify failed: ${stdout}${stderr}`.trim()
}

/** The folder of a killed node, with its acknowledged changes. */
interface Killed {
  readonly folder: string
  readonly done: Acknowledged
}

async function makeKilled(folder: string): Promise<Killed> {
  mkdirSync(folder)
  const done = new Acknowledged('before')
  const [node, url] = await serve(folder, [])
  if (url !== null) await work(url, done)
  node.child.kill('SIGKILL')
  await node.ended
  return { folder, done }
}

/** Performs one run in the empty folder `place`. */
async function run(
  place: string,
  fault: Fault | null,
  paths: readonly string[],
  killed: Killed | null,
): Promise<Outcome> {
  const folder = join(place, 'data')
  const backups = join(place, 'backups')
  if (killed === null) mkdirSync(folder)
  else cpSync(killed.folder, folder, { recursive: true })
  mkdirSync(backups)
  const done = new Acknowledged('d')
  const via = (log: string) => traced(join(place, log), fault, paths)
  const [node, url] = await serve(folder, via('serve.log'))
  const programs = [node]
  let failure: string | null = null
  if (url !== null) {
    await work(url, done)
    const backup = startProgram(['backup', folder, backups], {}, { via: via('backup.log') })
    programs.push(backup)
    const ended = await within(START_MS_MAX, backup.ended)
    if (ended === null) backup.child.kill('SIGTERM')
    for (const name of ended?.code === 0 ? readdirSync(backups) : []) {
      if (name.startsWith('.')) continue
      const found = await verify(join(backups, name))
      if (found !== null) failure = `the backup does not verify: ${found}`
    }
  }
  const isKilled = programs.some(({ child }) => child.signalCode === 'SIGKILL')
  const { code, stderr } = await stop(node)
  const isPlain = code === 78 && /^daicho: [^\n]*\n$/.test(stderr)
  const odd = url !== null || isKilled || isPlain ? null : `exit ${code}: ${stderr.trim()}`
  const fired =
    isKilled ||
    ['serve.log', 'backup.log'].some((log) => {
      const path = join(place, log)
      return existsSync(path) && readFileSync(path, 'utf8').includes('INJECTED')
    })
  const state = {
    fired,
    odd,
    started: url !== null,
    acknowledged: done.count,
    refused: done.refused,
  }
  const [again, againUrl] = await serve(folder, [])
  if (againUrl === null) {
    again.child.kill('SIGKILL')
    return { ...state, failure: `the node does not start again: ${(await again.ended).stderr}` }
  }
  try {
    failure ??= await lostOf(againUrl, done)
    if (killed !== null) failure ??= await lostOf(againUrl, killed.done)
    return { ...state, failure: failure ?? (await verify(folder)) }
  } finally {
    await stop(again)
  }
}

/**
 * Returns the paths below `place` that a run without faults uses, and the maximum number of each call in one
 * thread.
 */
function callsIn(place: string): { paths: string[]; counts: Map<string, number> } {
  const paths = new Set<string>()
  const perThread = new Map<string, number>()
  const log = ['serve.log', 'backup.log'].map((name) => readFileSync(join(place, name), 'utf8'))
  for (const line of log.join('').split('\n')) {
    const [, thread, call] = /^(\d+) +(\w+)\(/.exec(line) ?? []
    if (call === undefined || NOT_OF_FILES.test(call) || !line.includes(place)) continue
    for (const [path] of line.matchAll(/\/[^"<>, ()]+/g))
      if (path.startsWith(place)) paths.add(path)
    const name = `${thread} ${call}`
    perThread.set(name, (perThread.get(name) ?? 0) + 1)
  }
  const counts = new Map<string, number>()
  for (const [name, count] of perThread) {
    const call = name.split(' ')[1] ?? ''
    counts.set(call, Math.max(counts.get(call) ?? 0, count))
  }
  return { paths: [...paths], counts }
}

function faultsOf(counts: ReadonlyMap<string, number>): Fault[] {
  const faults: Fault[] = []
  for (const [call, count] of counts) {
    if (flags.call !== undefined && flags.call !== call) continue
    const each = Array.from({ length: Math.min(count, EACH_MAX) }, (_, at) => at + 1)
    const step = Math.max(1, Math.ceil((count - EACH_MAX) / ABOVE))
    for (let at = EACH_MAX + step; at <= count; at += step) each.push(at)
    for (const what of FAULTS) {
      if (flags.fault !== undefined && flags.fault !== what) continue
      for (const at of flags.at === undefined ? each : [Number(flags.at)]) {
        faults.push({ call, what, at, killed: false })
        if (at <= KILLED_MAX) faults.push({ call, what, at, killed: true })
      }
    }
  }
  // Shuffled with a fixed seed, so that a run stopped early has tried faults of every kind.
  const dice = new Dice(1)
  return faults
    .map((fault) => ({ fault, key: dice.next() }))
    .sort((one, other) => one.key - other.key)
    .map(({ fault }) => fault)
}

async function main(): Promise<void> {
  const root = mkdtempSync(join(tmpdir(), 'daicho-sweep-'))
  const untilMs = Date.now() + Number(flags.minutes) * 60_000
  const totals = {
    runs: 0,
    fired: 0,
    notStarted: 0,
    odd: 0,
    acknowledged: 0,
    refused: 0,
    failures: 0,
  }
  const perCall = new Map<string, number>()
  let isStopped = false
  for (const signal of ['SIGINT', 'SIGTERM']) {
    process.on(signal, () => {
      isStopped = true
    })
  }
  try {
    // The folder of a lane. The paths that are recorded in lane 0 are changed to the lane of each run.
    const lane = (number: number) => join(root, `${number}`)
    mkdirSync(lane(0))
    const whole = await run(lane(0), null, [], null)
    if (whole.failure !== null || whole.refused > 0) {
      throw new Error(`the run without faults failed: ${JSON.stringify(whole)}`)
    }
    const { paths, counts } = callsIn(lane(0))
    console.log(
      `without faults: ${whole.acknowledged} requests; calls on ${paths.length} paths, most in one thread: ` +
        [...counts].map(([call, count]) => `${call} ${count}`).join(', '),
    )
    const killed = await makeKilled(join(root, 'killed'))
    const faults = faultsOf(counts)
    const planned = faults.length
    const sweep = async (place: string) => {
      const own = paths.map((path) => path.replace(lane(0), place))
      for (;;) {
        const fault = faults.shift()
        if (fault === undefined || isStopped || Date.now() > untilMs) return
        rmSync(place, { recursive: true, force: true })
        mkdirSync(place)
        const outcome = await run(place, fault, own, fault.killed ? killed : null)
        totals.runs += 1
        totals.acknowledged += outcome.acknowledged
        totals.refused += outcome.refused
        if (outcome.fired) totals.fired += 1
        if (outcome.fired) perCall.set(fault.call, (perCall.get(fault.call) ?? 0) + 1)
        if (!outcome.started) totals.notStarted += 1
        const where = fault.killed ? ' after a kill' : ''
        const what = `${fault.call} ${fault.what} at ${fault.at}${where}`
        if (outcome.odd !== null) {
          totals.odd += 1
          console.log(`  ${what}, refused to start: ${outcome.odd.slice(0, 300)}`)
        }
        if (outcome.failure === null) continue
        totals.failures += 1
        console.log(`  ${what}: ${outcome.failure}`)
      }
    }
    await Promise.all(Array.from({ length: LANES }, (_, number) => sweep(lane(number + 1))))
    console.log([...perCall].map(([call, count]) => `${call} ${count}`).join(', '))
    console.log(
      `${totals.runs} of ${planned} runs, ${totals.fired} with a fault that fired; ` +
        `${totals.notStarted} did not start (${totals.odd} not in one line), ${totals.acknowledged} requests acknowledged, ` +
        `${totals.refused} refused or broken off; ${totals.failures} runs failed`,
    )
    process.exitCode = totals.failures === 0 && totals.fired > 0 ? 0 : 1
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
}

await main()
