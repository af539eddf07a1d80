import { readFile } from 'node:fs/promises'
import type { HttpApp } from '../http/index.ts'

/** The files of the page, beside this one, and where each is served. */
const FILES = [
  ['/page', 'page.html', 'text/html; charset=utf-8'],
  ['/page/page.css', 'page.css', 'text/css; charset=utf-8'],
  ['/page/page.js', 'page.js', 'text/javascript; charset=utf-8'],
  ['/page/icon.svg', 'icon.svg', 'image/svg+xml'],
] as const

/** Nothing from elsewhere, nothing inline; pictures also from what the page itself made. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; " +
  "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

/** Serves the upload page at `/page`, whole from this process. */
export async function converterPage(
  app: HttpApp,
  defaults: { readonly px: number; readonly width: number },
): Promise<void> {
  for (const [path, file, type] of FILES) {
    const text = await readFile(new URL(`./page/${file}`, import.meta.url), 'utf8')
    const body = text
      .replaceAll('{{px}}', String(defaults.px))
      .replaceAll('{{width}}', String(defaults.width))
    app.get(path, { schema: { hide: true } }, async (_request, reply) =>
      reply
        .header('content-type', type)
        .header('content-security-policy', POLICY)
        .header('x-content-type-options', 'nosniff')
        .header('referrer-policy', 'no-referrer')
        .header('cache-control', 'no-cache')
        .send(body),
    )
  }
}
