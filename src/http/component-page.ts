import { readFileSync } from 'node:fs'
import type { HttpApp } from './component.ts'
import { framedHtml, type PageLink } from './framed-page.ts'
import { pageFile, servePageFiles } from './page-files.ts'

/** A page of a component, made of the files `main.html`, `page.css` and `page.js` of a folder. */
export interface ComponentPage {
  readonly path: string
  readonly title: string
  /** The pages of the listener, this one included. */
  readonly links: readonly PageLink[]
  /** From `registerOpenApiPage`. */
  readonly look: string
  readonly folder: URL
  /** What stands in the files for `{{name}}`; `{{look}}` is there without being named. */
  readonly values?: Readonly<Record<string, string>>
}

/** Serves `page` in the frame of all pages, in English and Japanese, whole from this process. */
export function serveComponentPage(app: HttpApp, page: ComponentPage): void {
  const { path, title, links, look, folder } = page
  const values = { ...page.values, look }
  const text = (name: string) =>
    Object.entries(values).reduce(
      (all, [value, by]) => all.replaceAll(`{{${value}}}`, by),
      readFileSync(new URL(name, folder), 'utf8'),
    )
  const html = framedHtml({
    title: `${title} · daicho`,
    links,
    path,
    look,
    isTranslated: true,
    head: `<link rel="stylesheet" href="${path}/page.css">
<script type="module" src="${path}/page.js"></script>`,
    main: text('main.html'),
  })
  servePageFiles(app, [
    pageFile(path, 'page.html', html),
    ...['page.css', 'page.js'].map((name) => pageFile(`${path}/${name}`, name, text(name))),
  ])
}
