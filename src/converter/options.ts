import { ConverterError } from './errors.ts'
import { COLORS_MAX } from './palette.ts'

/** Maximum number of columns of a sheet, up to column XFD. Source: Excel specifications. */
export const COLUMNS_MAX = 16_384
export const ROWS_MAX = 1_048_576
/** Maximum side of a cell in pixels, because a row can be at most 409.5 points high: 546 pixels of 0.75 points. */
export const PX_MAX = 546

/** Defaults from the settings DEFAULT_PX and DEFAULT_WIDTH. */
export interface ConverterDefaults {
  /** Side of a cell in pixels, from 1 to PX_MAX. */
  readonly px: number
  /** Number of columns, from 1 to COLUMNS_MAX. */
  readonly width: number
}

/** Defaults without settings. Source: specification, “Limits”. */
export const DEFAULTS: ConverterDefaults = { px: 2, width: 100 }

export type Resample = 'cubic' | 'nearest'

export interface ConversionOptions {
  readonly px: number
  readonly width?: number
  readonly height?: number
  readonly defaultWidth: number
  readonly colors: number
  /** Colour behind transparent pixels as 0xRRGGBB, or null to ignore transparency. */
  readonly background: number | null
  readonly resample: Resample
  readonly grayscale: boolean
  /** Initial zoom in per cent, or null for the default of the spreadsheet program. */
  readonly zoom: number | null
}

/** Minimum and maximum values of the integer fields. */
export const RANGES = {
  px: [1, PX_MAX],
  width: [1, COLUMNS_MAX],
  height: [1, ROWS_MAX],
  colors: [1, COLORS_MAX],
  zoom: [10, 400],
} as const satisfies Record<string, readonly [number, number]>

export type WholeNumberField = keyof typeof RANGES

/** Names of all fields except `file`. */
export const OPTION_NAMES = [
  'px',
  'width',
  'height',
  'colors',
  'background',
  'resample',
  'grayscale',
  'zoom',
] as const

type OptionName = (typeof OPTION_NAMES)[number]

/** Parses the options in `fields`. An empty field counts as missing, because forms send it. Errors: FIELD_INVALID. */
export function parseOptions(
  fields: ReadonlyMap<string, string>,
  defaults: ConverterDefaults,
): ConversionOptions {
  const text = (name: OptionName) => fields.get(name)?.trim() || undefined
  const whole = (name: WholeNumberField) => parseWholeNumber(name, text(name))
  const [width, height] = [whole('width'), whole('height')]
  return {
    px: whole('px') ?? defaults.px,
    ...(width === undefined ? {} : { width }),
    ...(height === undefined ? {} : { height }),
    defaultWidth: defaults.width,
    colors: whole('colors') ?? COLORS_MAX,
    background: parseColor(text('background')),
    resample: parseResample(text('resample')),
    grayscale: parseFlag('grayscale', text('grayscale')),
    zoom: whole('zoom') ?? null,
  }
}

function parseWholeNumber(name: WholeNumberField, text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const [min, max] = RANGES[name]
  const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN
  if (value >= min && value <= max) return value
  throw invalid(name, `an integer from ${min} to ${max}`)
}

function parseColor(text: string | undefined): number | null {
  if (text === undefined) return null
  if (!/^#?[0-9a-f]{6}$/i.test(text)) throw invalid('background', 'a colour in hexadecimal, RRGGBB')
  return Number.parseInt(text.replace('#', ''), 16)
}

function parseResample(text = 'cubic'): Resample {
  if (text === 'cubic' || text === 'nearest') return text
  throw invalid('resample', 'cubic or nearest')
}

function parseFlag(name: OptionName, text = 'false'): boolean {
  if (/^(?:false|0|no|off)$/i.test(text)) return false
  if (/^(?:true|1|yes|on)$/i.test(text)) return true
  throw invalid(name, 'true or false')
}

function invalid(name: OptionName, expected: string): ConverterError {
  return new ConverterError('FIELD_INVALID', `the field ${name} must be ${expected}`)
}

/** Size of a sheet in cells. `columns` and `rows` are at least 1. */
export interface Grid {
  readonly columns: number
  readonly rows: number
}

export interface ImageSize {
  readonly width: number
  readonly height: number
}

/**
 * Computes the grid of an image. A computed side is rounded down, and at least 1. Errors: GRID_TOO_LARGE for more
 * columns or rows than a sheet can have, or for more than `cellsMax` cells. Source: specification, “Size rules”;
 * decision 0010.
 */
export function computeGrid(
  image: ImageSize,
  { width, height, defaultWidth }: Pick<ConversionOptions, 'width' | 'height' | 'defaultWidth'>,
  cellsMax: number,
): Grid {
  const columns =
    width ?? (height === undefined ? defaultWidth : scaleDown(height, image.width, image.height))
  const rows = height ?? scaleDown(columns, image.height, image.width)
  const size = `${columns} columns by ${rows} rows`
  if (columns > COLUMNS_MAX || rows > ROWS_MAX) {
    const message = `the sheet would have ${size}; it may have at most ${COLUMNS_MAX} by ${ROWS_MAX}`
    throw new ConverterError('GRID_TOO_LARGE', message)
  }
  if (columns * rows > cellsMax) {
    const message = `the sheet would have ${size}, ${columns * rows} cells; it may have at most ${cellsMax} cells`
    throw new ConverterError('GRID_TOO_LARGE', message)
  }
  return { columns, rows }
}

/**
 * Returns `count * numerator / denominator`, rounded down. Sides of an SVG can be fractions, whose quotient may be a
 * little too small. Quotients of whole sides are exact: they are at least 1e-8 below the next whole number.
 */
function scaleDown(count: number, numerator: number, denominator: number): number {
  return Math.max(1, Math.floor((count * numerator) / denominator + 1e-9))
}
