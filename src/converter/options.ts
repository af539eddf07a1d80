import { ConverterError } from './errors.ts'
import { COLUMNS_MAX, PX_MAX, ROWS_MAX } from './grid.ts'
import { COLORS_MAX } from './palette.ts'
import type { Resample } from './resample.ts'

/** `px` when neither the request nor the operator says otherwise. Specification, “Limits”. */
export const PX_DEFAULT = 2
/** `width` when neither the request nor the operator says otherwise. Specification, “Limits”. */
export const WIDTH_DEFAULT = 100

/** What the operator chose: `DEFAULT_PX` and `DEFAULT_WIDTH`. */
export interface ConverterDefaults {
  /** 1..PX_MAX */
  readonly px: number
  /** 1..COLUMNS_MAX */
  readonly width: number
}

/** How one image is to be converted; what was not said is filled in. */
export interface ConversionOptions {
  readonly px: number
  readonly width?: number
  readonly height?: number
  readonly defaultWidth: number
  readonly colors: number
  /** 0xRRGGBB, or null: alpha is left aside. */
  readonly background: number | null
  readonly resample: Resample
  readonly grayscale: boolean
  /** Per cent, or null: the reader's own. */
  readonly zoom: number | null
}

/** The names of all fields but `file`; other fields are not looked at. */
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

/** The fields that take a whole number. */
export type WholeNumberField = 'px' | 'width' | 'height' | 'colors' | 'zoom'

/** Smallest and largest value of each field that is a whole number. */
export const RANGES: Readonly<Record<WholeNumberField, readonly [number, number]>> = {
  px: [1, PX_MAX],
  width: [1, COLUMNS_MAX],
  height: [1, ROWS_MAX],
  colors: [1, COLORS_MAX],
  zoom: [10, 400],
}

/**
 * The options that `fields` ask for. An empty field counts as not given, as forms send it.
 *
 * Errors: FIELD_INVALID, naming the field and what it takes.
 */
export function optionsOf(
  fields: ReadonlyMap<string, string>,
  defaults: ConverterDefaults,
): ConversionOptions {
  const text = (name: string) => {
    const value = fields.get(name)?.trim()
    return value === '' ? undefined : value
  }
  const whole = (name: WholeNumberField) => wholeNumber(name, text(name))
  const width = whole('width')
  const height = whole('height')
  return {
    px: whole('px') ?? defaults.px,
    ...(width === undefined ? {} : { width }),
    ...(height === undefined ? {} : { height }),
    defaultWidth: defaults.width,
    colors: whole('colors') ?? COLORS_MAX,
    background: color(text('background')),
    resample: resample(text('resample')),
    grayscale: flag('grayscale', text('grayscale')),
    zoom: whole('zoom') ?? null,
  }
}

function wholeNumber(name: WholeNumberField, text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const [least, most] = RANGES[name]
  const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN
  if (!(value >= least && value <= most)) {
    throw invalid(name, `a whole number from ${least} to ${most}`)
  }
  return value
}

function color(text: string | undefined): number | null {
  if (text === undefined) return null
  const match = /^#?([0-9a-f]{6})$/i.exec(text)
  if (match?.[1] === undefined) throw invalid('background', 'a colour as RRGGBB, hexadecimal')
  return Number.parseInt(match[1], 16)
}

function resample(text: string | undefined): Resample {
  if (text === undefined || text === 'cubic') return 'cubic'
  if (text === 'nearest') return text
  throw invalid('resample', 'cubic or nearest')
}

function flag(name: string, text: string | undefined): boolean {
  if (text === undefined || /^(?:false|0|no|off)$/i.test(text)) return false
  if (/^(?:true|1|yes|on)$/i.test(text)) return true
  throw invalid(name, 'true or false')
}

function invalid(name: string, takes: string): ConverterError {
  return new ConverterError('FIELD_INVALID', `the field ${name} takes ${takes}`)
}
