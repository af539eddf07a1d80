import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { formatDisposition, toSheetName, toWorkbookName } from './names.ts'

const anything = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({ unit: fc.constantFrom("'", '🍎', '\ud83c', '/', '.', '\u0000', 'h', ':', '"', '%') }),
)

describe('for any file name', () => {
  it('makes a valid sheet name', () => {
    fc.assert(
      fc.property(anything, (name) => {
        const sheet = toSheetName(name)
        expect(sheet.length).toBeGreaterThan(0)
        expect(sheet.length).toBeLessThanOrEqual(31)
        expect(sheet.isWellFormed()).toBe(true)
        expect(sheet).not.toMatch(/[\\/?*[\]:\u0000-\u001f]|^'|'$/)
        expect(sheet.toLowerCase()).not.toBe('history')
      }),
    )
  })

  it('makes a workbook name, and a Content-Disposition header that contains the name without header injection', () => {
    fc.assert(
      fc.property(anything, (name) => {
        const workbook = toWorkbookName(name)
        expect(workbook).not.toMatch(/[<>:"/\\|?*\u0000-\u001f]/)
        expect(workbook.endsWith('.xlsx')).toBe(true)
        expect(workbook.length).toBeLessThanOrEqual(255)
        const header = formatDisposition(workbook)
        expect(header).toMatch(
          /^attachment; filename=(?:[A-Za-z0-9!#$&+.^_`|~-]+|"(?:[^"\\]|\\.)*"(?:; filename\*=UTF-8''[A-Za-z0-9!#$&+.^_`|~%-]+)?)$/,
        )
        expect(header).toMatch(/^[\x20-\x7e]+$/)
        const extended = /filename\*=UTF-8''(.*)$/.exec(header)?.[1]
        if (extended !== undefined) expect(decodeURIComponent(extended)).toBe(workbook)
      }),
    )
  })
})

it.each([
  ['photo.jpg', 'photo.xlsx'],
  ['a.b.c.jpg', 'a.b.c.xlsx'],
  ['none', 'none.xlsx'],
  ['.hidden', '.hidden.xlsx'],
  ['../../etc/passwd', '.._.._etc_passwd.xlsx'],
  ['a.b/c', 'a.b_c.xlsx'],
  ['a.b\\c.png', 'a.b_c.xlsx'],
  ['dot.', 'dot.xlsx'],
  ['', 'image.xlsx'],
  ['\u0000', 'image.xlsx'],
  ['.png', 'image.xlsx'],
  ['photo.png.', 'photo.xlsx'],
  ['photo.png. .', 'photo.xlsx'],
  ['photo.png.png', 'photo.png.xlsx'],
  ['photo\u202egnp.exe', 'photognp.xlsx'],
  ['\u2066a\u2069\u200e\u200f\u061c.png', 'a.xlsx'],
  ['a<b>c:d"e/f\\g|h?i*j.png', 'a_b_c_d_e_f_g_h_i_j.xlsx'],
  ['con.png', '_con.xlsx'],
  ['LPT1', '_LPT1.xlsx'],
  ['COM².png', '_COM².xlsx'],
  ['conin$', '_conin$.xlsx'],
  ['nul.a.png', '_nul.a.xlsx'],
  ['console.png', 'console.xlsx'],
])('names the workbook of the image %j as %j', (name, workbook) =>
  expect(toWorkbookName(name)).toBe(workbook),
)

it('removes bidirectional controls from the name of the sheet', () => {
  expect(toSheetName('photo\u202egnp.exe')).toBe('photognp.exe')
  expect(toSheetName('\u2066\u200e')).toBe('Sheet1')
})
