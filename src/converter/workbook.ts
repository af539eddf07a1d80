import type { Palette } from './palette.ts'

/** One part of the package: its name in the archive and its XML in pieces. */
export interface Part {
  readonly name: string
  readonly pieces: Iterable<Uint8Array>
}

/** Where the sheet goes; the parts below refer to it. */
export const SHEET_PART = 'xl/worksheets/sheet1.xml'

const HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
const MAIN = 'http://schemas.openxmlformats.org/spreadsheetml/2006/main'
const OFFICE = 'http://schemas.openxmlformats.org/officeDocument/2006/relationships'
const PACKAGE = 'http://schemas.openxmlformats.org/package/2006'
const TYPE = 'application/vnd.openxmlformats-officedocument.spreadsheetml'
/** Colours per piece of the styles part. */
const COLORS_PER_PIECE = 2_048

/**
 * Every part of the workbook but the sheet itself, in the order they are written.
 *
 * The shared strings are one empty string. Style 0 is the plain one; colour i of the palette is
 * style i + 1, a solid fill. Source: ECMA-376 part 1, 18.2, 18.4 and 18.8; part 2, 10.1.2.
 */
export function workbookParts(sheetName: string, palette: Palette): Part[] {
  return [
    part('[Content_Types].xml', contentTypes()),
    part('_rels/.rels', relationships([['officeDocument', 'xl/workbook.xml']])),
    part('xl/workbook.xml', workbook(sheetName)),
    part(
      'xl/_rels/workbook.xml.rels',
      relationships([
        ['worksheet', 'worksheets/sheet1.xml'],
        ['styles', 'styles.xml'],
        ['sharedStrings', 'sharedStrings.xml'],
      ]),
    ),
    part('xl/sharedStrings.xml', `${HEAD}<sst xmlns="${MAIN}" uniqueCount="1"><si><t/></si></sst>`),
    { name: 'xl/styles.xml', pieces: styles(palette.colors) },
  ]
}

function part(name: string, xml: string): Part {
  return { name, pieces: [Buffer.from(xml)] }
}

function contentTypes(): string {
  const overrides = [
    ['xl/workbook.xml', 'sheet.main'],
    [SHEET_PART, 'worksheet'],
    ['xl/styles.xml', 'styles'],
    ['xl/sharedStrings.xml', 'sharedStrings'],
  ].map(([name, type]) => `<Override PartName="/${name}" ContentType="${TYPE}.${type}+xml"/>`)
  return (
    `${HEAD}<Types xmlns="${PACKAGE}/content-types">` +
    '<Default Extension="rels" ' +
    'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>' +
    `<Default Extension="xml" ContentType="application/xml"/>${overrides.join('')}</Types>`
  )
}

function relationships(targets: readonly (readonly [string, string])[]): string {
  const lines = targets.map(
    ([type, target], at) =>
      `<Relationship Id="rId${at + 1}" Type="${OFFICE}/${type}" Target="${target}"/>`,
  )
  return `${HEAD}<Relationships xmlns="${PACKAGE}/relationships">${lines.join('')}</Relationships>`
}

function workbook(sheetName: string): string {
  const name = sheetName.replace(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`)
  return (
    `${HEAD}<workbook xmlns="${MAIN}" xmlns:r="${OFFICE}">` +
    '<bookViews><workbookView/></bookViews>' +
    `<sheets><sheet name="${name}" sheetId="1" r:id="rId1"/></sheets></workbook>`
  )
}

function* styles(colors: Uint32Array): Generator<Uint8Array> {
  const count = colors.length
  yield Buffer.from(
    `${HEAD}<styleSheet xmlns="${MAIN}">` +
      '<fonts count="1"><font><sz val="11"/><name val="Calibri"/>' +
      '<family val="2"/></font></fonts>' +
      // The first two fills are the application's own, whatever stands here.
      `<fills count="${count + 2}"><fill><patternFill patternType="none"/></fill>` +
      '<fill><patternFill patternType="gray125"/></fill>',
  )
  for (let from = 0; from < count; from += COLORS_PER_PIECE) {
    const some = Array.from(colors.subarray(from, from + COLORS_PER_PIECE), fill)
    yield Buffer.from(some.join(''), 'latin1')
  }
  yield Buffer.from(
    '</fills><borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border>' +
      '</borders><cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/>' +
      `</cellStyleXfs><cellXfs count="${count + 1}">` +
      '<xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/>',
  )
  for (let from = 0; from < count; from += COLORS_PER_PIECE) {
    const some = Array.from({ length: Math.min(COLORS_PER_PIECE, count - from) }, (_, at) =>
      format(from + at + 2),
    )
    yield Buffer.from(some.join(''), 'latin1')
  }
  yield Buffer.from(
    '</cellXfs><cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/>' +
      '</cellStyles></styleSheet>',
  )
}

function fill(color: number): string {
  const rgb = color.toString(16).toUpperCase().padStart(6, '0')
  return (
    '<fill><patternFill patternType="solid">' +
    `<fgColor rgb="FF${rgb}"/><bgColor indexed="64"/></patternFill></fill>`
  )
}

function format(fillId: number): string {
  return `<xf numFmtId="0" fontId="0" fillId="${fillId}" borderId="0" xfId="0" applyFill="1"/>`
}
