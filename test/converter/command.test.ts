import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readSettings } from '../../src/cli/composition/settings.ts'
import { COLUMNS_MAX, DEFAULTS, PX_MAX } from '../../src/converter/options.ts'
import { MAIN } from '../support/program.ts'
import { readWithSheetJs } from './readers.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'daicho-image-'))
  const create = { width: 20, height: 10, channels: 3, background: '#102030' } as const
  await writeFile(join(folder, 'in.png'), await sharp({ create }).png().toBuffer())
  await writeFile(join(folder, 'bad.png'), 'no image')
})
afterAll(() => rm(folder, { recursive: true }))

function image(
  arguments_: readonly string[],
  environment: Record<string, string> = {},
): Promise<{ code: number; stdout: string; stderr: string }> {
  const options = { cwd: folder, env: { ...process.env, ...environment } }
  return new Promise((resolve) => {
    execFile(process.execPath, [MAIN, 'image', ...arguments_], options, (error, stdout, stderr) => {
      resolve({ code: typeof error?.code === 'number' ? error.code : 0, stdout, stderr })
    })
  })
}

it('DEFAULT_PX and DEFAULT_WIDTH have defaults, and values above the maximum are rejected', () => {
  expect(readSettings({})).toMatchObject({ DEFAULT_PX: DEFAULTS.px, DEFAULT_WIDTH: DEFAULTS.width })
  const most = { DEFAULT_PX: `${PX_MAX}`, DEFAULT_WIDTH: `${COLUMNS_MAX}` }
  expect(readSettings(most)).toMatchObject({ DEFAULT_PX: PX_MAX, DEFAULT_WIDTH: COLUMNS_MAX })
  expect(() => readSettings({ DEFAULT_PX: `${PX_MAX + 1}` })).toThrow('DEFAULT_PX')
  expect(() => readSettings({ DEFAULT_WIDTH: `${COLUMNS_MAX + 1}` })).toThrow('DEFAULT_WIDTH')
})

describe('daicho image', () => {
  it('writes the workbook, prints a description, and leaves no other files', async () => {
    const { code, stdout } = await image([
      'in.png',
      'out.xlsx',
      '--width',
      '6',
      '--px',
      '7',
      '--json',
    ])
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({
      status: true,
      out: 'out.xlsx',
      columns: 6,
      rows: 3,
      cells: 18,
      colors: 1,
      distinct: 1,
    })
    const book = readWithSheetJs(await readFile(join(folder, 'out.xlsx')))
    expect(book).toMatchObject({ sheets: ['in.png'], used: 'A1:F3', widths: [1] })
    expect(new Set(book.fills)).toEqual(new Set(['102030']))
    expect((await readdir(folder)).sort()).toEqual(['bad.png', 'in.png', 'out.xlsx'])
    await rm(join(folder, 'out.xlsx'))
  })

  it('prints one line, and uses DEFAULT_WIDTH if --width is missing', async () => {
    const { code, stdout, stderr } = await image(['in.png', 'out.xlsx'], { DEFAULT_WIDTH: '8' })
    expect(code).toBe(0)
    expect(stderr.trimEnd().split('\n').at(-1)).toBe('converting 100 %  4 of 4 rows')
    expect(stdout).toMatch(/^out\.xlsx: 8 × 4 cells, 1 colours, \d+ kB, \d+\.\d s\n$/)
    await rm(join(folder, 'out.xlsx'))
  })

  it('overwrites an existing workbook with --force', async () => {
    await writeFile(join(folder, 'out.xlsx'), 'an older workbook')
    expect(await image(['in.png', 'out.xlsx', '--force'])).toMatchObject({ code: 0 })
    const book = readWithSheetJs(await readFile(join(folder, 'out.xlsx')))
    expect(book).toMatchObject({ sheets: ['in.png'] })
    await rm(join(folder, 'out.xlsx'))
  })

  it.each([
    ['an invalid image', ['bad.png', 'out.xlsx'], 1, 'JPEG, PNG'],
    ['a missing image', ['none.png', 'out.xlsx'], 2, 'there is no file none.png'],
    ['a destination in a missing folder', ['in.png', 'no/out.xlsx'], 2, 'there is no folder no'],
    [
      'a number that is too small',
      ['in.png', 'out.xlsx', '--px', '0'],
      2,
      '--px must be an integer from 1',
    ],
    ['a grid that is too large', ['in.png', 'out.xlsx', '--width', '16384'], 1, 'at most 50000000'],
    ['the image as the destination', ['in.png', './in.png', '--force'], 2, 'is the input itself'],
    ['an existing destination', ['in.png', 'bad.png'], 2, 'bad.png exists: choose another name'],
    ['a missing destination', ['in.png'], 2, 'missing required argument'],
    ['an unknown flag', ['in.png', 'out.xlsx', '--size', '3'], 2, 'unknown option'],
  ] as const)(
    'exits with the documented code for %s, and writes no file',
    async (_, args, code, text) => {
      const result = await image(args)
      expect(result).toMatchObject({ code, stdout: '', stderr: expect.stringContaining(text) })
      expect((await readdir(folder)).sort()).toEqual(['bad.png', 'in.png'])
    },
  )

  it('reports an invalid image as JSON with --json', async () => {
    const { code, stdout } = await image(['bad.png', 'out.xlsx', '--json'])
    expect(code).toBe(1)
    expect(JSON.parse(stdout)).toMatchObject({ status: false, code: 'FORMAT_NOT_ACCEPTED' })
  })

  it('exits with code 78 for an invalid environment', async () => {
    expect(await image(['in.png', 'out.xlsx'], { DEFAULT_PX: '0' })).toMatchObject({ code: 78 })
  })
})
