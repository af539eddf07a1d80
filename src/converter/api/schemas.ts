import { Type } from '../../base/shape.ts'
import { RANGES, type WholeNumberField } from '../options.ts'
import type { ImageUpload } from './upload.ts'

/** The media type of a workbook. Source: specification, “Endpoints”, row C. */
export const EXCEL = 'application/vnd.ms-excel'
/** The registered media type of a workbook, for clients that do not accept EXCEL. */
export const OOXML = 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet'

const wholeNumber = (name: WholeNumberField, description: string) => ({
  type: 'integer',
  minimum: RANGES[name][0],
  maximum: RANGES[name][1],
  description,
})

/**
 * The schema that documents the form. `upload.ts` and `options.ts` parse and check forms. Source: specification, “C:
 * converter parameters”.
 */
export const UploadForm = Type.Unsafe<ImageUpload>({
  type: 'object',
  required: ['file'],
  properties: {
    file: {
      type: 'string',
      format: 'binary',
      minLength: 1,
      description: 'The image, at most 10 MiB (10,485,760 bytes)',
    },
    px: wholeNumber('px', 'Side of a cell in pixels'),
    width: wholeNumber(
      'width',
      'Number of columns. Default: computed from `height` if given, otherwise the default width',
    ),
    height: wholeNumber('height', 'Number of rows. Default: computed from `width`, rounded down'),
    colors: wholeNumber(
      'colors',
      'Maximum number of different colours. A workbook with fewer colours opens faster',
    ),
    background: {
      type: 'string',
      pattern: '^#?[0-9A-Fa-f]{6}$',
      description: 'Colour behind transparent pixels. Default: transparency is ignored',
    },
    resample: {
      type: 'string',
      enum: ['cubic', 'nearest'],
      description: 'How the image is resized. Default: cubic',
    },
    grayscale: { type: 'boolean', description: 'Whether to convert to gray. Default: false' },
    zoom: wholeNumber('zoom', 'Initial zoom of the sheet in per cent'),
  },
})

const binary = Type.Unsafe<unknown>({ type: 'string', format: 'binary' })
const headers = {
  'X-Daicho-Grid': { type: 'string', description: 'Columns and rows, e.g. `100x75`' },
  'X-Daicho-Colors': {
    type: 'string',
    description:
      'Number of colours in the workbook, and in the resized image, e.g. `57211 of 604608`',
  },
}

export const WorkbookReply = {
  description: 'The workbook',
  headers: { 'Content-Disposition': { type: 'string' }, ...headers },
  content: { [EXCEL]: { schema: binary }, [OOXML]: { schema: binary } },
}

export const PreviewReply = {
  description: 'A PNG with one pixel per cell',
  headers,
  content: { 'image/png': { schema: binary } },
}
