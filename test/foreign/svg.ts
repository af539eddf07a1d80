// Compares how the converter and Chromium draw generated SVGs: sizes, units, viewBox, preserveAspectRatio, percentages, CSS
// variables, transform-origin, encodings. Usage: node scripts/run.mjs test/foreign/svg.ts [count] [seed]
import sharp from 'sharp'
import { decode } from '../../src/converter/decode.ts'
import { ConverterError } from '../../src/converter/errors.ts'
import { launchBrowser } from '../support/browser.ts'

const [count = 300, seed = 1] = process.argv.slice(2).map(Number)
const COLUMNS = 120
/** Share of the pixels that may differ, at edges that are smoothed in another way. */
const DIFFERENT_MAX = 0.08

let state = seed
/** Returns a number from 0 up to, but not including, `below`. Source: mulberry32. */
function random(below: number): number {
  state = (state + 0x6d2b79f5) | 0
  let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
  return Math.trunc((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below)
}

function pick<T>(values: readonly [T, ...T[]]): T {
  return values[random(values.length)] ?? values[0]
}

const COLORS = ['red', '#0a0', 'rgb(0,0,255)', 'orange'] as const

function makeSvg(): string {
  const scale = pick([1, 0.01, 0.001, 100])
  const side = () => (1 + random(40)) * scale
  const [width, height] = [side(), side()]
  const box = pick([
    `viewBox="${pick([0, -scale])} ${pick([0, scale])} ${width} ${height}"`,
    `viewBox="0 0 ${width},${height}" preserveAspectRatio="${pick(['none', 'xMinYMin meet', 'xMaxYMid slice', 'xMidYMax'])}"`,
  ])
  const unit = pick(['', 'px', 'pt', 'mm', 'em'])
  const length = () => `${10 + random(90) + pick([0, 0.5])}${unit}`
  const size = pick([
    '',
    `width="${length()}" height="${length()}"`,
    `width="${length()}"`,
    `height="${length()}"`,
    'width="100%" height="100%"',
    `style="width:${length()};height:${length()}"`,
  ])
  const shapes = Array.from({ length: 1 + random(4) }, () => makeShape(width, height)).join('')
  const variables = pick([
    '',
    '<style>:root{--a:red;--b:var(--a)}</style>',
    '<style>/* a { */ :root { --a : blue } .x{fill:var(--b,lime)}</style>',
  ])
  const start = pick([
    '',
    '<?xml version="1.0" encoding="UTF-8"?>\n',
    `<!-- ${'long '.repeat(300)}-->`,
  ])
  return `${start}<svg xmlns="http://www.w3.org/2000/svg" ${size} ${box}>${variables}${shapes}</svg>`
}

function makeShape(width: number, height: number): string {
  const x = (random(10) * width) / 10
  const y = (random(10) * height) / 10
  const fill = pick<string>([...COLORS, 'var(--a)', 'var(--b, teal)'])
  const turn = pick([
    '',
    '',
    `transform="rotate(${random(8) * 45})" transform-origin="${x} ${y}"`,
    `style="transform-origin:${x}px ${y}px;transform:scale(0.5) rotate(90deg)"`,
    `transform="skewX(20)"`,
  ])
  const paint = fill.startsWith('var') ? `class="x" style="fill:${fill}"` : `fill="${fill}"`
  const attributes = turn.startsWith('style')
    ? `fill="${pick(COLORS)}" ${turn}`
    : `${paint} ${turn}`
  return pick([
    `<rect x="${x}" y="${y}" width="${width / 2}" height="${height / 3}" ${attributes}/>`,
    `<rect width="50%" height="25%" ${attributes}/>`,
    `<circle cx="${x}" cy="${y}" r="${width / 4}" ${attributes}/>`,
    `<path d="M${x} ${y}h${width / 3}v${height / 3}z" ${attributes}/>`,
  ])
}

const browser = await launchBrowser()
const page = await browser.newPage()
const tally = { equal: 0, refused: 0, different: 0 }
try {
  for (let at = 0; at < count; at += 1) {
    const svg = makeSvg()
    const result = await compare(svg)
    tally[result.kind] += 1
    if (result.kind === 'different') console.log(`${at}: ${result.why}\n${svg}`)
  }
} finally {
  await browser.close()
}
console.log(`seed ${seed}: ${JSON.stringify(tally)}`)
process.exitCode = tally.different === 0 ? 0 : 1

async function compare(
  svg: string,
): Promise<{ readonly kind: 'equal' | 'refused' | 'different'; readonly why: string }> {
  try {
    const options = { resample: 'nearest', grayscale: false, background: null } as const
    const { rgb, width, height, grid } = await decode(Buffer.from(svg), options, (size) => ({
      columns: COLUMNS,
      rows: Math.max(1, Math.round((COLUMNS * size.height) / size.width)),
    }))
    const shot = await drawInBrowser(svg, grid.columns, grid.rows)
    const pixels = grid.columns * grid.rows
    let different = 0
    for (let at = 0; at < pixels; at += 1) {
      const channels = [0, 1, 2].map((c) => at * 3 + c)
      if (channels.some((c) => Math.abs((rgb[c] ?? 0) - (shot[c] ?? 0)) > 40)) different += 1
    }
    const why = `${different} of ${pixels} pixels; size ${width} x ${height}`
    return { kind: different > 10 + pixels * DIFFERENT_MAX ? 'different' : 'equal', why }
  } catch (error) {
    if (error instanceof ConverterError && error.code === 'FORMAT_NOT_ACCEPTED')
      return { kind: 'refused', why: error.message }
    return { kind: 'different', why: String(error) }
  }
}

async function drawInBrowser(svg: string, width: number, height: number): Promise<Buffer> {
  const uri = `data:image/svg+xml;base64,${Buffer.from(svg).toString('base64')}`
  await page.setViewportSize({ width, height })
  const image = `<img style="display:block" width="${width}" height="${height}" src="${uri}">`
  await page.setContent(`<body style="margin:0;background:white">${image}`)
  await page.evaluate('document.querySelector("img").decode()')
  return await sharp(await page.screenshot())
    .removeAlpha()
    .raw()
    .toBuffer()
}
