import { SourceListError } from './errors.ts'

/** One entry of `RATES_SOURCES`. */
export type SourceEntry =
  | {
      readonly kind:
        | 'ecb'
        | 'frankfurter'
        | 'exchange-api'
        | 'openexchangerates'
        | 'gmo'
        | 'lastgood'
        | 'snapshot'
    }
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'url'; readonly url: URL }

const ENTRIES_MAX = 16

/**
 * The entries of `text`, comma-separated, in the order they are tried.
 *
 * Errors: SourceListError, naming the entry that is unknown, repeated, or has a bad path or URL.
 */
export function parseSourceList(text: string): readonly SourceEntry[] {
  const words = text.split(',').map((word) => word.trim())
  if (words.length > ENTRIES_MAX) {
    throw new SourceListError(`more than ${ENTRIES_MAX} sources are listed`)
  }
  if (new Set(words).size !== words.length) {
    throw new SourceListError('a source is listed twice')
  }
  return words.map(entryOf)
}

function entryOf(word: string): SourceEntry {
  switch (word) {
    case 'ecb':
    case 'frankfurter':
    case 'exchange-api':
    case 'openexchangerates':
    case 'gmo':
    case 'lastgood':
    case 'snapshot':
      return { kind: word }
  }
  if (word.startsWith('file:')) return { kind: 'file', path: pathOf(word) }
  if (word.startsWith('url:')) return { kind: 'url', url: urlOf(word.slice('url:'.length)) }
  throw new SourceListError(
    `${JSON.stringify(word.slice(0, 40))} is no source; known are ecb, frankfurter, exchange-api, ` +
      'openexchangerates, gmo, file:<path>, url:<https address>, lastgood, snapshot',
  )
}

function pathOf(word: string): string {
  const path = word.startsWith('file://') ? word.slice('file://'.length) : word.slice(5)
  if (path === '' || path.includes('\0')) {
    throw new SourceListError('file: needs a path')
  }
  return path
}

/** The address is not repeated in messages: it may hold a key. */
function urlOf(text: string): URL {
  const url = URL.parse(text)
  if (url === null || url.protocol !== 'https:') {
    throw new SourceListError('url: needs an https address')
  }
  return url
}
