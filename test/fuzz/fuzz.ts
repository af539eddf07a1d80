// Attacks the listeners, for manual runs. `npm run -s fuzz -- ledger 100000 1` sends 100,000 attempts to the ledger,
// with seeds from 1 on, and prints the progress to stderr. `npm run -s fuzz -- all 1000` sends 1,000 attempts to each listener.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { attack } from './attack.ts'
import { LISTENERS } from './served.ts'

const PROGRESS_EVERY = 10_000

const [which = 'all', count = '1000', seed = '1'] = process.argv.slice(2)
const names = LISTENERS.filter((each) => which === 'all' || each === which)
if (names.length === 0) {
  console.error(`there is no listener ${which}; use all, or one of ${LISTENERS.join(', ')}`)
  process.exitCode = 2
}
for (const name of names) {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-fuzz-'))
  const { sent, statuses, findings, sizes } = await attack(
    name,
    Number(count),
    Number(seed),
    folder,
    (attempts) => {
      if (attempts % PROGRESS_EVERY === 0) console.error(`${name}: ${attempts} of ${count}`)
    },
  )
  const replies = [...statuses]
    .toSorted(([a], [b]) => a - b)
    .map(([code, times]) => `${code}×${times}`)
  console.log(`${name}: ${sent} attempts, ${replies.join(' ')}`)
  console.log(sizes.map((size) => `${size?.memoryMiB} MiB, ${size?.files} files`).join('; '))
  for (const finding of findings) console.log(`--- ${finding}`)
  if (findings.length > 0) process.exitCode = 1
  rmSync(folder, { recursive: true })
}
