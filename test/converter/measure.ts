// Converts a file like a worker of the service, and prints the result and the peak memory of this process.
import { readFile } from 'node:fs/promises'
import {
  ConversionWorkers,
  ConverterError,
  parseOptions,
  WORKER_LIMITS,
} from '../../src/converter/index.ts'

const [file = '', fields = '{}'] = process.argv.slice(2)
const workers = new ConversionWorkers(WORKER_LIMITS)
const job = {
  bytes: await readFile(file),
  name: 'image',
  options: parseOptions(new Map(Object.entries(JSON.parse(fields))), { px: 2, width: 100 }),
  cellsMax: 50_000_000,
  product: 'workbook',
} as const

async function outcome(): Promise<string> {
  try {
    const { plan, product } = await workers.start(job, new AbortController().signal)
    for await (const _ of product);
    return `${plan.grid.columns}x${plan.grid.rows}`
  } catch (error) {
    return error instanceof ConverterError ? error.code : String(error)
  }
}

const result = await outcome()
// `maxRSS` of a process begins with the memory of the process that started it, which can be larger. VmHWM does not.
const peak = /^VmHWM:\s*(\d+) kB$/m.exec(
  await readFile('/proc/self/status', 'utf8').catch(() => ''),
)
const megabytes = Math.round(Number(peak?.[1] ?? process.resourceUsage().maxRSS) / 1024)
console.log(JSON.stringify({ outcome: result, megabytes }))
await workers.close()
