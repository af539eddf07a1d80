// Hostile peers, relays, witnesses and sources of rates, which answer with generated messages:
//   node scripts/run.mjs test/fuzz/hostile-nodes.ts [messages] [seed]
//
// Sends at least `messages` (10,000) of each kind: replies of peers and relays, and signed pushes to a node; replies of
// a witness and of a source of rates to a program that reads them without pauses. Meanwhile, measures the memory of the
// process tree, and the latency of other requests.
//
// Exit code 0: no process ended, the memory stays below 900 MB, and 99 of 100 other requests take less than 200 ms.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { buildPackage } from '../../scripts/build.ts'
import { Dice } from '../support/ledger-load.ts'
import { startProgram } from '../support/program.ts'
import { type Attacked, attackNode, attackReaders } from './hostile-attacks.ts'
import { HostileMessages } from './hostile-messages.ts'
import { watch } from './watch.ts'

const PEAK_BYTES_MAX = 900_000_000
const P99_MS_MAX = 200
const MINUTES_MAX = 30
/** Duration of the measurement before the attack, for comparison. */
const IDLE_MS = 5_000

const [messages = 10_000, seed = 1] = process.argv.slice(2).map(Number)
await buildPackage()
const folder = mkdtempSync(join(tmpdir(), 'daicho-hostile-'))
const hostile = new HostileMessages(new Dice(seed))
const variables = { SYSTEM_FOLDER: folder, LOG_LEVEL: 'error', PEERS_ALLOW_PRIVATE: '1' }
const args = ['serve', '--only', 'ledger', '--json', '--port', '0']
const daicho = startProgram(args, { ...variables, PEERS_INTERVAL_MS: '100' })
const overdue = setTimeout(() => {
  console.log(`stopped after ${MINUTES_MAX} minutes`)
  daicho.child.kill('SIGKILL')
  process.exit(1)
}, MINUTES_MAX * 60_000)
try {
  const url: string = JSON.parse(await daicho.firstLine).ledger
  const idle = watch(daicho.child.pid ?? 0, `${url}/api/dbs`)
  await sleep(IDLE_MS)
  console.log(`before the attack: p99 ${(await idle.stop()).p99Ms.toFixed(1)} ms`)
  judge('node', await attackNode({ url, pid: daicho.child.pid ?? 0, hostile, messages }))
  judge('readers', await attackReaders({ hostile, messages }))
  if (daicho.child.exitCode !== null || daicho.child.signalCode !== null) {
    console.log('FAIL: the node ended')
    process.exitCode = 1
  }
} finally {
  clearTimeout(overdue)
  daicho.child.kill('SIGTERM')
  const { stderr } = await daicho.ended
  if (stderr !== '') console.log(stderr)
  rmSync(folder, { recursive: true })
}

function judge(what: string, { counts, peakBytes, p99Ms, failures }: Attacked): void {
  const isGood = peakBytes <= PEAK_BYTES_MAX && p99Ms <= P99_MS_MAX && failures === 0
  if (!isGood) process.exitCode = 1
  const peak = `peak ${Math.round(peakBytes / 1e6)} MB`
  const others = `other requests: p99 ${p99Ms.toFixed(1)} ms, ${failures} failures`
  console.log(`${isGood ? 'ok  ' : 'FAIL'} ${what}: ${JSON.stringify(counts)}, ${peak}, ${others}`)
}
