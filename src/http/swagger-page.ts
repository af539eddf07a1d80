import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'

/** A file of the page, ready to be sent. */
export interface PageFile {
  readonly contentType: string
  readonly content: Buffer
  readonly etag: string
}

/**
 * Everything comes from this address: the page works without a network and over plain HTTP. The
 * library makes styles in its elements, which is why they are let in.
 */
export const SWAGGER_PAGE_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
  "font-src 'self'; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"

const TYPES: Readonly<Record<string, string>> = {
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  png: 'image/png',
}
const ASSETS = ['swagger-ui.css', 'index.css', 'swagger-ui-bundle.js', 'favicon-32x32.png']
const INITIALIZER = `window.ui = SwaggerUIBundle({
  url: document.querySelector('meta[name=document]').content,
  dom_id: '#swagger-ui',
  validatorUrl: null,
  docExpansion: 'list',
  displayRequestDuration: true,
  tryItOutEnabled: false,
  presets: [SwaggerUIBundle.presets.apis],
  layout: 'BaseLayout',
})
`

/** The files that Swagger UI needs beside its page, by name. */
export async function swaggerFiles(): Promise<ReadonlyMap<string, PageFile>> {
  const folder = join(createRequire(import.meta.url).resolve('@fastify/swagger-ui'), '../static')
  const files = new Map<string, PageFile>()
  for (const name of ASSETS) files.set(name, pageFile(name, await readFile(join(folder, name))))
  const initializer = 'initializer.js'
  files.set(initializer, pageFile(initializer, Buffer.from(INITIALIZER)))
  return files
}

function pageFile(name: string, content: Buffer): PageFile {
  const contentType = TYPES[name.slice(name.lastIndexOf('.') + 1)] ?? 'application/octet-stream'
  const etag = `"${createHash('sha256').update(content).digest('hex').slice(0, 32)}"`
  return { contentType, content, etag }
}

/** The page itself: its files are below `base`, and it shows the document at `<base>/openapi.json`. */
export function swaggerPage(title: string, base: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="document" content="${escaped(base)}/openapi.json">
<title>${escaped(title)}</title>
<link rel="stylesheet" href="${escaped(base)}/swagger-ui.css">
<link rel="stylesheet" href="${escaped(base)}/index.css">
<link rel="icon" type="image/png" href="${escaped(base)}/favicon-32x32.png">
</head>
<body>
<div id="swagger-ui"></div>
<script src="${escaped(base)}/swagger-ui-bundle.js"></script>
<script src="${escaped(base)}/initializer.js"></script>
</body>
</html>
`
}

function escaped(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}
