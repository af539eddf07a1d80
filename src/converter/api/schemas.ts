import { Type } from '../../base/shape.ts'
import { RANGES, type WholeNumberField } from '../options.ts'
import type { Upload } from './upload.ts'

/** The workbook's media type: specification, “Endpoints”, row C. */
export const EXCEL = 'application/vnd.ms-excel'
/** The registered type, for clients that accept it but not EXCEL. */
export const OOXML = 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet'

const whole = (name: WholeNumberField, description: string) => ({
  type: 'integer',
  minimum: RANGES[name][0],
  maximum: RANGES[name][1],
  description,
})

/**
 * The form, only for the documentation: `upload.ts` and `options.ts` parse and check it. Source: specification, “C:
 * converter parameters”.
 */
export const UploadForm = Type.Unsafe<Upload>({
  type: 'object',
  required: ['file'],
  properties: {
    file: {
      type: 'string',
      format: 'binary',
      minLength: 1,
      description: 'The image, at most 10 MiB (10,485,760 bytes)',
    },
    px: whole('px', 'Side of a cell in pixels'),
    width: whole('width', 'Cells across; absent: from `height`, else the default width'),
    height: whole('height', 'Cells down; absent: from `width`, truncated'),
    colors: whole('colors', 'Different colours at most; fewer open faster'),
    background: {
      type: 'string',
      pattern: '^#?[0-9A-Fa-f]{6}$',
      description: 'Colour behind transparent pixels; absent: alpha is left aside',
    },
    resample: {
      type: 'string',
      enum: ['cubic', 'nearest'],
      description: 'How the image is resized; absent: cubic',
    },
    grayscale: { type: 'boolean', description: 'Shades of gray; absent: false' },
    zoom: whole('zoom', 'Magnification the sheet opens with, per cent'),
  },
})

const binary = Type.Unsafe<unknown>({ type: 'string', format: 'binary' })
const headers = {
  'X-Daicho-Grid': { type: 'string', description: 'Columns and rows, e.g. `100x75`' },
  'X-Daicho-Colors': {
    type: 'string',
    description: 'Colours in the product, and in the resized image: `57211 of 604608`',
  },
}

export const WorkbookReply = {
  description: 'The workbook',
  headers: { 'Content-Disposition': { type: 'string' }, ...headers },
  content: { [EXCEL]: { schema: binary }, [OOXML]: { schema: binary } },
}

export const PreviewReply = {
  description: 'One pixel per cell',
  headers,
  content: { 'image/png': { schema: binary } },
}

/** The body of all errors; specification, “Errors”, row C, does not define it. */
export const Failure = Type.Object({
  status: Type.Literal(false),
  code: Type.String(),
  message: Type.String(),
})
