import { createHash } from 'node:crypto'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { HttpApp } from './component.ts'

/** A file of a page, held in memory. */
export interface PageFile {
  /** From the root: `/` for the page itself, `/assets/…` for what has its hash in its name. */
  readonly path: string
  readonly type: string
  readonly bytes: Buffer
  /** The same, compressed when this is first asked for; null where that is not worth it. */
  readonly gzipped: () => Buffer | null
  /** With its quotes. */
  readonly etag: string
}

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
}
const PAGE = 'index.html'
/** Under this path names change when the content does. */
const HASHED = '/assets/'
/** What is larger is sent as it is: compressing it would hold up other requests. */
const COMPRESSED_BYTES_MAX = 512 * 1024

/** The file at `path` with `content`; what `name` ends in says its type. */
export function pageFile(path: string, name: string, content: Buffer | string): PageFile {
  const bytes = Buffer.from(content)
  const isWorth = bytes.length <= COMPRESSED_BYTES_MAX
  let gzipped: Buffer | null = null
  return {
    path,
    type: TYPES[extname(name)] ?? 'application/octet-stream',
    bytes,
    gzipped: () => {
      if (isWorth) gzipped ??= gzipSync(bytes)
      return gzipped
    },
    etag: `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`,
  }
}

/** The files of the page that was built into `folder`; null when none was. */
export function readPageFiles(folder: URL): readonly PageFile[] | null {
  const root = fileURLToPath(folder)
  if (!existsSync(join(root, PAGE))) return null
  return globSync('**/*.{html,js,css,svg}', { cwd: root })
    .sort()
    .map((name) => {
      const path = name === PAGE ? '/' : `/${name.replaceAll('\\', '/')}`
      return pageFile(path, name, readFileSync(join(root, name)))
    })
}

/** What every page is sent with: nothing from elsewhere, nothing inline, in no frame. */
export const SECURED = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
} as const

/** Serves `files` to whom `check` lets through; it throws what refuses the others. */
export function servePageFiles(
  app: HttpApp,
  files: readonly PageFile[],
  check: (request: FastifyRequest, reply: FastifyReply) => void = () => {},
): void {
  for (const file of files) {
    const caching = file.path.startsWith(HASHED)
      ? 'private, max-age=31536000, immutable'
      : 'private, no-cache'
    app.get(
      file.path,
      { schema: { hide: true }, config: { scope: 'public' } },
      async (request, reply) => {
        check(request, reply)
        reply
          .headers(SECURED)
          .header('cache-control', caching)
          .header('vary', 'accept-encoding')
          .header('etag', file.etag)
        const { 'if-none-match': known, 'accept-encoding': taken = '' } = request.headers
        if (known?.includes(file.etag) === true) return reply.code(304).send()
        reply.type(file.type)
        const gzipped = /\bgzip\b(?!;q=0)/.test(String(taken)) ? file.gzipped() : null
        if (gzipped === null) return reply.send(file.bytes)
        return reply.header('content-encoding', 'gzip').send(gzipped)
      },
    )
  }
}
