// Sends the images of hostile-images.ts to the converter of a node that also serves a ledger:
//   node scripts/run.mjs test/fuzz/images.ts        all images, one after the other
//   node scripts/run.mjs test/fuzz/images.ts SVG    the images with "SVG" in their names
// Prints the reply, its duration and the peak memory of the process tree for each image, and then the 99th percentile
// of the latency of `GET /api/dbs`. Fails unless each reply is 200 or 4xx, and memory and latency stay within their
// limits. Takes at most MINUTES_MAX minutes, and writes only to a temporary folder.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buildPackage } from '../../scripts/build.ts'
import { formOf } from '../converter/service.ts'
import { startProgram } from '../support/program.ts'
import { hostileImages } from './hostile-images.ts'
import { watch } from './watch.ts'

const MINUTES_MAX = 30
const REPLY_MS_MAX = 60_000
const PEAK_BYTES_MAX = 600_000_000
const P99_MS_MAX = 100

const [part = ''] = process.argv.slice(2)
const folder = mkdtempSync(join(tmpdir(), 'daicho-images-'))
await buildPackage()
const makers = Object.entries(await hostileImages()).filter(([name]) => name.includes(part))
// Creates the images before the node starts, because creating them would delay the measured requests.
const images: [string, Buffer][] = []
for (const [name, make] of makers) images.push([name, await make()])
const ports = ['--port', '0', '--converter-port', '0']
const daicho = startProgram(['serve', '--only', 'ledger,converter', '--json', ...ports], {
  SYSTEM_FOLDER: folder,
  LOG_LEVEL: 'warn',
})
const overdue = setTimeout(() => {
  console.log(`stopped after ${MINUTES_MAX} minutes`)
  daicho.child.kill('SIGKILL')
  process.exit(1)
}, MINUTES_MAX * 60_000)
try {
  const { ledger, converter } = JSON.parse(await daicho.firstLine)
  const watching = watch(daicho.child.pid ?? 0, `${ledger}/api/dbs`)
  for (const [name, bytes] of images) await send(name, bytes, ledger, converter)
  const { p99Ms, failures } = await watching.stop()
  console.log(`GET /api/dbs: p99 ${p99Ms.toFixed(1)} ms, ${failures} failures`)
  if (p99Ms > P99_MS_MAX || failures > 0) process.exitCode = 1
} finally {
  clearTimeout(overdue)
  daicho.child.kill('SIGTERM')
  const { stderr } = await daicho.ended
  if (stderr !== '') console.log(stderr)
  rmSync(folder, { recursive: true })
}

async function send(name: string, bytes: Buffer, ledger: string, converter: string): Promise<void> {
  const watching = watch(daicho.child.pid ?? 0, `${ledger}/api/dbs`)
  const startMs = performance.now()
  let outcome: string
  try {
    const reply = await fetch(`${converter}/image`, {
      method: 'POST',
      body: formOf(bytes, 'image'),
      signal: AbortSignal.timeout(REPLY_MS_MAX),
    })
    const body = Buffer.from(await reply.arrayBuffer())
    outcome = reply.ok ? '200' : `${reply.status} ${body}`
  } catch (error) {
    outcome = String(error)
  }
  const seconds = ((performance.now() - startMs) / 1_000).toFixed(1)
  const { peakBytes } = await watching.stop()
  const small = bytes.length <= 10_000_000
  const good = /^(?:200|4\d\d)/.test(outcome) && peakBytes <= PEAK_BYTES_MAX && small
  if (!good) process.exitCode = 1
  const peak = Math.round(peakBytes / 1e6)
  console.log(
    `${good ? 'ok  ' : 'FAIL'} ${name} (${bytes.length} bytes): ${peak} MB, ${seconds} s, ${outcome}`,
  )
}
