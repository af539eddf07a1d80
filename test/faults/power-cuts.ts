// Simulates power cuts on a real file system. Every acknowledged write must survive.
//
//   node scripts/run.mjs test/faults/power-cuts.ts [--cuts 100] [--fs xfs|ext4] [--seed 1] [--control]
//     [--program src/cli/main.ts]
//
// Needs root on Linux, and the Debian packages xfsprogs, e2fsprogs and util-linux; --control needs strace.
//
// The node's folder is on a file system in an image file in a tmpfs. To cut the power, the run calls the shutdown ioctl
// of the file system without a flush of its log, so pages that were not synced are gone after the next mount.
//
// Before every second cut, the disk fails once: the run punches holes into the image where the next frames of
// `ledger.db-wal` go, and fills the tmpfs. Then the kernel fails to write these pages back (EIO) and treats them as
// clean. The node must answer 503. The run repairs the disk, kills the node and starts it again, and the node
// acknowledges more writes before the power cut.
//
// --control makes every fsync a no-op (strace). Such a run must lose writes, otherwise the power cuts are ineffective.
// --program runs another version of daicho, for example from a worktree without a fix.
//
// 100 cuts take about 8 minutes, and a run ends after 30 minutes. Exit code 0: no write is lost; with --control, at
// least one is lost.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { openStoreReader, StoreError, type StoreReader } from '../../src/storage/index.ts'
import { Dice } from '../support/ledger-load.ts'

const { values: flags } = parseArgs({
  options: {
    cuts: { type: 'string', default: '100' },
    fs: { type: 'string', default: 'xfs' },
    seed: { type: 'string', default: '1' },
    control: { type: 'boolean', default: false },
    program: { type: 'string', default: 'src/cli/main.ts' },
  },
})
const RUN_MS_MAX = 30 * 60_000
const CLIENTS = 4
/** Size of the image, MiB. XFS requires at least 300. */
const IMAGE_MB = 384
const PAGE_BYTES = 4_096
const WAL_HEADER_BYTES = 32
const FRAME_BYTES = 24 + PAGE_BYTES
/** Bytes after the last WAL frame that cannot be written while the disk fails. */
const FAILING_BYTES = 1024 * 1024
/** Command prefix that makes every sync a no-op. `-D` keeps the node a direct child of this process. */
const WITHOUT_SYNC = [
  ...['strace', '-D', '-f', '-qq', '--seccomp-bpf', '-o', '/dev/null'],
  ...['-e', 'trace=fsync,fdatasync', '-e', 'inject=fsync,fdatasync:retval=0'],
]

const run = (program: string, ...args: string[]) =>
  execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })

/** A file system with simulated power cuts and a disk that can fail. */
class Disk {
  readonly #memory = mkdtempSync(join(tmpdir(), 'daicho-power-'))
  readonly #image = join(this.#memory, 'image')
  readonly path: string = join(this.#memory, 'disk')

  constructor(kind: string) {
    run('mount', '-t', 'tmpfs', '-o', `size=${IMAGE_MB + 64}m`, 'tmpfs', this.#memory)
    run('truncate', '-s', `${IMAGE_MB}M`, this.#image)
    if (kind === 'xfs') run('mkfs.xfs', '-q', '-K', this.#image)
    else run('mkfs.ext4', '-q', '-F', '-E', 'nodiscard', this.#image)
    // Allocates memory for the whole image, so that later only the punched holes can fail.
    run('fallocate', '-l', `${IMAGE_MB}M`, this.#image)
    mkdirSync(this.path)
    this.mount()
  }

  mount(): void {
    run('mount', '-o', 'loop', this.#image, this.path)
  }

  cutPower(): void {
    run('xfs_io', '-x', '-c', 'shutdown', this.path)
  }

  unmount(): void {
    run('umount', this.path)
  }

  /** Makes writes fail in the `bytes` bytes of the file that start at `offset`. */
  fail(path: string, offset: number, bytes: number): void {
    for (const line of run('filefrag', '-e', '-b1', path).split('\n')) {
      const [, logical, physical, length] =
        /^\s*\d+:\s*(\d+)\.\.\s*\d+:\s*(\d+)\.\.\s*\d+:\s*(\d+):/.exec(line)?.map(Number) ?? []
      if (logical === undefined || physical === undefined || length === undefined) continue
      const from = Math.max(offset, logical)
      const to = Math.min(offset + bytes, logical + length)
      const place = physical + from - logical
      if (from < to) run('fallocate', '-p', '-o', `${place}`, '-l', `${to - from}`, this.#image)
    }
    const { bavail, bsize } = statfsSync(this.#memory)
    run('fallocate', '-l', `${bavail * bsize}`, join(this.#memory, 'filler'))
  }

  work(): void {
    rmSync(join(this.#memory, 'filler'))
  }

  remove(): void {
    for (const path of [this.path, this.#memory]) {
      try {
        run('umount', '-l', path)
      } catch {
        // Ignored: the file system was not mounted.
      }
    }
    rmSync(this.#memory, { recursive: true, force: true })
  }
}

interface Node {
  readonly url: string
  readonly child: ChildProcess
  readonly ended: Promise<unknown>
}

const program = resolve(String(flags.program))
const command = (...args: string[]) => [
  process.execPath,
  '--disable-warning=ExperimentalWarning',
  program,
  ...args,
]

/** Starts a node. If the node refuses to start, prints its stderr and returns null. */
async function start(folder: string): Promise<Node | null> {
  const [first = '', ...rest] = [
    ...(flags.control === true ? WITHOUT_SYNC : []),
    ...command('serve', '--only', 'ledger', '--port', '0', '--json'),
  ]
  const child = spawn(first, rest, {
    env: { ...process.env, SYSTEM_FOLDER: folder, LOG_LEVEL: 'silent' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const ended = once(child, 'close')
  let [stdout, stderr] = ['', '']
  child.stderr?.on('data', (bytes) => {
    stderr += bytes
  })
  await new Promise<void>((done) => {
    child.stdout?.on('data', (bytes) => {
      stdout += bytes
      if (stdout.includes('\n')) done()
    })
    void ended.then(() => done())
  })
  if (stdout !== '') return { url: JSON.parse(stdout).ledger, child, ended }
  console.log(`  the node does not start: ${stderr.trim()}`)
  return null
}

async function kill({ child, ended }: Node): Promise<void> {
  child.kill('SIGKILL')
  await ended
}

const dice = new Dice(Number(flags.seed))
let number = 0
/** Text of each acknowledged item, by id. */
const acknowledged = new Map<string, string>()
let total = 0

async function send(url: string, path: string, body?: unknown): Promise<number> {
  const reply = await fetch(url + path, {
    method: 'POST',
    ...(body === undefined
      ? {}
      : { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
  })
  await reply.text()
  return reply.status
}

async function create(url: string): Promise<number> {
  number += 1
  const id = `n${number}`
  const text = String(number).repeat(1 + dice.below(2_000))
  const status = await send(url, '/api/d', { id, text })
  if (status === 200) {
    acknowledged.set(id, text)
    total += 1
  }
  return status
}

/** Writes with several clients. Calls `cut` when `count` more writes are acknowledged, while the clients continue. */
async function writeUntil(url: string, count: number, cut: () => void): Promise<void> {
  const until = total + count
  let isCut = false
  const client = async () => {
    while (!isCut && (await create(url)) === 200) {
      if (total < until || isCut) continue
      isCut = true
      cut()
    }
  }
  // A client ends without a reply when the power cut breaks its connection.
  await Promise.all(Array.from({ length: CLIENTS }, () => client().catch(() => {})))
  if (!isCut) throw new Error('the node refused writes before the power was cut')
}

/** Returns the offset after the last WAL frame that a recovery would accept. */
function endOfFrames(wal: Buffer): number {
  let end = WAL_HEADER_BYTES
  while (wal.length >= end + FRAME_BYTES) {
    if (wal.compare(wal, 16, 24, end + 8, end + 16) !== 0) break
    end += FRAME_BYTES
  }
  return end
}

/** Makes writes to the WAL fail until the node answers 503, then repairs the disk. */
async function failOnce(disk: Disk, folder: string, url: string): Promise<void> {
  const path = join(folder, 'ledger.db-wal')
  const statuses = new Set<number>()
  // Up to three attempts: after a checkpoint of the WAL, the next frames go to its beginning instead of its end.
  for (let attempt = 0; attempt < 3 && !statuses.has(503); attempt += 1) {
    const wal = readFileSync(path)
    const from = Math.ceil(endOfFrames(wal) / PAGE_BYTES) * PAGE_BYTES
    // Only pages that exist in the image can fail, so the file is extended. Zeros are not a valid frame, so the node
    // overwrites them.
    const missing = from + FAILING_BYTES - wal.length
    if (missing > 0) {
      appendFileSync(path, Buffer.alloc(missing))
      execFileSync('sync', [path])
    }
    disk.fail(path, from, FAILING_BYTES)
    for (let tries = 0; tries < 20 && !statuses.has(503); tries += 1)
      statuses.add(await create(url))
    disk.work()
  }
  if (!statuses.has(503)) throw new Error(`the disk failed, but the node answered ${[...statuses]}`)
}

/** Returns how many acknowledged items are missing from the store or differ, and removes them from `acknowledged`. */
async function takeLost(folder: string): Promise<number> {
  const left = new Map(acknowledged)
  let store: StoreReader | null = null
  try {
    store = await openStoreReader(folder, { frozen: true })
    const [database] = await store.databases()
    for (let after = -1; database !== undefined; ) {
      const page = await store.listItems(database.created, { after, limit: 500 })
      for (const { text } of page) {
        const item = JSON.parse(text)
        if (left.get(item.id) === item.text) left.delete(item.id)
      }
      const last = page.at(-1)
      if (last === undefined) break
      after = last.created
    }
  } catch (error) {
    // If the store cannot be read, all acknowledged writes count as lost.
    if (!(error instanceof StoreError)) throw error
  } finally {
    await store?.close()
  }
  for (const id of left.keys()) acknowledged.delete(id)
  return left.size
}

async function main(): Promise<void> {
  const startedMs = Date.now()
  const disk = new Disk(String(flags.fs))
  const counts = {
    cuts: 0,
    afterErrors: 0,
    acknowledged: 0,
    lost: 0,
    cutsThatLost: 0,
    unverified: 0,
  }
  let running: Node | null = null
  let isStopped = false
  for (const signal of ['SIGINT', 'SIGTERM']) {
    process.on(signal, () => {
      isStopped = true
    })
  }
  try {
    let folder = join(disk.path, 'data-0')
    for (let cut = 1; cut <= Number(flags.cuts) && !isStopped; cut += 1) {
      isStopped = Date.now() - startedMs > RUN_MS_MAX
      running = await start(folder)
      if (running === null) {
        // After the last cut, the store cannot be opened, so the run continues in a new folder.
        folder = join(disk.path, `data-${cut}`)
        acknowledged.clear()
        running = await start(folder)
      }
      if (running === null) throw new Error('the node does not start, even in a new folder')
      await send(running.url, '/api/d')
      for (let writes = dice.below(30); writes >= 0; writes -= 1) await create(running.url)
      const hasError = cut % 2 === 0 && flags.control !== true
      if (hasError) {
        await failOnce(disk, folder, running.url)
        await kill(running)
        running = await start(folder)
        if (running === null) throw new Error('the node does not start after a transient error')
        counts.afterErrors += 1
      }
      await writeUntil(running.url, 1 + dice.below(60), () => disk.cutPower())
      await kill(running)
      disk.unmount()
      disk.mount()
      const lost = await takeLost(folder)
      counts.cuts += 1
      counts.acknowledged = total
      counts.lost += lost
      if (lost > 0) counts.cutsThatLost += 1
      try {
        run(...(command('verify', folder) as [string, ...string[]]))
      } catch {
        counts.unverified += 1
      }
      if (lost > 0) console.log(`  cut ${cut}${hasError ? ' after an error' : ''}: ${lost} lost`)
    }
  } finally {
    if (running !== null) await kill(running)
    disk.remove()
  }
  const seconds = Math.round((Date.now() - startedMs) / 1000)
  console.log(
    `${flags.fs}${flags.control === true ? ', syncs disabled' : ''}: ${counts.cuts} power cuts, ` +
      `${counts.afterErrors} after a transient error; ${counts.acknowledged} writes acknowledged, ` +
      `${counts.lost} lost by ${counts.cutsThatLost} cuts; ${counts.unverified} stores did not verify; ${seconds} s`,
  )
  const isAsExpected =
    flags.control === true ? counts.lost > 0 : counts.lost + counts.unverified === 0
  process.exitCode = isAsExpected ? 0 : 1
}

await main()
