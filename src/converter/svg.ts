import { ConverterError, undecodable } from './errors.ts'
import type { Grid, ImageSize } from './options.ts'

/** CSS pixels per unit of a length; `em` and `ex` for the initial font size. Source: CSS Values 4, sections 6.1 and 6.2. */
const UNIT_PIXELS: Readonly<Record<string, number>> = {
  ...{ '': 1, px: 1, pt: 4 / 3, pc: 16, in: 96, cm: 96 / 2.54, mm: 96 / 25.4, q: 96 / 101.6 },
  ...{ em: 16, rem: 16, ex: 8 },
}
/** Side of a `viewBox` below which librsvg draws nothing, because it clips with 1/256 of a unit. */
const VIEW_BOX_MIN = 0.004
/** Side of the inner viewport, far above VIEW_BOX_MIN. */
const VIEWPORT_WIDTH = 1_000
/** Factor by which CSS variables may make the text longer. */
const GROWTH_MAX = 4
/** Number of bytes by which CSS variables may make any text longer, even a short one. */
const GROWTH_BYTES = 10_000
/** Number of CSS variables that may refer to each other. */
const VARIABLE_DEPTH_MAX = 16
/** Start and end of each kind of markup, except start tags. */
const CLOSINGS = [
  ['<!--', '-->'],
  ['<![CDATA[', ']]>'],
  ['<?', '?>'],
  ['</', '>'],
  ['<!', '>'],
] as const
/** Maximum length of a document type. Those of drawing programs have less than 3,000 characters. */
const DOCTYPE_MAX = 16_384
const NUMBER = String.raw`[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?`
const DOCTYPE = /^<!DOCTYPE(?:[^[>"']|"[^"]*"|'[^']*')*(?:\[(?:[^\]"']|"[^"]*"|'[^']*')*\]\s*)?>/i

/** An SVG image, and the same image drawn at the size of a grid. */
export interface Svg extends ImageSize {
  readonly atSize: (grid: Grid) => Buffer
}

/** The root element of an SVG: positions of its start tag and its attributes as written, without quotes. */
interface Root {
  readonly name: string
  readonly start: number
  readonly end: number
  readonly attributes: ReadonlyMap<string, string>
}

/** Whether a file is an SVG: its first element is `svg`. */
export function isSvg(bytes: Uint8Array): boolean {
  return findRoot(decodeText(bytes)) !== null
}

/**
 * Parses the size of an SVG, which can be a fraction, and prepares the text for librsvg: a root element of the requested
 * size, and what librsvg cannot draw (CSS variables, `transform-origin`) replaced.
 *
 * Errors: FORMAT_NOT_ACCEPTED if the SVG has no size, or depends on something that would be drawn wrong;
 * IMAGE_UNDECODABLE. Source: SVG 2, chapter 8; decision 0010.
 */
export function readSvg(bytes: Uint8Array): Svg {
  const source = decodeText(bytes)
  if (source === null || findRoot(source) === null) throw undecodable('svg')
  const text = withoutUnknownStyles(source)
  const root = findRoot(text)
  if (root === null) throw undecodable('svg')
  const viewBox = parseViewBox(root.attributes.get('viewBox'))
  const size = requireSize(root.attributes, viewBox)
  return { ...size, atSize: (grid) => Buffer.from(draw(text, root, size, viewBox, grid)) }
}

/** Decodes the text of an XML file. Null if the encoding is unknown or does not fit. Source: XML 1.0, appendix F. */
function decodeText(bytes: Uint8Array): string | null {
  const head = Buffer.from(bytes.subarray(0, 200)).toString('latin1')
  const declared = /^<\?xml[^>]*?encoding\s*=\s*["']([\w.:-]+)["']/.exec(head)?.[1]
  const wide = /^(?:\xff\xfe|<\0)/.test(head) ? 'utf-16le' : 'utf-16be'
  const encoding = /^(?:\xff\xfe|\xfe\xff|<\0|\0<)/.test(head) ? wide : (declared ?? 'utf-8')
  try {
    return new TextDecoder(encoding).decode(bytes)
  } catch {
    return null
  }
}

/** Returns the root element if it is `svg`. Skips declarations, comments and the document type of any length. */
function findRoot(text: string | null): Root | null {
  if (text === null) return null
  const start = skipProlog(text)
  const tag = /<((?:[\w-]+:)?svg)(?=[\s/>])/y
  tag.lastIndex = start
  const name = tag.exec(text)?.[1]
  if (name === undefined) return null
  const attributes = new Map<string, string>()
  const attribute = /\s+([\w:.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')/y
  let end = tag.lastIndex
  for (;;) {
    attribute.lastIndex = end
    const match = attribute.exec(text)
    if (match === null) break
    attributes.set(match[1] ?? '', (match[2] ?? match[3] ?? '').replaceAll('"', '&quot;'))
    end = attribute.lastIndex
  }
  const close = /\s*\/?>/y
  close.lastIndex = end
  return close.test(text) ? { name, start, end: close.lastIndex, attributes } : null
}

function skipProlog(text: string): number {
  const space = /[\s\ufeff]*/y
  for (let at = 0; ; ) {
    space.lastIndex = at
    space.test(text)
    at = space.lastIndex
    const [open, close] = text.startsWith('<!--', at) ? ['<!--', '-->'] : ['<?', '?>']
    if (text.startsWith(open, at)) {
      const end = text.indexOf(close, at + open.length)
      if (end === -1) return at
      at = end + close.length
      continue
    }
    const doctype = DOCTYPE.exec(text.slice(at, at + DOCTYPE_MAX))?.[0]
    if (doctype === undefined) return at
    at += doctype.length
  }
}

type Box = readonly [x: number, y: number, width: number, height: number]

function parseViewBox(text: string | undefined): Box | null {
  const [x, y, width, height, ...more] = (text ?? '')
    .trim()
    .split(/[\s,]+/)
    .map(Number)
  if (x === undefined || y === undefined || width === undefined || height === undefined) return null
  const box = [x, y, width, height] as const
  return more.length === 0 && box.every(Number.isFinite) && width > 0 && height > 0 ? box : null
}

/**
 * Returns the width and height of an SVG in CSS pixels. A side without a length follows from `viewBox`. Like browsers,
 * uses the attribute `style` only if there is no `viewBox`.
 */
function requireSize(attributes: Root['attributes'], viewBox: Box | null): ImageSize {
  const style = viewBox === null ? (attributes.get('style') ?? '').split(';') : []
  const [width, height] = (['width', 'height'] as const).map((side) => {
    const declared = style.map((text) => text.split(':')).find(([name]) => name?.trim() === side)
    return parseLength(attributes.get(side)) ?? parseLength(declared?.[1])
  })
  if (width === 0 || height === 0) throw undecodable('svg')
  if (width !== undefined && height !== undefined) return { width, height }
  if (viewBox === null) {
    const message =
      'this SVG has no size; give its root element a width and a height in pixels, or a viewBox'
    throw new ConverterError('FORMAT_NOT_ACCEPTED', message)
  }
  const [, , boxWidth, boxHeight] = viewBox
  if (width !== undefined) return { width, height: (width * boxHeight) / boxWidth }
  if (height !== undefined) return { width: (height * boxWidth) / boxHeight, height }
  return { width: boxWidth, height: boxHeight }
}

/** Returns a length in CSS pixels; undefined for percentages and other values that depend on a page. */
function parseLength(text: string | undefined): number | undefined {
  if (text === undefined || text.length > 40) return undefined
  const [, number, unit = ''] = new RegExp(`^\\s*(${NUMBER})([a-z]*)\\s*$`, 'i').exec(text) ?? []
  const pixels = Number(number) * (UNIT_PIXELS[unit.toLowerCase()] ?? Number.NaN)
  return pixels >= 0 && Number.isFinite(pixels) ? pixels : undefined
}

/**
 * Returns the SVG with a root element that fills `grid`. The original viewport becomes an element inside of it, so that
 * `preserveAspectRatio` and percentages keep their meaning while the picture is stretched to the grid.
 */
function draw(text: string, root: Root, size: ImageSize, viewBox: Box | null, grid: Grid): string {
  const { name, attributes } = root
  const last = text.lastIndexOf(`</${name}`, findContentEnd(text))
  const prefix = name.slice(0, -'svg'.length)
  const view = `0 0 ${grid.columns} ${grid.rows}`
  const kept = [...attributes].filter(([key]) => !isPlacement(key))
  const style = attributes.get('style')?.replace(/(^|;)\s*(?:width|height)\s*:[^;]*/gi, '$1')
  const outer = [
    ...kept.map(([key, value]) => `${key}="${key === 'style' ? (style ?? value) : value}"`),
    `width="${grid.columns}" height="${grid.rows}" viewBox="${view}" preserveAspectRatio="none"`,
  ]
  const [open, close] = viewport(prefix, attributes, size, viewBox, grid, text.includes('%'))
  // The text is sent as UTF-8, so its declaration of another encoding is removed.
  const prolog = text
    .slice(0, root.start)
    .replace(/^\s*<\?xml[^>]*\?>/, '')
    .replace(/^\ufeff/, '')
  const head = `${prolog}<${name} ${outer.join(' ')}>`
  if (last < root.end) return `${head}</${name}>`
  return `${head}${open}${text.slice(root.end, last)}${close}${text.slice(last)}`
}

/** Returns the end of the root element. Only comments, instructions and space follow it. */
function findContentEnd(text: string): number {
  for (let end = text.length; ; ) {
    while (end > 0 && /\s/.test(text.charAt(end - 1))) end -= 1
    const isComment = text.startsWith('-->', end - 3)
    if (!isComment && !text.startsWith('?>', end - 2)) return end
    const start = text.lastIndexOf(isComment ? '<!--' : '<?', end - 1)
    if (start === -1) return end
    end = start
  }
}

function isPlacement(attribute: string): boolean {
  return ['x', 'y', 'width', 'height', 'viewBox', 'preserveAspectRatio'].includes(attribute)
}

/** Returns the start and the end of the elements that map the coordinates of the image to those of the grid. */
function viewport(
  prefix: string,
  attributes: Root['attributes'],
  { width, height }: ImageSize,
  viewBox: Box | null,
  { columns, rows }: Grid,
  hasPercentages: boolean,
): readonly [string, string] {
  // Only the proportions of the inner viewport matter.
  const [across, down] = [VIEWPORT_WIDTH, (VIEWPORT_WIDTH * height) / width]
  const stretch = `scale(${columns / across} ${rows / down})`
  const [x, y, boxWidth, boxHeight] = viewBox ?? [0, 0, width, height]
  const ratio = attributes.get('preserveAspectRatio')
  if (Math.min(boxWidth, boxHeight) >= VIEW_BOX_MIN) {
    const inner =
      `x="0" y="0" width="${across}" height="${down}" viewBox="${x} ${y} ${boxWidth} ${boxHeight}"` +
      `${ratio === undefined ? '' : ` preserveAspectRatio="${ratio}"`}`
    const open = `<${prefix}g transform="${stretch}"><${prefix}svg ${inner}>`
    return [open, `</${prefix}svg></${prefix}g>`]
  }
  if (hasPercentages || ratio !== undefined) throw unsupported(`a viewBox below ${VIEW_BOX_MIN}`)
  const scale = Math.min(across / boxWidth, down / boxHeight)
  const [right, below] = [(across - boxWidth * scale) / 2, (down - boxHeight * scale) / 2]
  const move = `translate(${right} ${below}) scale(${scale}) translate(${-x} ${-y})`
  return [`<${prefix}g transform="${stretch} ${move}">`, `</${prefix}g>`]
}

/** A part of an SVG: a start tag, the content of a style element, or the text between them. */
interface Part {
  readonly kind: 'tag' | 'sheet' | 'other'
  readonly text: string
}

/** Replaces what librsvg does not know: CSS variables and `transform-origin`. */
function withoutUnknownStyles(text: string): string {
  if (!/var\(|transform-origin/i.test(text)) return text
  const parts = splitParts(text)
  const values = findVariables(parts)
  const drawn = parts.map(({ kind, text: part }) => {
    if (kind === 'other') return part
    const known = withValues(part, values)
    return kind === 'tag' ? withOriginInTag(known) : known.split('}').map(withOrigin).join('}')
  })
  const result = drawn.join('')
  if (result.length > text.length * GROWTH_MAX) throw unsupported('very long CSS variables')
  return result
}

/** Splits an SVG in linear time, because it can be hostile and 10 MB long. */
function splitParts(text: string): Part[] {
  const parts: Part[] = []
  const tag = /<([\w:.-]+)(?:\s+[\w:.-]+\s*=\s*(?:"[^"]*"|'[^']*'))*\s*\/?>/y
  let done = 0
  const push = (kind: Part['kind'], end: number) => {
    if (end > done) parts.push({ kind, text: text.slice(done, end) })
    done = Math.max(done, end)
  }
  for (let at = text.indexOf('<'); at !== -1; at = text.indexOf('<', Math.max(done, at + 1))) {
    const close = CLOSINGS.find(([open]) => text.startsWith(open, at))?.[1]
    if (close !== undefined) {
      const end = text.indexOf(close, at)
      push('other', end === -1 ? text.length : end + close.length)
      continue
    }
    tag.lastIndex = at
    const name = tag.exec(text)?.[1]
    if (name === undefined) continue
    push('other', at)
    push('tag', tag.lastIndex)
    if (/^(?:[\w-]+:)?style$/.test(name)) {
      const end = text.indexOf(`</${name}`, done)
      push('sheet', end === -1 ? text.length : end)
    }
  }
  push('other', text.length)
  return parts
}

/**
 * Returns the CSS variables of an SVG: the value, or null for one with several values or only for a part of the image.
 * Source: CSS Custom Properties 1.
 */
function findVariables(parts: readonly Part[]): ReadonlyMap<string, string | null> {
  const values = new Map<string, string | null>()
  const collect = (declarations: string, isGlobal: boolean) => {
    for (const declaration of declarations.split(';')) {
      const [name = '', ...rest] = declaration.split(':')
      const [key, value] = [name.trim(), rest.join(':').trim()]
      if (!key.startsWith('--')) continue
      const isSame = !values.has(key) || values.get(key) === value
      values.set(key, isGlobal && isSame ? value : null)
    }
  }
  for (const { kind, text } of parts) {
    if (kind === 'tag') {
      const isRoot = /^<(?:[\w-]+:)?svg\b/.test(text)
      const style = /\sstyle\s*=\s*(?:"([^"]*)"|'([^']*)')/.exec(text)
      collect(style?.[1] ?? style?.[2] ?? '', isRoot)
    } else if (kind === 'sheet') {
      let depth = 0
      for (const block of removeComments(text).split('}')) {
        const [selector = '', ...bodies] = block.split('{')
        depth += bodies.length
        const isGlobal =
          depth === 1 && /^(?:<!\[CDATA\[)?\s*(?::root|svg|\*|svg:root)\s*$/.test(selector)
        collect(bodies.at(-1) ?? '', isGlobal)
        depth = Math.max(0, depth - 1)
      }
    }
  }
  return values
}

function removeComments(css: string): string {
  const [first = '', ...rest] = css.split('/*')
  const after = rest.map((part) => (part.includes('*/') ? part.slice(part.indexOf('*/') + 2) : ''))
  return [first, ...after].join('')
}

/** Replaces `var(--name)` and `var(--name, fallback)`. Errors: FORMAT_NOT_ACCEPTED if the value is not known. */
function withValues(text: string, values: ReadonlyMap<string, string | null>): string {
  let result = text
  for (let depth = 0; depth < VARIABLE_DEPTH_MAX && result.includes('var('); depth += 1) {
    result = result.replace(
      /var\(\s*(--[\w-]{1,100})\s*(?:,((?:[^()]|\([^()]{0,100}\)){0,200}))?\)/g,
      (whole, name: string, fallback: string | undefined) => {
        const value = values.get(name)
        if (value === null) throw unsupported(`the CSS variable ${name} with several values`)
        return value ?? fallback?.trim() ?? whole
      },
    )
    if (result.length > text.length * GROWTH_MAX + GROWTH_BYTES)
      throw unsupported('very long CSS variables')
  }
  return result
}

/**
 * Moves the `transform-origin` of an element into the transformation beside it. Source: CSS Transforms 1, sections 4
 * and 6.
 */
function withOriginInTag(tag: string): string {
  if (!/transform-origin/i.test(tag)) return tag
  return tag.replace(
    /(\s)([\w:.-]+)(\s*=\s*)("[^"]*"|'[^']*')/g,
    (whole, space, key, equals, value) => {
      const [quote, text] = [value.slice(0, 1), value.slice(1, -1)]
      if (key === 'style') return `${space}${key}${equals}${quote}${withOrigin(text)}${quote}`
      const origin = /\stransform-origin\s*=\s*(?:"([^"]*)"|'([^']*)')/.exec(tag)
      if (key !== 'transform' || origin === null) return whole
      const [x, y] = requireOrigin(origin[1] ?? origin[2] ?? '')
      return `${space}${key}${equals}${quote}translate(${x} ${y}) ${text} translate(${-x} ${-y})${quote}`
    },
  )
}

/** Moves `transform-origin` into `transform` in a block of declarations, which can follow a selector. */
function withOrigin(block: string): string {
  const start = block.lastIndexOf('{') + 1
  const declarations = block.slice(start).split(';')
  const find = (name: string) =>
    declarations.findIndex((text) => text.trim().toLowerCase().startsWith(`${name}:`))
  const [at, originAt] = [find('transform'), find('transform-origin')]
  if (at === -1 || originAt === -1) return block
  const read = (index: number) => declarations[index]?.split(':').slice(1).join(':').trim() ?? ''
  if (read(at) === 'none') return block
  const [x, y] = requireOrigin(read(originAt))
  declarations[at] = `transform:translate(${x}px,${y}px) ${read(at)} translate(${-x}px,${-y}px)`
  return block.slice(0, start) + declarations.join(';')
}

/** Parses a `transform-origin` in pixels. Errors: FORMAT_NOT_ACCEPTED, because others depend on the shape. */
function requireOrigin(text: string): readonly [number, number] {
  const words = text.trim().split(/\s+/)
  const [x, y] = words.map((word) => (/^(?:left|top)$/.test(word) ? 0 : parseLength(word)))
  if (words.length > 2 || x === undefined || y === undefined) {
    throw unsupported(`transform-origin: ${text.trim().slice(0, 40)}`)
  }
  return [x, y]
}

function unsupported(feature: string): ConverterError {
  return new ConverterError(
    'FORMAT_NOT_ACCEPTED',
    `this SVG uses ${feature}, which this converter cannot draw; save it as plain SVG or as PNG`,
  )
}
