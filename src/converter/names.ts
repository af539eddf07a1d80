/** Maximum length of a sheet name in UTF-16 units. Source: Excel specifications. */
const SHEET_NAME_UNITS_MAX = 31
/** Maximum length of a file name in UTF-16 units. A longer name is truncated before its extension. */
const FILE_NAME_UNITS_MAX = 255
const EXTENSION = '.xlsx'
const IMAGE_EXTENSION = /^\.(?:jpe?g|png|gif|webp|avif|tiff?|bmp|svg)$/i
/** Matches names of devices, which Windows does not allow as names of files, even with an extension. */
const WINDOWS_DEVICE = /^(?:con|prn|aux|nul|com[\d¹²³]|lpt[\d¹²³]|conin\$|conout\$) *(?:\.|$)/i

/**
 * Characters to remove from names: control characters, U+FFFE, U+FFFF and unpaired surrogates, which XML 1.0 forbids;
 * and bidirectional controls, which can make a name look like another name.
 */
const UNPRINTABLE =
  /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g

/**
 * Returns the sheet name for an image file: the file name, adapted to the rules of Excel. `\ / ? * [ ] :`, and an
 * apostrophe at the start or end, become `_`. The reserved name `History` becomes `_History`. Source: specification,
 * “Output workbook” 1; decision 0010.
 */
export function toSheetName(fileName: string): string {
  const clean = fileName.replace(UNPRINTABLE, '').replace(/[\\/?*[\]:]/g, '_')
  const name = cutUnits(clean, SHEET_NAME_UNITS_MAX).replace(/^'|'$/g, '_')
  if (name === '') return 'Sheet1'
  return name.toLowerCase() === 'history' ? `_${name}` : name
}

/**
 * Returns the name of the workbook for an image file: the file name with the extension replaced by `xlsx`. The
 * extension is the text after the last dot. A name that begins with its only dot, such as `.hidden`, has no extension,
 * unless the whole name is an image extension, such as `.png`. Dots and spaces at the end are removed, characters that
 * Windows forbids become `_`, and device names get a leading `_`.
 * Source: specification, “Output workbook” 2; decision 0010.
 */
export function toWorkbookName(fileName: string): string {
  const path = fileName.replace(UNPRINTABLE, '').replace(/[. ]{1,255}$/, '')
  // A dot in a folder does not begin an extension.
  const folders = Math.max(path.lastIndexOf('/'), path.lastIndexOf('\\')) + 1
  const clean = path.replace(/[<>:"/\\|?*]/g, '_')
  const dot = clean.lastIndexOf('.')
  const hasExtension = dot > folders || IMAGE_EXTENSION.test(clean.slice(folders))
  const stem = hasExtension ? clean.slice(0, dot) : clean
  const name = WINDOWS_DEVICE.test(stem) ? `_${stem}` : stem
  return `${cutUnits(name === '' ? 'image' : name, FILE_NAME_UNITS_MAX - EXTENSION.length)}${EXTENSION}`
}

/**
 * Returns the `Content-Disposition` to download a file as `name`. The specification requires that a name of token
 * characters is not quoted. Other names are quoted, and names that are not plain ASCII also have a `filename*`.
 * Source: specification, “Endpoints”, row C; RFC 6266 sections 4.1 and 4.3, RFC 8187.
 */
export function formatDisposition(name: string): string {
  if (/^[A-Za-z0-9!#$&+.^_`|~-]+$/.test(name)) return `attachment; filename=${name}`
  const ascii = name.replace(/[^\x20-\x7e]+/g, '_')
  const quoted = `attachment; filename="${ascii.replace(/["\\]/g, '\\$&')}"`
  // A name with a percent sign needs `filename*`, because some browsers decode percent signs in `filename`.
  if (ascii === name && !name.includes('%')) return quoted
  const extended = encodeURIComponent(name).replace(
    /['()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `${quoted}; filename*=UTF-8''${extended}`
}

/** Truncates `text` to `unitsMax` UTF-16 units, without splitting a surrogate pair. */
function cutUnits(text: string, unitsMax: number): string {
  const cut = text.slice(0, unitsMax)
  return cut.isWellFormed() ? cut : cut.slice(0, -1)
}
