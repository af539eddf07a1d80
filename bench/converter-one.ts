// Converts an image like `daicho image`, but in this process instead of a worker, so that the memory of a single
// process is measured. Arguments: the image, the workbook, the numbers of columns and rows. Prints one line of JSON.
import { open, readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { convert } from '../src/converter/convert.ts'
import { parseOptions } from '../src/converter/options.ts'

const [from = '', to = '', columns = '', rows = ''] = process.argv.slice(2)
const started = performance.now()
const fields = new Map([
  ['width', columns],
  ['height', rows],
])
const { plan, pieces } = await convert({
  bytes: await readFile(from),
  name: basename(from),
  options: parseOptions(fields, { px: 2, width: 100 }),
  cellsMax: 50_000_000,
  product: 'workbook',
})
const file = await open(to, 'w')
for (const { bytes } of pieces) await file.write(bytes)
await file.close()
const ms = Math.round(performance.now() - started)
const megabytes = Math.round(process.resourceUsage().maxRSS / 1024)
console.log(JSON.stringify({ ms, megabytes, ...plan }))
