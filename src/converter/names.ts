/** Sheet names are at most this many UTF-16 units. Source: Excel specifications. */
const SHEET_NAME_UNITS_MAX = 31
/** File systems keep no more; a longer name is cut before its extension. */
const FILE_NAME_UNITS_MAX = 255
const EXTENSION = '.xlsx'
const IMAGE_EXTENSION = /^\.(?:jpe?g|png|gif|webp|avif|tiff?|bmp|svg)$/i
/** Reserved with any extension. */
const WINDOWS_DEVICE = /^(?:con|prn|aux|nul|com\d|lpt\d) *(?:\.|$)/i

/**
 * Characters to remove from names: controls, U+FFFE, U+FFFF and unpaired surrogates, which XML 1.0 forbids; and
 * bidirectional controls, which make a name look like another.
 */
const UNPRINTABLE =
  /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g

/**
 * The name of the sheet for an upload named `fileName`: the same name, as far as a sheet can bear.
 *
 * Control characters are removed; `\ / ? * [ ] :` and an apostrophe at either end become `_`; at most 31
 * UTF-16 units, never half a pair; `History` is reserved and becomes `_History`; an empty name
 * becomes `Sheet1`. Source: specification, “Output workbook” 1; docs/decisions/0022-names.md.
 */
export function sheetNameOf(fileName: string): string {
  const clean = fileName.replace(UNPRINTABLE, '').replace(/[\\/?*[\]:]/g, '_')
  const cut = cutUnits(clean, SHEET_NAME_UNITS_MAX)
  const name = cut.replace(/^'/, '_').replace(/'$/, '_')
  if (name === '') return 'Sheet1'
  return name.toLowerCase() === 'history' ? `_${name}` : name
}

/**
 * The name of the workbook for an upload named `fileName`: its extension replaced by `xlsx`.
 *
 * The extension follows the last dot; `.hidden` has none, `.png` consists of one. Control characters, and dots and
 * spaces at the end, are removed; characters that Windows forbids become `_`, and its device names get a leading `_`.
 * Source: specification, “Output workbook” 2; docs/decisions/0022-names.md.
 */
export function workbookNameOf(fileName: string): string {
  const clean = fileName
    .replace(UNPRINTABLE, '')
    .replace(/[<>:"/\\|?*]/g, '_')
    .replace(/[. ]{1,255}$/, '')
  const dot = clean.lastIndexOf('.')
  const stem = dot > 0 || IMAGE_EXTENSION.test(clean) ? clean.slice(0, dot) : clean
  const name = WINDOWS_DEVICE.test(stem) ? `_${stem}` : stem
  return `${cutUnits(name === '' ? 'image' : name, FILE_NAME_UNITS_MAX - EXTENSION.length)}${EXTENSION}`
}

/**
 * The `Content-Disposition` that offers `name` for download.
 *
 * A name made of token characters stands bare, as the specification shows it; any other is quoted,
 * and a name beyond ASCII is given twice: `filename` for the old, `filename*` for the rest.
 * Source: specification, “Endpoints”, row C; RFC 6266 sections 4.1 and 4.3, RFC 8187.
 */
export function dispositionOf(name: string): string {
  if (/^[A-Za-z0-9!#$&+.^_`|~-]+$/.test(name)) return `attachment; filename=${name}`
  const ascii = name.replace(/[^\x20-\x7e]+/g, '_')
  const quoted = `attachment; filename="${ascii.replace(/["\\]/g, '\\$&')}"`
  // A percent sign is decoded by some browsers even in the plain form, so it too is given twice.
  if (ascii === name && !name.includes('%')) return quoted
  return `${quoted}; filename*=UTF-8''${extended(name)}`
}

/** `attr-char`s of RFC 8187 stand, all else is percent-encoded UTF-8. */
function extended(name: string): string {
  return encodeURIComponent(name).replace(
    /['()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  )
}

/** The first `unitsMax` UTF-16 units of well-formed `text`, less one where that would halve a pair. */
function cutUnits(text: string, unitsMax: number): string {
  const cut = text.slice(0, unitsMax)
  return cut.isWellFormed() ? cut : cut.slice(0, -1)
}
