import { ConverterError } from './errors.ts'

/** Columns of a sheet at most: XFD. Source: ECMA-376 applications; Excel specifications. */
export const COLUMNS_MAX = 16_384
/** Rows of a sheet at most. */
export const ROWS_MAX = 1_048_576
/** Side of a cell in pixels at most: a row is at most 409.5 points high, and a pixel is 0.75. */
export const PX_MAX = 546

/** How many cells a picture becomes: counts, both at least 1. */
export interface Grid {
  readonly columns: number
  readonly rows: number
}

/** What was asked for; an absent side follows from the other and the image. */
export interface GridWish {
  readonly width?: number
  readonly height?: number
}

/**
 * The grid of an image of `image.width` × `image.height` pixels.
 *
 * A computed side that is not whole is truncated, and at least 1.
 * Errors: GRID_TOO_LARGE when a side or the number of cells goes beyond what a sheet, or
 * `cellsMax`, bears.
 * Source: specification, “Size rules” 1 to 4; rule 5 leaves the rounding open, and
 * docs/decisions/0020-cell-grid.md closes it.
 */
export function gridOf(
  image: { readonly width: number; readonly height: number },
  wish: GridWish,
  defaultWidth: number,
  cellsMax: number,
): Grid {
  const grid = unboundedGrid(image, wish, defaultWidth)
  const { columns, rows } = grid
  if (columns > COLUMNS_MAX || rows > ROWS_MAX) {
    throw new ConverterError(
      'GRID_TOO_LARGE',
      `${columns} columns by ${rows} rows; a sheet has at most ${COLUMNS_MAX} by ${ROWS_MAX}`,
    )
  }
  if (columns * rows > cellsMax) {
    throw new ConverterError(
      'GRID_TOO_LARGE',
      `${columns} columns by ${rows} rows are ${columns * rows} cells; at most ${cellsMax}`,
    )
  }
  return grid
}

function unboundedGrid(
  image: { readonly width: number; readonly height: number },
  { width, height }: GridWish,
  defaultWidth: number,
): Grid {
  if (height === undefined) {
    const columns = width ?? defaultWidth
    return { columns, rows: scaled(columns, image.height, image.width) }
  }
  return { columns: width ?? scaled(height, image.width, image.height), rows: height }
}

/** `count * numerator / denominator`, truncated, at least 1. Exact: the product is below 2^53. */
function scaled(count: number, numerator: number, denominator: number): number {
  return Math.max(1, Math.floor((count * numerator) / denominator))
}

/**
 * The `width` attribute of a column `px` pixels wide.
 *
 * The unit is the widest digit of the normal font, 7 pixels for Calibri 11 at 96 dpi; the value is
 * the largest multiple of 1/256 that is not wider. Source: ECMA-376 part 1, 18.3.1.13.
 */
export function columnWidth(px: number): number {
  return Math.trunc((px * 256) / 7) / 256
}

/** The `ht` attribute of a row `px` pixels high, in points (1/72 inch; a pixel is 1/96). */
export function rowHeight(px: number): number {
  return px * 0.75
}
