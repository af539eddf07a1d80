// How texts of users are shown, on all pages. Types: visible.d.ts.

/**
 * Characters that are not seen, look like a space, or change the order of the characters around them: controls, formats,
 * fillers, separators, unassigned characters and lone surrogates.
 */
const HIDDEN = String.raw`[[\p{C}\p{DI}\p{Z}]--[\x20]]`
/** Characters that look like another one, such as the sign for ohms. Source: Unicode Standard Annex 15, singletons without ideographs. */
const SINGLES = String.raw`[\u0340\u0341\u0343\u0374\u037e\u0387\u1fef\u1ffd\u2126\u212a\u212b\u2329\u232a]`
/**
 * Characters with up to four marks, and parts of a syllable of Hangul, which may look like one character; and other marks,
 * because they would cover other characters.
 */
const CLUSTERS = String.raw`([\u1100-\u115f][\u1160-\u11ff]+|[\P{M}--"][\p{M}--\p{DI}]{1,4})|\p{M}`
/** Text that stays: emoji, which contain joiners, and the wide space between wide characters, as in Japanese names. */
const KEPT = String.raw`((?=[\p{ExtPict}\p{RI}]|[#*\d]\ufe0f)\p{RGI_Emoji}|(?<=[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}])\u3000(?=[\p{L}\p{N}]))`
/** Spaces at both ends, and spaces after a space, because HTML does not show them. */
const SPACES = '^ +| +$|(?<= ) +'
/** Backslashes that could be taken for the start of an escape. */
const BACKSLASHES = String.raw`\\+(?=u\{|${HIDDEN}|${SINGLES}|\p{M}| +$)`
const IN_TEXT = new RegExp(
  `${KEPT}|${BACKSLASHES}|${HIDDEN}|${SPACES}|${SINGLES}|${CLUSTERS}`,
  'gv',
)
const IN_JSON = new RegExp(`${KEPT}|(?!\n)${HIDDEN}|${SINGLES}|${CLUSTERS}`, 'gv')
/** Text in which nothing is escaped. */
const PLAIN = /^(?:[!-[\]-~]+(?: [!-[\]-~]+)*)?$/
/** The blocks of scripts that are written from right to left. */
const RIGHT = String.raw`[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]`
const WORD = String.raw`[${RIGHT}&&\p{L}][${RIGHT}&&[\p{L}\p{M}]]*`
const FROM_RIGHT = new RegExp(`${WORD}(?: ${WORD})*|${RIGHT}`, 'gv')

/**
 * Returns a name, an id or another text of a user so that no two different texts look the same: invisible characters
 * become escapes, such as `\u{202e}`, and text from right to left does not change the order of its surroundings.
 */
export function visible(text) {
  if (PLAIN.test(text)) return text
  const toEscapes = (found) =>
    Array.from(found, (one) => `\\u{${one.codePointAt(0)?.toString(16)}}`).join('')
  return isolated(text.replace(IN_TEXT, (...match) => escaped(match, toEscapes)))
}

/** Returns a match of IN_TEXT or IN_JSON with the escapes that it needs. */
function escaped([found, kept, cluster], toEscapes) {
  if (kept !== undefined) return kept
  if (cluster === undefined) return toEscapes(found)
  // Marks that belong to no single character cannot be taken for it.
  const base = String.fromCodePoint(cluster.codePointAt(0))
  return cluster === cluster.normalize('NFC')
    ? cluster
    : base + toEscapes(cluster.slice(base.length))
}

/** Returns JSON with escapes for invisible characters, such as `\u202e`. The result is the same JSON. */
export function visibleJson(json) {
  const toEscapes = (found) => {
    const units = Array.from({ length: found.length }, (_, at) => found.charCodeAt(at))
    return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('')
  }
  return isolated(json.replace(IN_JSON, (...match) => escaped(match, toEscapes)))
}

/** Returns a text of several lines with `visible` lines. Tabs, and spaces, which such a text shows, stay as they are. */
export function visibleText(text) {
  return text.replace(/[^\n\t]+/g, (line) => visible(line).replaceAll('\\u{20}', ' '))
}

/**
 * Encloses words from right to left in U+2067 and U+2069. Everything else is in its order from left to right, so a number
 * is never shown on the wrong side of a word. Source: Unicode Standard Annex 9, isolates.
 */
function isolated(text) {
  return text.replace(FROM_RIGHT, '\u2067$&\u2069')
}

/** Returns the text that `visible` has shown, for the clipboard. */
export function originalText(shown) {
  return shown
    .replace(/[\u2067\u2069]/g, '')
    .replace(/(?<!\\)\\u\{([0-9a-f]{1,6})\}/g, (_, hex) =>
      String.fromCodePoint(Number.parseInt(hex, 16)),
    )
}

/** Returns `name` as the name of a file that shows its extension as it is. */
export function toFileName(name) {
  return visible(name)
    .replace(/[\u2067\u2069]/g, '')
    .replace(/[\\/:*?"<>|]/g, '_')
}
