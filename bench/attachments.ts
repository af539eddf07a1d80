// Measures uploads and downloads of attachments of 1 GiB, with their memory use, and resumes an interrupted download.
//   npm run bench -- attachments [MiB]
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { median, printTable } from './support/load.ts'
import { type Server, startBareFiles, startLedger } from './support/server.ts'

const MIB = 1024 * 1024
const ROUNDS = 2
/** Interval between memory samples. */
const SAMPLE_MS = 20

/** Returns a stream of `mib` blocks of 1 MiB, each different, and the SHA-256 of the stream. */
function content(mib: number): { stream: () => Readable; sha256: string } {
  const block = Buffer.allocUnsafe(MIB)
  for (let at = 0; at < MIB; at += 1) block[at] = (at * 31 + (at >> 8)) & 255
  const blocks = function* () {
    for (let at = 0; at < mib; at += 1) {
      const copy = Buffer.from(block)
      copy.writeUInt32BE(at)
      yield copy
    }
  }
  const hash = createHash('sha256')
  for (const one of blocks()) hash.update(one)
  return {
    stream: () => Readable.from(blocks(), { objectMode: false }),
    sha256: hash.digest('hex'),
  }
}

function ask(
  url: string,
  options: { method: string; headers?: Record<string, string> },
  body?: Readable,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const clientRequest = request(url, options, resolve)
    clientRequest.on('error', reject)
    if (body === undefined) clientRequest.end()
    else pipeline(body, clientRequest).catch(reject)
  })
}

async function upload(url: string, mib: number, body: Readable): Promise<void> {
  const headers = { 'content-length': String(mib * MIB) }
  const reply = await ask(url, { method: 'PUT', headers }, body)
  reply.resume()
  if (reply.statusCode !== 200) throw new Error(`PUT: ${reply.statusCode}`)
}

/** Reads a reply to the end, or disconnects after `bytesMax` bytes. Returns the number of bytes received. */
async function download(
  url: string,
  headers: Record<string, string>,
  bytesMax: number,
  take: (bytes: Buffer) => void,
): Promise<number> {
  const reply = await ask(url, { method: 'GET', headers })
  let bytes = 0
  for await (const chunk of reply) {
    const part: Buffer = chunk.subarray(0, bytesMax - bytes)
    take(part)
    bytes += part.length
    if (bytes === bytesMax) break
  }
  return bytes
}

/** Runs `work`. Returns its duration, and the increase of the server's resident memory at its peak, in MB. */
async function measured(
  server: Server,
  work: () => Promise<void>,
): Promise<{ seconds: number; extraMb: number }> {
  const before = server.residentMb()
  let most = before
  const timer = setInterval(() => {
    most = Math.max(most, server.residentMb())
  }, SAMPLE_MS)
  const startedAt = performance.now()
  await work()
  const seconds = (performance.now() - startedAt) / 1000
  clearInterval(timer)
  return { seconds, extraMb: Math.max(most, server.residentMb()) - before }
}

interface Side {
  readonly name: string
  readonly start: () => Promise<Server>
  readonly path: string
  readonly in: Sample[]
  readonly out: Sample[]
}

/** Starts a server and sends some requests before `work`, so that the code is loaded and compiled. */
async function fresh(
  { start, path }: Side,
  work: (server: Server, url: string) => Promise<void>,
): Promise<void> {
  const server = await start()
  const url = server.url + path
  try {
    await upload(`${url}-small`, 1, content(1).stream())
    await download(`${url}-small`, {}, Number.POSITIVE_INFINITY, () => {})
    await work(server, url)
  } finally {
    await server.stop()
  }
}

export async function run([size = '1024']: readonly string[]): Promise<void> {
  const mib = Number(size)
  const { stream, sha256 } = content(mib)
  const folder = mkdtempSync(join(tmpdir(), 'daicho-bench-'))
  const bareFolder = mkdtempSync(join(tmpdir(), 'daicho-bench-'))
  const sides: Side[] = [
    {
      name: 'daicho',
      start: () => startLedger(folder),
      path: '/api/films/a/attachments/film',
      in: [],
      out: [],
    },
    {
      name: 'bare server',
      start: () => startBareFiles(bareFolder),
      path: '/film',
      in: [],
      out: [],
    },
  ]
  try {
    await createItem(folder)
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const side of sides) {
        await fresh(side, async (server, url) => {
          side.in.push(await measured(server, () => upload(url, mib, stream())))
        })
        await fresh(side, async (server, url) => {
          side.out.push(
            await measured(server, async () => {
              const bytes = await download(url, {}, Number.POSITIVE_INFINITY, () => {})
              if (bytes !== mib * MIB) throw new Error(`${side.name} sent ${bytes} bytes`)
            }),
          )
        })
      }
    }
    show(mib, sides)
    const [own] = sides
    if (own !== undefined) await fresh(own, (_server, url) => resume(url, mib, sha256))
  } finally {
    rmSync(folder, { recursive: true, force: true })
    rmSync(bareFolder, { recursive: true, force: true })
  }
}

async function createItem(folder: string): Promise<void> {
  const { url, stop } = await startLedger(folder)
  await fetch(`${url}/api/films`, { method: 'POST' })
  const headers = { 'content-type': 'application/json' }
  await fetch(`${url}/api/films`, { method: 'POST', headers, body: '{"id":"a"}' })
  await stop()
}

interface Sample {
  readonly seconds: number
  readonly extraMb: number
}

function show(mib: number, sides: readonly { name: string; in: Sample[]; out: Sample[] }[]): void {
  const seconds = (samples: readonly Sample[]) => median(samples.map((one) => one.seconds))
  const extra = (samples: readonly Sample[]) => Math.max(...samples.map((one) => one.extraMb))
  const rate = (samples: readonly Sample[]) => mib / seconds(samples)
  const [own, other] = sides
  printTable([
    [`${mib} MiB`, 'in MiB/s', 'out MiB/s', 'most extra MB, in', 'most extra MB, out'],
    ...sides.map((side) => [
      side.name,
      rate(side.in).toFixed(0),
      rate(side.out).toFixed(0),
      extra(side.in).toFixed(0),
      extra(side.out).toFixed(0),
    ]),
    [
      'ratio',
      (rate(own?.in ?? []) / rate(other?.in ?? [])).toFixed(2),
      (rate(own?.out ?? []) / rate(other?.out ?? [])).toFixed(2),
    ],
  ])
}

/** Interrupts a download three times and resumes it with Range. Checks the SHA-256 of the result. */
async function resume(url: string, mib: number, sha256: string): Promise<void> {
  const hash = createHash('sha256')
  let have = 0
  let requests = 0
  while (have < mib * MIB) {
    requests += 1
    const headers = have === 0 ? {} : { range: `bytes=${have}-`, 'if-range': `"${sha256}"` }
    const bytesMax = requests > 3 ? Number.POSITIVE_INFINITY : Math.ceil((mib * MIB) / 4) + 13
    have += await download(url, { ...headers }, bytesMax, (bytes) => hash.update(bytes))
  }
  const same = hash.digest('hex') === sha256
  console.log(
    `resumed by Range in ${requests} requests: ${same ? 'the same bytes' : 'OTHER BYTES'}`,
  )
  if (!same) process.exitCode = 1
}
