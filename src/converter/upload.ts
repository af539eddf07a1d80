import { ConverterError } from './errors.ts'
import { readForm } from './multipart.ts'
import { OPTION_NAMES } from './options.ts'

/** The longest file: 10 MiB. Source: specification, “Limits”; docs/decisions/0025-limits.md. */
export const FILE_BYTES_MAX: number = 10 * 1024 * 1024
/** The longest form: the file, its fields and what is written around them. */
export const FORM_BYTES_MAX: number = FILE_BYTES_MAX + 64 * 1024
/** The longest value that is looked at; every valid one is shorter. */
const FIELD_BYTES_MAX = 64

/** What a form brought. */
export interface Upload {
  readonly bytes: Uint8Array
  /** The name of the file, as sent. */
  readonly name: string
  /** The fields named in OPTION_NAMES that were sent. */
  readonly fields: ReadonlyMap<string, string>
}

/**
 * The upload in a `multipart/form-data` body. Fields of other names are left aside.
 *
 * Errors: FORM_MALFORMED, FILE_MISSING, FILE_EMPTY, FILE_TOO_LARGE, and FIELD_INVALID for a field
 * that comes twice or is far too long.
 */
export function readUpload(body: Buffer, contentType: string): Upload {
  const known: ReadonlySet<string> = new Set(OPTION_NAMES)
  const fields = new Map<string, string>()
  let file: Pick<Upload, 'bytes' | 'name'> | null = null
  for (const { name, fileName, bytes } of readForm(body, contentType)) {
    if (name === 'file' && fileName !== null) {
      if (file !== null) throw new ConverterError('FIELD_INVALID', 'the field file comes twice')
      // A form whose file was not chosen still sends the field, without a name.
      if (fileName !== '' || bytes.length > 0) file = { bytes, name: fileName }
    } else if (known.has(name)) {
      if (fields.has(name))
        throw new ConverterError('FIELD_INVALID', `the field ${name} comes twice`)
      if (bytes.length > FIELD_BYTES_MAX) {
        throw new ConverterError('FIELD_INVALID', `the field ${name} is too long`)
      }
      fields.set(name, bytes.toString('utf8'))
    }
  }
  if (file === null)
    throw new ConverterError('FILE_MISSING', 'the form needs a field file with a file')
  if (file.bytes.length === 0) throw new ConverterError('FILE_EMPTY', 'the file is empty')
  if (file.bytes.length > FILE_BYTES_MAX) {
    throw new ConverterError(
      'FILE_TOO_LARGE',
      `the file has ${file.bytes.length} bytes; at most 10 MiB (${FILE_BYTES_MAX} bytes)`,
    )
  }
  return { ...file, fields }
}
