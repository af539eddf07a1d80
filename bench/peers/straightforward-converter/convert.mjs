// A straightforward converter: decodes and resizes an image, creates a cell object for each pixel, and lets a library
// write the cells. Arguments: the image, the workbook, the number of columns. Prints one line of JSON.
import { readFile, writeFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { Jimp } from 'jimp'
import XLSX from 'xlsx-js-style'

const [from, to, columns] = process.argv.slice(2)
const started = performance.now()
const image = await Jimp.read(await readFile(from))
const width = Number(columns)
const height = Math.floor((width * image.height) / image.width)
image.resize({ w: width, h: height })
const { data } = image.bitmap
const hex = (value) => value.toString(16).padStart(2, '0')
const sheet = {
  '!ref': XLSX.utils.encode_range({ s: { c: 0, r: 0 }, e: { c: width - 1, r: height - 1 } }),
}
for (let y = 0; y < height; y += 1) {
  for (let x = 0; x < width; x += 1) {
    const at = (y * width + x) * 4
    const rgb = hex(data[at]) + hex(data[at + 1]) + hex(data[at + 2])
    sheet[XLSX.utils.encode_cell({ c: x, r: y })] = {
      t: 's',
      v: '',
      s: { fill: { patternType: 'solid', fgColor: { rgb } } },
    }
  }
}
sheet['!cols'] = Array.from({ length: width }, () => ({ wpx: 2 }))
sheet['!rows'] = Array.from({ length: height }, () => ({ hpx: 2 }))
const book = XLSX.utils.book_new()
XLSX.utils.book_append_sheet(book, sheet, basename(from).slice(0, 31))
await writeFile(to, XLSX.write(book, { type: 'buffer', bookType: 'xlsx', compression: true }))
const megabytes = Math.round(process.resourceUsage().maxRSS / 1024)
console.log(JSON.stringify({ ms: Math.round(performance.now() - started), megabytes }))
