import { execFile, spawnSync } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import sharp from 'sharp'
import { expect, it } from 'vitest'
import { convert } from '../../src/converter/convert.ts'
import { parseOptions } from '../../src/converter/index.ts'

const COLUMNS = 60
const ROWS = 40

/** Returns the colour `#rrggbb` of every cell of a flat OpenDocument spreadsheet, row by row. */
function cellsOf(flat: string): string[][] {
  const colorOf = new Map<string, string>()
  for (const [, name = '', body = ''] of flat.matchAll(
    /<style:style style:name="([^"]+)" style:family="table-cell"[^>]*>(.*?)<\/style:style>/gs,
  )) {
    const color = /fo:background-color="(#[0-9a-f]{6})"/.exec(body)?.[1]
    if (color !== undefined) colorOf.set(name, color)
  }
  const attribute = (tag: string, name: string) =>
    new RegExp(`${name}="([^"]*)"`).exec(tag)?.[1] ?? ''
  return Array.from(
    flat.matchAll(/<table:table-row([^>]*)>(.*?)<\/table:table-row>/gs),
    ([, rowTag = '', body = '']) => {
      const row = Array.from(body.matchAll(/<table:table-cell([^>]*)>/g), ([, tag = '']) => {
        const color = colorOf.get(attribute(tag, 'table:style-name')) ?? ''
        return Array(Number(attribute(tag, 'table:number-columns-repeated') || 1)).fill(color)
      }).flat()
      return Array(Number(attribute(rowTag, 'table:number-rows-repeated') || 1)).fill(row)
    },
  ).flat()
}

const installed = spawnSync('soffice', ['--version'], { stdio: 'ignore' }).status === 0
const name = installed
  ? 'shows every cell in the colour of its pixel in LibreOffice'
  : 'SKIPPED: LibreOffice (soffice) is not installed'
it.skipIf(!installed)(name, async () => {
  const rgb = Buffer.alloc(COLUMNS * ROWS * 3)
  for (let at = 0; at < COLUMNS * ROWS; at += 1) {
    rgb.writeUIntBE(Math.imul(at % 2_000, 0x9e3779b1) & 0xffffff, at * 3, 3)
  }
  const raw = { width: COLUMNS, height: ROWS, channels: 3 } as const
  const bytes = await sharp(rgb, { raw }).png().toBuffer()
  const options = parseOptions(new Map(), { px: 5, width: COLUMNS })
  const { pieces } = await convert({
    bytes,
    name: 'picture.png',
    options,
    cellsMax: 10_000,
    product: 'workbook',
  })
  const folder = await mkdtemp(join(tmpdir(), 'daicho-office-'))
  try {
    await writeFile(join(folder, 'picture.xlsx'), Buffer.concat([...pieces].map((p) => p.bytes)))
    await promisify(execFile)(
      'soffice',
      [
        `-env:UserInstallation=file://${join(folder, 'profile')}`,
        ...['--headless', '--convert-to', 'fods', '--outdir', folder],
        join(folder, 'picture.xlsx'),
      ],
      { timeout: 90_000 },
    )
    const cells = cellsOf(await readFile(join(folder, 'picture.fods'), 'utf8'))
    const expected = Array.from({ length: ROWS }, (_, row) =>
      Array.from({ length: COLUMNS }, (_, column) => {
        const at = (row * COLUMNS + column) * 3
        return `#${rgb.toString('hex', at, at + 3)}`
      }),
    )
    expect(cells.slice(0, ROWS).map((row) => row.slice(0, COLUMNS))).toEqual(expected)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})
