import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { escaped, framedHtml, lookFiles, type PageLink, swaggerLookFiles } from './framed-page.ts'
import { type PageFile, pageFile } from './page-files.ts'

/** What a page that shows an OpenAPI document is made of. */
export interface SwaggerPage {
  readonly title: string
  /** Where the page is. */
  readonly path: string
  readonly links: readonly PageLink[]
  /** Where its files are: the `base` that `swaggerFiles` was given. */
  readonly base: string
  /** Where the document is. */
  readonly document: string
}

const PACKAGE = ['swagger-ui.css', 'swagger-ui-bundle.js']
/** The files of the package by name, read when the first listener of the process asks for them. */
const read = new Map<string, Buffer>()

/** Every file that such a page, and any page in the same frame, needs beside itself, below `base`. */
export function swaggerFiles(base: string): readonly PageFile[] {
  const folder = join(createRequire(import.meta.url).resolve('@fastify/swagger-ui'), '../static')
  const own = PACKAGE.map((name) => {
    const bytes = read.get(name) ?? readFileSync(join(folder, name))
    read.set(name, bytes)
    return pageFile(`${base}/${name}`, name, bytes)
  })
  return [...lookFiles(base), ...swaggerLookFiles(base), ...own]
}

/** The HTML of `page`: Swagger UI in the frame of all pages, with every file from this address. */
export function swaggerPage({ title, path, links, base, document }: SwaggerPage): string {
  const at = (name: string) => `${escaped(base)}/${name}`
  return framedHtml({
    title,
    links,
    path,
    look: base,
    isTranslated: false,
    head: `<meta name="document" content="${escaped(document)}">
<link rel="stylesheet" href="${at('swagger-ui.css')}">
<link rel="stylesheet" href="${at('swagger.css')}">`,
    main: `<div id="content" class="container" tabindex="-1"><div id="swagger-ui"></div></div>
<script src="${at('swagger-ui-bundle.js')}"></script>
<script src="${at('swagger-start.js')}"></script>`,
  })
}
