import { execFile, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import SheetJs from 'xlsx-js-style'
import XlsxPopulate from 'xlsx-populate'

/** The content of a workbook, as read by a third-party library. */
export interface ReadWorkbook {
  readonly sheets: readonly string[]
  /** The used range, e.g. `A1:CV75`. */
  readonly used: string
  /** `RRGGBB` of every cell, row by row. Empty text: the cell has no solid fill. */
  readonly fills: readonly string[]
  /** The distinct cell values. */
  readonly values: readonly unknown[]
  /** The distinct column widths, in characters. */
  readonly widths: readonly (number | undefined)[]
  /** The distinct row heights, in points. */
  readonly heights: readonly (number | undefined)[]
}

export function readWithSheetJs(bytes: Uint8Array): ReadWorkbook {
  const book = SheetJs.read(bytes, { cellStyles: true })
  const sheet = book.Sheets[book.SheetNames[0] ?? ''] ?? {}
  const range = SheetJs.utils.decode_range(sheet['!ref'] ?? 'A1')
  const fills: string[] = []
  const values = new Set<unknown>()
  for (let r = 0; r <= range.e.r; r += 1) {
    for (let c = 0; c <= range.e.c; c += 1) {
      const cell: SheetJs.CellObject | undefined = sheet[SheetJs.utils.encode_cell({ r, c })]
      // SheetJS returns the fill of each cell, although its types describe styles only for writing.
      const style: { patternType?: string; fgColor?: { rgb?: string } } = cell?.s ?? {}
      fills.push(style.patternType === 'solid' ? (style.fgColor?.rgb ?? '') : '')
      values.add(cell?.v)
    }
  }
  return {
    sheets: book.SheetNames,
    used: sheet['!ref'] ?? '',
    fills,
    values: [...values],
    widths: [...new Set(sheet['!cols']?.map((column) => column.width))],
    heights: [...new Set(sheet['!rows']?.map((row) => row.hpt))],
  }
}

/** Reads a workbook with xlsx-populate, which does not distinguish an empty string from no value. */
export async function readWithPopulate(bytes: Uint8Array): Promise<ReadWorkbook> {
  const book = await XlsxPopulate.fromDataAsync(bytes)
  const sheet = book.sheet(0)
  const range = sheet.usedRange()
  const fills: string[] = []
  const values = new Set<unknown>()
  const widths = new Set<number | undefined>()
  const heights = new Set<number | undefined>()
  // Reads each style only once, because xlsx-populate adds a style to the workbook for each read.
  const known = new Map<number | undefined, string>()
  for (const row of range.cells()) {
    for (const cell of row) {
      const fill = known.get(cell._styleId) ?? fillOf(cell)
      known.set(cell._styleId, fill)
      fills.push(fill)
      values.add(cell.value())
    }
  }
  const end = range.endCell()
  for (let column = 1; column <= end.columnNumber(); column += 1) {
    widths.add(sheet.column(column).width())
  }
  for (let row = 1; row <= end.rowNumber(); row += 1) heights.add(sheet.row(row).height())
  return {
    sheets: book.sheets().map((one) => one.name()),
    used: range.address(),
    fills,
    values: [...values],
    widths: [...widths],
    heights: [...heights],
  }
}

function fillOf(cell: XlsxPopulate.Cell): string {
  const fill = cell.style('fill')
  return fill?.type === 'solid' ? fill.color.rgb.replace(/^FF/, '') : ''
}

const validatorFolder = fileURLToPath(new URL('../validator/', import.meta.url))
const validatorPackages = join(validatorFolder, 'node_modules/@xarsh')

/**
 * Returns whether the validator of the Open XML SDK works on this platform. The first call installs the
 * validator, which is not a dependency of the project because it supports few platforms.
 */
export function validatorRuns(): boolean {
  const program = join(validatorPackages, `ooxml-validator-${process.platform}-${process.arch}`)
  if (!existsSync(program)) {
    const options = { cwd: validatorFolder, timeout: 60_000, stdio: 'ignore' } as const
    // Uses `npm install`, because `npm ci` would fail: the registry lacks the packages for some platforms.
    const flags = ['--no-save', '--no-package-lock', '--no-audit', '--no-fund']
    spawnSync('npm', ['install', ...flags], options)
  }
  return existsSync(program)
}

/** Returns the findings of the Open XML SDK's validator. */
export async function validate(bytes: Uint8Array): Promise<readonly unknown[]> {
  const folder = await mkdtemp(join(tmpdir(), 'daicho-validate-'))
  try {
    const file = join(folder, 'workbook.xlsx')
    await writeFile(file, bytes)
    const command = join(validatorPackages, 'ooxml-validator/dist/src/cli.js')
    const run = promisify(execFile)(process.execPath, [command, file])
    const { stdout } = await run.catch((error: { stdout: string }) => error)
    const result: { ok: boolean; errors: unknown[] } = JSON.parse(stdout)
    return result.ok ? result.errors : ['not accepted', ...result.errors]
  } finally {
    await rm(folder, { recursive: true })
  }
}
