// Runs seeds manually. `npm run -s simulate -- 51` shows the trace of seed 51, and `npm run -s simulate -- 101 20000`
// runs seeds 101 to 20000.
import { runSeed } from './run.ts'
import { failureText } from './seeds.ts'

const [from = 1, to = from] = process.argv.slice(2).map(Number)
const counts = new Map<string, { seeds: number; faulty: number; forks: number; restored: number }>()
for (let seed = from; seed <= to; seed += 1) {
  const outcome = await runSeed(seed)
  if (from === to) console.log(outcome.trace.join('\n'))
  const row = counts.get(outcome.kind) ?? { seeds: 0, faulty: 0, forks: 0, restored: 0 }
  row.seeds += 1
  row.forks += outcome.counts.forks
  row.restored += outcome.counts.restored
  counts.set(outcome.kind, row)
  if (outcome.faults.length === 0) continue
  row.faulty += 1
  process.exitCode = 1
  console.log(failureText(seed, outcome))
}
console.table(Object.fromEntries(counts))
