// Compares the converter with a straightforward implementation. Both convert the same image with the same number of
// columns, in alternating order, each time in a new process. Run: `node bench/converter.ts`.
import { execFile, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { availableParallelism, loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import sharp from 'sharp'
import { WORKER_ENVIRONMENT, WORKER_FLAGS } from '../src/converter/workers.ts'

const ROUNDS = 3
const COLUMNS = 1_000
const PEER_MS_MAX = 600_000
const here = (path: string) => fileURLToPath(new URL(path, import.meta.url))
const PEER = here('./peers/straightforward-converter/')

interface Measured {
  readonly ms: number
  readonly megabytes: number
}

/** Converts an image with daicho, with the flags and the environment of a conversion worker. */
async function ours(image: string, folder: string, ...grid: number[]): Promise<Measured> {
  const arguments_ = [image, join(folder, 'ours.xlsx'), ...grid.map(String)]
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [...WORKER_FLAGS, here('./converter-one.ts'), ...arguments_],
    { env: { ...WORKER_ENVIRONMENT } },
  )
  return JSON.parse(stdout)
}

async function theirs(image: string, folder: string, columns: number): Promise<Measured> {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [join(PEER, 'convert.mjs'), image, join(folder, 'theirs.xlsx'), String(columns)],
    { timeout: PEER_MS_MAX },
  )
  return JSON.parse(stdout)
}

/** Returns a picture of 4000 × 3000 pixels with gradients, texture and noise, similar to a photo. */
async function photo(): Promise<Buffer> {
  const [width, height] = [4_000, 3_000]
  const rgb = Buffer.alloc(width * height * 3)
  let random = 1
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      random = (Math.imul(random, 1_664_525) + 1_013_904_223) >>> 0
      const noise = (random >>> 28) - 8
      const at = (y * width + x) * 3
      rgb[at] = clamp(128 + 90 * Math.sin(x / 517) + 30 * Math.sin(y / 41) + noise)
      rgb[at + 1] = clamp(128 + 90 * Math.sin(y / 389) + 30 * Math.sin((x + y) / 67) + noise)
      rgb[at + 2] = clamp(128 + 90 * Math.cos((x - y) / 613) + 20 * Math.cos(x / 29) + noise)
    }
  }
  return sharp(rgb, { raw: { width, height, channels: 3 } })
    .jpeg({ quality: 90 })
    .toBuffer()
}

function clamp(value: number): number {
  return Math.min(255, Math.max(0, Math.round(value)))
}

/** Returns a picture of 1200 × 900 pixels with few colours in large areas. */
async function logo(): Promise<Buffer> {
  const [width, height] = [1_200, 900]
  const rgb = Buffer.alloc(width * height * 3, 255)
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      const ring = Math.hypot(x - 600, y - 450)
      if (ring < 350 && ring > 220) rgb.set([200, 30, 40], (y * width + x) * 3)
      else if (y > 700 && x % 300 < 200) rgb.set([20, 60, 160], (y * width + x) * 3)
    }
  }
  return sharp(rgb, { raw: { width, height, channels: 3 } })
    .png()
    .toBuffer()
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1] ?? Number.NaN
}

async function compare(name: string, image: string, folder: string): Promise<void> {
  const rounds: { ours: Measured; theirs: Measured }[] = []
  for (let round = 0; round < ROUNDS; round += 1) {
    rounds.push({
      ours: await ours(image, folder, COLUMNS),
      theirs: await theirs(image, folder, COLUMNS),
    })
  }
  const line = (metric: keyof Measured) => {
    const [our, their] = [
      median(rounds.map((round) => round.ours[metric])),
      median(rounds.map((round) => round.theirs[metric])),
    ]
    const ratio = median(rounds.map((round) => round.theirs[metric] / round.ours[metric]))
    return `${String(our).padStart(8)} ${String(their).padStart(16)} ${ratio.toFixed(1).padStart(7)}`
  }
  console.log(`${name.padEnd(28)} ms  ${line('ms')}`)
  console.log(`${''.padEnd(28)} MB  ${line('megabytes')}`)
}

export async function run(): Promise<void> {
  if (!existsSync(join(PEER, 'node_modules'))) {
    const npm = spawnSync('npm', ['ci', '--no-audit', '--no-fund'], { cwd: PEER, stdio: 'inherit' })
    if (npm.status !== 0) throw new Error('the straightforward converter cannot be installed')
  }
  const folder = await mkdtemp(join(tmpdir(), 'daicho-bench-'))
  try {
    const [photoFile, logoFile] = [join(folder, 'photo.jpg'), join(folder, 'logo.png')]
    await writeFile(photoFile, await photo())
    await writeFile(logoFile, await logo())
    console.log(
      `${availableParallelism()} processors, load ${loadavg()[0]?.toFixed(1)}; each process by ` +
        `itself, interleaved, ${ROUNDS} rounds, medians`,
    )
    console.log(`${''.padEnd(33)}   daicho  straightforward   ratio`)
    await compare(`photo, ${COLUMNS} columns`, photoFile, folder)
    await compare(`flat logo, ${COLUMNS} columns`, logoFile, folder)
    const large = await ours(photoFile, folder, 4_000, 3_000)
    console.log(`photo, 4000 × 3000 cells     ${JSON.stringify(large)}`)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

if (import.meta.main) await run()
