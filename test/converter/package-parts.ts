import { inflateRawSync } from 'node:zlib'

/** Returns the parts of a zip archive by name. Reads the central directory. */
export function partsOf(archive: Uint8Array): Map<string, string> {
  const bytes = Buffer.from(archive.buffer, archive.byteOffset, archive.byteLength)
  const tail = bytes.lastIndexOf('PK\x05\x06', undefined, 'latin1')
  const parts = new Map<string, string>()
  let at = bytes.readUInt32LE(tail + 16)
  for (let left = bytes.readUInt16LE(tail + 10); left > 0; left -= 1) {
    const packedBytes = bytes.readUInt32LE(at + 20)
    const nameBytes = bytes.readUInt16LE(at + 28)
    const name = bytes.toString('utf8', at + 46, at + 46 + nameBytes)
    const local = bytes.readUInt32LE(at + 42)
    const data = local + 30 + bytes.readUInt16LE(local + 26) + bytes.readUInt16LE(local + 28)
    parts.set(name, inflateRawSync(bytes.subarray(data, data + packedBytes)).toString('utf8'))
    at += 46 + nameBytes
  }
  return parts
}

/** Converts column letters to the number of the column. A is 1. */
function columnNumber(letters: string): number {
  let number = 0
  for (const letter of letters) number = number * 26 + letter.charCodeAt(0) - 64
  return number
}

/**
 * Returns faults that libraries and validators overlook but Excel may report. Rows and references must
 * strictly increase, columns must not overlap, styles and strings must exist, and sizes and names must be
 * valid.
 */
export function overlookedFaults(archive: Uint8Array): string[] {
  const parts = partsOf(archive)
  const part = (name: string) => parts.get(name) ?? ''
  const faults: string[] = []
  const count = (xml: string, tag: string) => xml.split(new RegExp(`<${tag}[ />]`)).length - 1
  const styles = part('xl/styles.xml')
  const formats = styles.slice(styles.indexOf('<cellXfs'), styles.indexOf('</cellXfs'))
  const formatCount = count(formats, 'xf')
  const fillCount = count(styles, 'fill')
  for (const [tag, found] of [
    ['cellXfs', formatCount],
    ['fills', fillCount],
  ] as const) {
    const declared = Number(new RegExp(`<${tag} count="(\\d+)"`).exec(styles)?.[1])
    if (declared !== found)
      faults.push(`${tag} declares ${declared} elements and contains ${found}`)
    if (found > 65_430) faults.push(`${found} ${tag}`)
  }
  for (const [, fill] of formats.matchAll(/fillId="(\d+)"/g)) {
    if (Number(fill) >= fillCount) faults.push(`fill ${fill} does not exist`)
  }
  const strings = count(part('xl/sharedStrings.xml'), 'si')
  const sheet = part('xl/worksheets/sheet1.xml')
  faults.push(...columnFaults(sheet), ...cellFaults(sheet, formatCount, strings))
  const name = /<sheet name="([^"]*)"/.exec(part('xl/workbook.xml'))?.[1] ?? ''
  const plain = name.replace(/&#(\d+);/g, (_, code) => String.fromCharCode(Number(code)))
  if (plain.length < 1 || plain.length > 31 || !plain.isWellFormed()) faults.push('name length')
  if (/[\\/?*[\]:]|^'|'$|^history$/i.test(plain)) faults.push(`name ${plain}`)
  return faults
}

function columnFaults(sheet: string): string[] {
  const faults: string[] = []
  let before = 0
  for (const [, min, max, width] of sheet.matchAll(
    /<col min="(\d+)" max="(\d+)" width="([^"]+)"/g,
  )) {
    if (Number(min) <= before || Number(max) < Number(min)) faults.push(`column ${min} overlaps`)
    if (!(Number(width) > 0 && Number(width) <= 255)) faults.push(`column width ${width}`)
    before = Number(max)
  }
  if (before > 16_384) faults.push(`${before} columns`)
  return faults
}

function cellFaults(sheet: string, formats: number, strings: number): string[] {
  const faults: string[] = []
  let rowBefore = 0
  for (const [, row, height, cells = ''] of sheet.matchAll(
    /<row r="(\d+)" ht="([^"]+)" customHeight="1">(.*?)<\/row>/gs,
  )) {
    if (Number(row) !== rowBefore + 1) faults.push(`row ${row} after ${rowBefore}`)
    if (!(Number(height) > 0 && Number(height) <= 409.5)) faults.push(`row height ${height}`)
    rowBefore = Number(row)
    let columnBefore = 0
    const rest = cells.replace(
      /<c r="([A-Z]+)(\d+)" s="(\d+)" t="s"><v>(\d+)<\/v><\/c>/g,
      (_, letters: string, ofRow: string, style: string, string: string) => {
        const column = columnNumber(letters)
        if (column !== columnBefore + 1) faults.push(`${letters}${ofRow} after ${columnBefore}`)
        columnBefore = column
        if (ofRow !== row) faults.push(`${letters}${ofRow} in row ${row}`)
        if (Number(style) >= formats) faults.push(`style ${style} does not exist`)
        if (Number(string) >= strings) faults.push(`string ${string} does not exist`)
        return ''
      },
    )
    if (rest !== '') faults.push(`unexpected in row ${row}: ${rest.slice(0, 80)}`)
  }
  if (rowBefore < 1 || rowBefore > 1_048_576) faults.push(`${rowBefore} rows`)
  return faults
}
