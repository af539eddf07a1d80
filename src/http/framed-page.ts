import { readFileSync } from 'node:fs'
import { type PageFile, pageFile } from './page-files.ts'

/** A way from one page of a listener to another, or to its API. */
export interface PageLink {
  readonly href: string
  readonly text: string
  /** The same in Japanese; absent where it is the same. */
  readonly japanese?: string
}

/** A page in the frame that all pages of all listeners have. */
export interface FramedPage {
  readonly title: string
  /** In the head, beside the name; the page itself is the one whose `href` is `path`. */
  readonly links: readonly PageLink[]
  readonly path: string
  /** Where the files of the look are: `…/static` of the listener's OpenAPI page. */
  readonly look: string
  /** Whether it can be read in Japanese; see `look/language.js`. */
  readonly isTranslated: boolean
  /** HTML of further elements of `<head>`. */
  readonly head: string
  /** HTML of what is between the head of the page and its end. */
  readonly main: string
}

const look = (name: string) => readFileSync(new URL(`./look/${name}`, import.meta.url), 'utf8')

/** The files of the look, to be served below `base`. */
export function lookFiles(base: string): readonly PageFile[] {
  const css = ['palette.css', 'frame.css', 'page.css'].map(look).join('\n')
  return [
    pageFile(`${base}/look.css`, 'look.css', css),
    ...['icon.svg', 'language.js'].map((name) => pageFile(`${base}/${name}`, name, look(name))),
  ]
}

/** The files that Swagger UI needs in this look beside its own, to be served below `base`. */
export function swaggerLookFiles(base: string): readonly PageFile[] {
  return ['swagger.css', 'swagger-start.js'].map((name) =>
    pageFile(`${base}/${name}`, name, look(name)),
  )
}

/** The HTML of `page`. */
export function framedHtml(page: FramedPage): string {
  const { title, links, path, look: base, isTranslated, head, main } = page
  const items = links.map(({ href, text, japanese }) => {
    const current = href === path ? ' aria-current="page"' : ''
    const other = japanese === undefined ? '' : ` data-ja="${escaped(japanese)}"`
    return `<li><a href="${escaped(href)}"${current}${other}>${escaped(text)}</a></li>`
  })
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escaped(title)}</title>
<link rel="icon" href="${escaped(base)}/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="${escaped(base)}/look.css">
${isTranslated ? `<script type="module" src="${escaped(base)}/language.js"></script>` : ''}
${head}
</head>
<body>
<header class="page-head">
<a class="skip" href="#content"${isTranslated ? ' data-ja="本文へ移動"' : ''}>Skip to the content</a>
<div class="container">
<a class="brand" href="${escaped(path)}"><img src="${escaped(base)}/icon.svg" alt="" width="28" height="28"> <span>daicho</span></a>
<nav aria-label="Pages"${isTranslated ? ' data-ja-aria-label="ページ"' : ''}><ul>${items.join('')}</ul></nav>
${isTranslated ? `<div class="page-state">${LANGUAGES}</div>` : ''}
</div>
</header>
${main}
</body>
</html>
`
}

const LANGUAGES = `<select class="language" aria-label="Language" data-ja-aria-label="言語">
<option value="en" lang="en">English</option><option value="ja" lang="ja">日本語</option></select>`

/** `text` in HTML, also between quotes. */
export function escaped(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}
