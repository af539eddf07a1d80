import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs'
import { join, relative } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { PostgresPrograms } from '../postgres/programs.ts'
import { PostgresServer } from '../postgres/server.ts'
import { PageImages } from './packed-pages.ts'
import { unpackedValues, walRecords } from './postgres-pages.ts'
import { type Daicho, startProgram } from './program.ts'
import { until } from './until.ts'

/** Number of items per block. The blocks of the deleted database are so long that the store compresses them. */
const BATCH = 10
const LONG_BATCH = 200
/** Number of items of 1 MB. They make the store so large that its rewriting does not fit on the full disk. */
const BALLAST = 6
/** Start of every text that is erased, and number of digits after it. */
const MARKER = 'marker-'
const MARKER_HEX = 24
const WORDS = 'a text that repeats itself, '.repeat(25)
const DISK_MB = 200
/** Settings of the write-ahead log, and the number of segments of 16 MB that overwrite all others with these settings. */
const WAL_SETTINGS = { min_wal_size: '32MB', max_wal_size: '64MB', wal_keep_size: '0' }
const LOG_SEGMENTS = 8
/** Items of the deleted database for which the disk has another MB: its file is rewritten, which needs two more copies. */
const ITEMS_PER_MB = 80
/** Maximum delay of the kill after the start of an erasure of many items, milliseconds. */
const KILL_MS_MAX = 1_500
const LEFT_BYTES = 4_000_000

export interface ErasingOptions {
  /** An empty folder. */
  readonly folder: string
  readonly markers: number
  /** Number of items of the deleted database; by default, a tenth of `markers`. */
  readonly gone?: number
  /** If not null, the store is a PostgreSQL database on a server of its own. */
  readonly programs: PostgresPrograms | null
  readonly log: (line: string) => void
}

export interface ErasingResult {
  /** Number of texts that were searched for. All of them were in the files before. */
  readonly erased: number
  /** Files that still contain erased texts, as `<folder>/<path>` without the names of segments, with their numbers. */
  readonly left: Readonly<Record<string, number>>
  /** The same of the files of the PostgreSQL server, after its write-ahead log was filled: docs/how-to/postgres.md. */
  readonly leftLater: Readonly<Record<string, number>>
  /** Whether the disk was filled, which needs root on Linux. */
  readonly wasFull: boolean
  /** Exit code of `daicho verify` of each folder, of the backup, and of the proof file of another item. */
  readonly verified: readonly (number | null)[]
}

interface Running extends Daicho {
  readonly url: string
}

/**
 * Erases items and attachments of every kind at a node with a mirror: replaced, deleted, of a removed index and of a
 * deleted database, one by one and many at once. Meanwhile, the node is killed, and then its disk is full. When the metric
 * of both nodes is 0, searches all their files, also what is compressed in them, an export and a backup for the erased texts.
 */
export async function runErasing(options: ErasingOptions): Promise<ErasingResult> {
  const { folder, programs, log } = options
  const server =
    programs === null ? null : await PostgresServer.create(programs, 'erasing', WAL_SETTINGS)
  const data = join(folder, 'node')
  mkdirSync(data)
  const disk = server === null ? data : join(server.data, 'base')
  const gone = options.gone ?? Math.ceil(options.markers / 10)
  const wasFull = mount(disk, DISK_MB + Math.ceil(gone / ITEMS_PER_MB))
  const nodes = new Set<Daicho>()
  const start = async (path: string, variables: Record<string, string> = {}): Promise<Running> => {
    const fixed = { SYSTEM_FOLDER: path, LOG_LEVEL: 'silent', PEERS_ALLOW_PRIVATE: '1' }
    const args = ['serve', '--only', 'ledger', '--port', '0', '--json']
    const node = startProgram(args, { ...fixed, ...variables })
    nodes.add(node)
    return { ...node, url: JSON.parse(await node.firstLine).ledger }
  }
  try {
    await server?.start()
    const store: Record<string, string> = server === null ? {} : { STORE: server.url() }
    const node = await start(data, store)
    const mirror = await start(join(folder, 'mirror'))
    await addPeer(mirror.url, node.url)
    const texts = await fill(node.url, options.markers, gone)
    const proof = await saveProof(node.url, folder)
    await isMirrored(mirror.url, node.url)
    await server?.query('ANALYZE')
    await server?.query('CHECKPOINT')
    const before = scan([folder, server?.data])
    const missing = texts.filter((text) => !before.has(text))
    if (missing.length > 0) throw new Error(`not in the files before: ${missing.length} texts`)
    // In the store of the node, in the WAL of its server, and in the mirror.
    const places = server === null ? ['node', 'mirror'] : ['base/', 'pg_wal', 'mirror']
    for (const place of places) {
      const packed = texts.filter((text) =>
        [...(before.get(text) ?? [])].some((found) => found.startsWith(`compressed in ${place}`)),
      )
      // Of many items, the server has removed the first segments of the WAL.
      const required = place === 'pg_wal' ? 1 : gone
      if (packed.length < required)
        throw new Error(`compressed in ${place}: ${packed.length} texts`)
    }
    log(`${texts.length} texts are in the files: ${JSON.stringify(countPlaces(before, texts))}`)

    await erase(node.url, options.markers)
    const erasing = eraseDeleted(node.url).catch(() => {})
    await delay(KILL_MS_MAX * Math.random())
    node.child.kill('SIGKILL')
    await Promise.all([node.ended, erasing])
    if (wasFull) fillDisk(disk)
    const next = join(folder, 'next')
    if (server !== null) mkdirSync(next)
    if (server !== null) copyFileSync(join(data, 'node.key'), join(next, 'node.key'))
    const other = await start(server === null ? data : next, store)
    await send(other.url, 'POST', '/api/people/last/erase')
    if (wasFull) await until('the erasure waits for space', async () => (await due(other.url)) > 0)
    log(
      `after the kill${wasFull ? ', on a full disk' : ''}: ${await due(other.url)} are unfinished`,
    )
    rmSync(join(disk, 'filler'), { force: true })
    const started = performance.now()
    log(`${await eraseDeleted(other.url)} in ${Math.round(performance.now() - started)} ms`)
    // The mirror follows the new address.
    await addPeer(mirror.url, other.url)
    await isMirrored(mirror.url, other.url)
    for (const { url } of [other, mirror]) {
      await until('all erasures are finished', async () => (await due(url)) === 0)
    }
    const from = server === null ? data : server.url()
    const [exported, backups] = [join(folder, 'export.ndjson'), join(folder, 'backups')]
    await startProgram(['export', from, '--out', exported]).ended
    if (server === null) await startProgram(['backup', data, backups]).ended
    await server?.query('CHECKPOINT')
    const left = countPlaces(scan([folder, server?.data]), texts)
    if (server !== null) await fillLog(server)
    const leftLater = countPlaces(scan([server?.data]), texts)
    const mirrors = readdirSync(join(folder, 'mirror', 'mirrors'))
    const copies =
      server === null
        ? readdirSync(backups)
            .filter((name) => name !== '.lock')
            .map((name) => join(backups, name))
        : []
    const stores = [
      from,
      ...mirrors.map((name) => join(folder, 'mirror', 'mirrors', name)),
      ...copies,
    ]
    const verified: (number | null)[] = []
    await startProgram(['verify', ...proof]).ended.then(({ code }) => verified.push(code))
    for (const path of stores) verified.push((await startProgram(['verify', path]).ended).code)
    return { erased: texts.length, left, leftLater, wasFull, verified }
  } finally {
    for (const { child } of nodes) child.kill('SIGKILL')
    await Promise.all([...nodes].map(({ ended }) => ended))
    await server?.stop('immediate')
    if (wasFull) spawnSync('umount', ['-l', disk])
  }
}

/** Mounts a small disk at `path` with the same files. Returns false if this process cannot mount one. */
function mount(path: string, megabytes: number): boolean {
  const temporary = `${path}.disk`
  mkdirSync(temporary)
  const size = `size=${megabytes}m`
  const isMounted = spawnSync('mount', ['-t', 'tmpfs', '-o', size, 'tmpfs', temporary]).status === 0
  if (isMounted) {
    spawnSync('cp', ['-a', `${path}/.`, temporary])
    spawnSync('mount', ['--bind', temporary, path])
    spawnSync('umount', [temporary])
  }
  rmSync(temporary, { recursive: true })
  return isMounted
}

function fillDisk(path: string): void {
  const { bavail, bsize } = statfsSync(path)
  writeFileSync(join(path, 'filler'), Buffer.alloc(bavail * bsize - LEFT_BYTES))
}

async function send(url: string, method: string, path: string, body?: unknown): Promise<void> {
  const isText = typeof body === 'string'
  // The node closes idle connections, and searching files takes long.
  const headers = {
    connection: 'close',
    ...(body === undefined ? {} : { 'content-type': isText ? 'text/plain' : 'application/json' }),
  }
  const content = body === undefined ? null : isText ? body : JSON.stringify(body)
  const reply = await fetch(url + path, { method, headers, body: content })
  if (!reply.ok) throw new Error(`${method} ${path}: ${reply.status} ${await reply.text()}`)
}

/** Returns the ids of the items with one part of the texts. */
const idsOf = (markers: number) => Array.from({ length: markers }, (_, n) => `i${n}`)

/** Stores items and attachments, and then replaces or deletes all of them. Returns their texts. */
async function fill(url: string, markers: number, gone: number): Promise<string[]> {
  const texts: string[] = []
  const text = (length: number) => {
    const made = MARKER + randomBytes(MARKER_HEX / 2).toString('hex')
    texts.push(made)
    return `${made} ${randomBytes(length).toString('base64')}`
  }
  const ids = idsOf(markers)
  const post = async (db: string, items: readonly object[], batch = BATCH) => {
    for (let at = 0; at < items.length; at += batch) {
      await send(url, 'POST', `/api/${db}`, items.slice(at, at + batch))
    }
  }
  for (const db of ['people', 'gone']) await send(url, 'POST', `/api/${db}`)
  await send(url, 'POST', '/api/config/indexes', { db: 'people', path: 'note' })
  for (let n = 0; n < BALLAST; n += 1) {
    // Random, because PostgreSQL compresses texts.
    const note = randomBytes(750_000).toString('base64')
    await send(url, 'POST', '/api/people', { id: `ballast${n}`, note })
  }
  await post('people', [{ id: 'last', note: text(10) }])
  await post(
    'people',
    ids.map((id, n) => ({ id, note: text((n % 10) * 300) })),
  )
  await post(
    'gone',
    // PostgreSQL compresses them, because they repeat themselves.
    Array.from({ length: gone }, (_, n) => ({ id: `g${n}`, note: text(0) + WORDS })),
    LONG_BATCH,
  )
  await send(url, 'PUT', '/api/gone/g0/attachments/file', text(100))
  for (const id of ids.slice(0, markers / 10)) {
    await send(url, 'PUT', `/api/people/${id}/attachments/file`, text(5_000))
    await send(url, 'DELETE', `/api/people/${id}/attachments/file`)
  }
  for (const [n, id] of ids.entries()) {
    if (n % 2 === 0) await send(url, 'POST', `/api/people/${id}`, { note: 'new' })
    else await send(url, 'DELETE', `/api/people/${id}`)
  }
  await send(url, 'POST', '/api/people/last', { note: 'new' })
  return texts
}

/**
 * Erases the former revisions of all items but `last`, half of them at once, after an index was removed and a database was
 * deleted.
 */
async function erase(url: string, markers: number): Promise<void> {
  await send(url, 'DELETE', '/api/config/indexes', { db: 'people', path: 'note' })
  await send(url, 'DELETE', '/api/gone')
  const ids = idsOf(markers)
  const half = Math.ceil(markers / 2)
  for (const id of ids.slice(0, half)) await send(url, 'POST', `/api/people/${id}/erase`)
  await send(url, 'POST', '/api/config/erasures', { db: 'people', ids: ids.slice(half) })
}

/** Erases the deleted database, and returns the output. */
async function eraseDeleted(url: string): Promise<string> {
  const args = ['erase', 'gone', '--deleted', '--reason', 'the end', '--url', url]
  const { stdout, stderr, code } = await startProgram(args).ended
  if (code !== 0) throw new Error(`the erasure failed: ${stderr}`)
  return stdout.trim()
}

/** Saves the proof of an item that is not erased. Returns the arguments of `verify`. */
async function saveProof(url: string, folder: string): Promise<string[]> {
  const [proof, key] = [join(folder, 'ballast.tlog-proof'), join(folder, 'vkey')]
  writeFileSync(proof, await readText(`${url}/api/people/ballast0/proof`))
  writeFileSync(key, await readText(`${url}/api/ledgers/${await serverId(url)}/vkey`))
  return [proof, '--key', key]
}

async function readText(url: string): Promise<string> {
  // See `send`.
  return (await fetch(url, { headers: { connection: 'close' } })).text()
}

async function serverId(url: string): Promise<string> {
  return String(JSON.parse(await readText(`${url}/api/serverid`)).serverid)
}

async function addPeer(url: string, peer: string): Promise<void> {
  const vkey = (await readText(`${peer}/api/ledgers/${await serverId(peer)}/vkey`)).trim()
  await send(url, 'POST', '/api/config/peers', { vkey, url: peer })
}

/** Waits until the node at `url` has all blocks of `peer`. */
async function isMirrored(url: string, peer: string): Promise<void> {
  const id = await serverId(peer)
  const size = async (at: string) => {
    const [, blocks] = (await readText(`${at}/api/ledgers/${id}/checkpoint`)).split('\n')
    return Number(blocks)
  }
  await until('the mirror has all blocks', async () => (await size(url)) === (await size(peer)))
}

/** Returns the number of unfinished erasures. */
async function due(url: string): Promise<number> {
  const found = /^daicho_erasures_unfinished (\d+)$/m.exec(await readText(`${url}/metrics`))
  return Number(found?.[1] ?? Number.NaN)
}

/** Returns the number of `texts` in each place. */
function countPlaces(
  found: ReadonlyMap<string, ReadonlySet<string>>,
  texts: readonly string[],
): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const place of texts.flatMap((text) => [...(found.get(text) ?? [])])) {
    counts[place] = (counts[place] ?? 0) + 1
  }
  return counts
}

/** Overwrites the segments of the write-ahead log, as docs/how-to/postgres.md says. */
async function fillLog(server: PostgresServer): Promise<void> {
  for (let n = 0; n < LOG_SEGMENTS; n += 1) {
    await server.query(
      "SELECT pg_logical_emit_message(false, 'x', repeat(md5(random()::text), 500000))",
    )
  }
}

/** Returns no bytes for a file that a running server has removed. */
function readIfThere(path: string): Buffer {
  try {
    return readFileSync(path)
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return Buffer.of()
    throw error
  }
}

/** Returns, for each marker in the bytes of a file or in what is compressed in it, the files that contain it. */
function scan(folders: readonly (string | undefined)[]): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>()
  const databases = new Map<string, PageImages>()
  const add = (bytes: Buffer, place: string) => {
    for (let at = bytes.indexOf(MARKER); at !== -1; at = bytes.indexOf(MARKER, at + 1)) {
      const marker = bytes.toString('latin1', at, at + MARKER.length + MARKER_HEX)
      found.set(marker, (found.get(marker) ?? new Set()).add(place))
    }
  }
  for (const folder of folders) {
    if (folder === undefined) continue
    for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile() || entry.name === 'filler') continue
      const path = join(entry.parentPath, entry.name)
      const place = relative(folder, path).replace(/^pg_wal\/.*/, 'pg_wal')
      const bytes = readIfThere(path)
      add(bytes, place)
      if (place === 'pg_wal')
        for (const value of unpackedValues(walRecords(bytes))) add(value, `compressed in ${place}`)
      if (place.startsWith('base/'))
        for (const value of unpackedValues(bytes)) add(value, `compressed in ${place}`)
      const database = place.replace(/-wal$/, '')
      const images = databases.get(database) ?? new PageImages()
      images.add(bytes)
      databases.set(database, images)
    }
  }
  for (const [database, images] of databases) {
    for (const value of images.unpacked()) add(value, `compressed in ${database}`)
  }
  return found
}
