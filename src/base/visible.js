// How texts of users are shown, on all pages. Types: visible.d.ts.

/**
 * Characters that are not seen, look like a space, or change the order of the characters around them: controls, formats,
 * fillers, separators, unassigned characters and lone surrogates.
 */
const HIDDEN = String.raw`[[\p{C}\p{DI}\p{Z}]--[\x20]]`
/**
 * Characters that look like another one in every text: singletons without ideographs (Unicode Standard Annex 15), such as
 * the sign for ohms; hyphens, dots, colons and slashes; a few letters and Roman numerals; radicals of Han; mathematical letters.
 */
const SINGLES = String.raw`[\u0340\u0341\u0343\u0374\u037e\u0387\u1fef\u1ffd\u2126\u212a\u212b\u2329\u232a\u01c3\u0261\u2011\u2024\u2044\u2215\u2236\ua789\u216c-\u216f\u217c-\u217f\u2e80-\u2fd5\u{1d400}-\u{1d7ff}]`
/**
 * Characters with up to four marks, and parts of a syllable of Hangul, which may look like one character; and other marks,
 * because they would cover other characters.
 */
const CLUSTERS = String.raw`([\u1100-\u115f][\u1160-\u11ff]+|[\P{M}--"][\p{M}--\p{DI}]{1,4})|\p{M}`
/** Text that stays: emoji, which contain joiners, and the wide space between wide characters, as in Japanese names. */
const KEPT = String.raw`((?=[\p{ExtPict}\p{RI}]|[#*\d]\ufe0f)\p{RGI_Emoji}|(?<=[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}])\u3000(?=[\p{L}\p{N}]))`
/** Spaces at both ends, and spaces after a space, because HTML does not show them. */
const SPACES = '^ +| +$|(?<= ) +'
/** All backslashes of a run. The search never starts inside of one, because that would take quadratic time. */
const RUN = String.raw`(?<!\\)\\+`
/** Backslashes that could be taken for the start of an escape. */
const BACKSLASHES = String.raw`${RUN}(?=u\{|${HIDDEN}|${SINGLES}|\p{M}| +$)`
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

/** Latin letters of the usual width. */
const LATIN = String.raw`[\p{sc=Latn}--[\uff21-\uff5a]]`
/** Greek letters that look like no Latin letter. They stand beside Latin ones in formulas: 5 μm, kΩ, γ-GTP, NF-κB. */
const FORMULA = String.raw`\u0393\u0394\u0398\u039b\u039e\u03a0\u03a3\u03a6\u03a8\u03a9\u03b1-\u03b8\u03ba-\u03bc\u03be\u03c0\u03c2-\u03c4\u03c6\u03c8\u03c9`
/** Letters and digits of scripts with look-alikes of Latin, and wide letters. */
const OTHER = String.raw`[[\p{sc=Cyrl}\p{sc=Grek}\p{sc=Armn}\p{sc=Cher}\p{sc=Copt}\p{sc=Lisu}\p{Nd}\uff21-\uff5a]--[\d\uff10-\uff19${FORMULA}]]`
const LETTER = String.raw`[${LATIN}${OTHER}${FORMULA}\p{M}\d]`
/** A word of Cyrillic or Greek letters that all look like Latin ones. Source: Unicode Technical Standard 39, confusables. */
const ALIKE =
  /^\\*[\d\u0410\u0412\u0415\u0405\u0406\u0408\u041a\u041c-\u041e\u0420-\u0423\u0425\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458\u0475\u04bb\u04c0\u04cf\u0501\u051a-\u051d\u0391\u0392\u0395-\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03b9\u03bd\u03bf\u03c1\u03c5\u03c7]+$/
const HAS_LATIN = new RegExp(LATIN, 'v')
const HAS_OTHER = new RegExp(OTHER, 'v')
const OTHERS = new RegExp(`${RUN}(?=${OTHER})|${OTHER}`, 'gv')
const WORDS = new RegExp(`(?:${RUN})?${LETTER}+`, 'gv')
/** An escape, or words that signs connect, as in an address of mail. */
const CONNECTED = `(?:${RUN})?(?:${LETTER}|[_.@:+]|-|/)+`
const IN_VISIBLE = new RegExp(String.raw`\\u\{[0-9a-f]+\}|${CONNECTED}`, 'gv')
const IN_VISIBLE_JSON = new RegExp(String.raw`\\(?:u[0-9a-fA-F]{4}|[^u])|${CONNECTED}`, 'gv')

/**
 * Returns a name, an id or another text of a user so that no two different texts look the same: invisible characters
 * become escapes, such as `\u{202e}`, so do look-alikes of Latin letters, and text from right to left does not change the order of its surroundings.
 */
export function visible(text) {
  if (PLAIN.test(text)) return text
  const toEscapes = (found) =>
    Array.from(found, (one) => `\\u{${one.codePointAt(0)?.toString(16)}}`).join('')
  const shown = text.replace(IN_TEXT, (...match) => escaped(match, toEscapes))
  return isolated(withMarkedScripts(shown, IN_VISIBLE, toEscapes))
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
  const shown = json.replace(IN_JSON, (...match) => escaped(match, toEscapes))
  return isolated(withMarkedScripts(shown, IN_VISIBLE_JSON, toEscapes))
}

/**
 * Returns `shown` with escapes for letters of other scripts in words that also have Latin letters, and for words that look
 * Latin beside a Latin one: one cannot tell the Cyrillic `а` of `\\u{430}dmin` from the Latin letter. Texts in one script stay.
 */
function withMarkedScripts(shown, parts, toEscapes) {
  if (!HAS_OTHER.test(shown) || !HAS_LATIN.test(shown)) return shown
  const isMisleading = (word) => HAS_OTHER.test(word) && (HAS_LATIN.test(word) || ALIKE.test(word))
  const marked = (word) => (isMisleading(word) ? word.replace(OTHERS, toEscapes) : word)
  return shown.replace(parts, (part) => (HAS_LATIN.test(part) ? part.replace(WORDS, marked) : part))
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
