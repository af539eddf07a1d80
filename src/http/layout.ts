import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { HttpApp } from './component.ts'
import { type PageFile, pageFile, servePageFiles } from './page-files.ts'

/** A link in the header of every page of a listener. */
export interface PageLink {
  readonly href: string
  readonly text: string
  /** The Japanese text; absent if `text` is also the Japanese text. */
  readonly japanese?: string
}

interface Page {
  readonly title: string
  /** Links in the header; the link whose `href` equals `path` is marked as current. */
  readonly links: readonly PageLink[]
  readonly path: string
  /** Path of the shared files: `…/static` of the listener's OpenAPI page. */
  readonly assets: string
}

interface PageContent {
  /** Whether the page is available in Japanese; see `layout/language.js`. */
  readonly isTranslated: boolean
  /** HTML of additional elements for `<head>`. */
  readonly head: string
  /** HTML below the page header. */
  readonly main: string
}

/** A page that shows an OpenAPI document. */
export interface SwaggerPage extends Page {
  readonly document: string
}

/** A page of a component: the files `main.html`, `page.css` and `page.js` in a folder. */
export interface ComponentPage extends Page {
  readonly folder: URL
  /** Replaces `{{name}}` in the files; `{{assets}}` is predefined. */
  readonly values?: Readonly<Record<string, string>>
}

const SWAGGER_UI = ['swagger-ui.css', 'swagger-ui-bundle.js']
const LANGUAGES = `<select class="language" aria-label="Language" data-ja-aria-label="言語">
<option value="en" lang="en">English</option><option value="ja" lang="ja">日本語</option></select>`

const layoutFile = (name: string) => readFileSync(new URL(`./layout/${name}`, import.meta.url))

/** Reads a file of Swagger UI: from `layout/`, into which the build copies these files, or from the npm package. */
function swaggerUiFile(name: string): Buffer {
  const copied = new URL(`./layout/${name}`, import.meta.url)
  if (existsSync(copied)) return readFileSync(copied)
  const main = createRequire(import.meta.url).resolve('@fastify/swagger-ui')
  return readFileSync(join(main, '../static', name))
}

/** Returns the files that all pages of a listener share, including Swagger UI, with paths below `base`. */
export function assetFiles(base: string): readonly PageFile[] {
  const css = () => Buffer.concat(['palette.css', 'frame.css', 'page.css'].map(layoutFile))
  return [
    pageFile(`${base}/layout.css`, 'layout.css', css),
    ...['icon.svg', 'language.js', 'swagger.css', 'swagger-start.js'].map((name) =>
      pageFile(`${base}/${name}`, name, () => layoutFile(name)),
    ),
    pageFile(`${base}/visible.js`, 'visible.js', () =>
      readFileSync(new URL('../base/visible.js', import.meta.url)),
    ),
    ...SWAGGER_UI.map((name) => pageFile(`${base}/${name}`, name, () => swaggerUiFile(name))),
  ]
}

/** Returns the HTML of a page with Swagger UI in the common layout. The page loads files only from its listener. */
export function swaggerPage(page: SwaggerPage): string {
  const at = (name: string) => `${escapeHtml(page.assets)}/${name}`
  return pageHtml(page, {
    isTranslated: false,
    head: `<meta name="document" content="${escapeHtml(page.document)}">
<link rel="stylesheet" href="${at('swagger-ui.css')}">
<link rel="stylesheet" href="${at('swagger.css')}">`,
    main: `<main id="content" class="container" tabindex="-1"><div id="swagger-ui"></div></main>
<script src="${at('swagger-ui-bundle.js')}"></script>
<script type="module" src="${at('swagger-start.js')}"></script>`,
  })
}

/** Serves `page` in the common layout, in English and Japanese. The page loads files only from its listener. */
export function serveComponentPage(app: HttpApp, page: ComponentPage): void {
  const { path, assets, folder } = page
  const values = Object.entries({ ...page.values, assets })
  const text = (name: string) =>
    values.reduce(
      (all, [key, value]) => all.replaceAll(`{{${key}}}`, value),
      readFileSync(new URL(name, folder), 'utf8'),
    )
  const html = pageHtml(
    { ...page, title: `${page.title} · daicho` },
    {
      isTranslated: true,
      head: `<link rel="stylesheet" href="${path}/page.css">
<script type="module" src="${path}/page.js"></script>`,
      main: text('main.html'),
    },
  )
  servePageFiles(app, [
    pageFile(path, 'page.html', html),
    ...['page.css', 'page.js'].map((name) => pageFile(`${path}/${name}`, name, text(name))),
  ])
}

function pageHtml(page: Page, { isTranslated, head, main }: PageContent): string {
  const [title, path, assets] = [page.title, page.path, page.assets].map(escapeHtml)
  const items = page.links.map(({ href, text, japanese }) => {
    const current = href === page.path ? ' aria-current="page"' : ''
    const other = japanese === undefined ? '' : ` data-ja="${escapeHtml(japanese)}"`
    return `<li><a href="${escapeHtml(href)}"${current}${other}>${escapeHtml(text)}</a></li>`
  })
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<link rel="icon" href="${assets}/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="${assets}/layout.css">
${isTranslated ? `<script type="module" src="${assets}/language.js"></script>` : ''}
${head}
</head>
<body>
<header class="page-head">
<a class="skip" href="#content"${isTranslated ? ' data-ja="本文へ移動"' : ''}>Skip to the content</a>
<div class="container">
<a class="brand" href="${path}"><img src="${assets}/icon.svg" alt="" width="28" height="28"> <span>daicho</span></a>
<nav aria-label="Pages"${isTranslated ? ' data-ja-aria-label="ページ"' : ''}><ul>${items.join('')}</ul></nav>
${isTranslated ? `<div class="page-state">${LANGUAGES}</div>` : ''}
</div>
</header>
${main}
</body>
</html>
`
}

/** Escapes `text` for HTML content and attributes. */
function escapeHtml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}
