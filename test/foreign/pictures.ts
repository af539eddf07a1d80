// Compares the converter's decoder with Pillow on generated pictures of every format and mode. Needs Python 3 with pillow,
// numpy, tifffile and imagecodecs. Usage: node scripts/run.mjs test/foreign/pictures.ts [count] [seed]
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { decode } from '../../src/converter/decode.ts'
import { ConverterError } from '../../src/converter/errors.ts'

interface Picture {
  readonly file: string
  readonly name: string
  readonly tolerance: number
  readonly background: number | null
  readonly width: number
  readonly height: number
  /** The expected channels, -1 for any value. Null if the picture must be refused or is not compared. */
  readonly rgb: readonly number[] | null
}

const [count = '2000', seed = '1'] = process.argv.slice(2)
const folder = mkdtempSync(join(tmpdir(), 'pictures-'))
try {
  const script = join(import.meta.dirname, 'pictures.py')
  execFileSync(process.env.PYTHON ?? 'python3', [script, folder, count, seed], { stdio: 'inherit' })
  const pictures: Picture[] = JSON.parse(readFileSync(join(folder, 'manifest.json'), 'utf8'))
  const tally = { equal: 0, refused: 0, different: 0 }
  const refused = new Set<string>()
  for (const picture of pictures) {
    const found = await compare(picture)
    tally[found.result] += 1
    if (found.result === 'different') console.log(`${picture.name}, ${picture.file}: ${found.why}`)
    if (found.result === 'refused') refused.add(picture.name.split(' {')[0] ?? '')
  }
  console.log('refused:', [...refused].sort().join('; '))
  console.log(`seed ${seed}: ${JSON.stringify(tally)}`)
  process.exitCode = tally.different === 0 ? 0 : 1
} finally {
  rmSync(folder, { recursive: true })
}

async function compare(
  picture: Picture,
): Promise<{ result: 'equal' | 'refused' | 'different'; why: string }> {
  const { background, rgb: expected, tolerance } = picture
  const options = { resample: 'nearest', grayscale: false, background } as const
  try {
    const decoded = await decode(
      readFileSync(join(folder, picture.file)),
      options,
      ({ width, height }) => ({ columns: width, rows: height }),
    )
    if (expected === null) return { result: 'different', why: 'converted, but must be refused' }
    if (decoded.width !== picture.width || decoded.height !== picture.height)
      return { result: 'different', why: `${decoded.width}x${decoded.height}` }
    const differences = [...decoded.rgb].map((value, at) => {
      const wanted = expected[at] ?? 0
      return wanted < 0 ? 0 : Math.abs(value - wanted)
    })
    const most = Math.max(...differences)
    const at = differences.indexOf(most)
    const why = `channel ${at} is ${decoded.rgb[at]}, not ${expected[at]} (background ${background?.toString(16)})`
    return { result: most > tolerance ? 'different' : 'equal', why }
  } catch (error) {
    if (error instanceof ConverterError && error.code === 'FORMAT_NOT_ACCEPTED')
      return { result: 'refused', why: error.message }
    return { result: 'different', why: String(error) }
  }
}
