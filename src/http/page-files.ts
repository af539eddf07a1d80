import { createHash } from 'node:crypto'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import type { FastifyContextConfig, FastifyReply, FastifyRequest } from 'fastify'
import type { HttpApp } from './component.ts'
import { acceptsGzip, toVariantTag } from './compression.ts'

export interface PageFile {
  /** URL path: `/` for the page itself, `/assets/…` for files with a hash in their name. */
  readonly path: string
  readonly type: string
  readonly content: () => FileContent
}

interface FileContent {
  readonly bytes: Buffer
  /** The compressed content; null for files larger than COMPRESSED_BYTES_MAX. */
  readonly gzipped: Buffer | null
  /** Value of the header `ETag`, including its quotes. */
  readonly etag: string
}

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
}
const PAGE = 'index.html'
/** Files below this path have a hash of their content in their name, so they may be cached forever. */
const HASHED = '/assets/'
/** Maximum bytes of a file that is compressed. Compressing a larger file would delay other requests. */
const COMPRESSED_BYTES_MAX = 512 * 1024

/**
 * Returns a file for the URL path `path`. The extension of `name` determines its type. `read` is the content, or a
 * function that returns the content and is called on first use.
 */
export function pageFile(path: string, name: string, read: string | (() => Buffer)): PageFile {
  let content: FileContent | null = null
  return {
    path,
    type: TYPES[extname(name)] ?? 'application/octet-stream',
    content: () => {
      content ??= fileContent(typeof read === 'string' ? Buffer.from(read) : read())
      return content
    },
  }
}

function fileContent(bytes: Buffer): FileContent {
  return {
    bytes,
    gzipped: bytes.length <= COMPRESSED_BYTES_MAX ? gzipSync(bytes) : null,
    etag: `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`,
  }
}

/** Returns the files of the built page in `folder`, or null if the page was not built. */
export function readPageFiles(folder: URL): readonly PageFile[] | null {
  const root = fileURLToPath(folder)
  if (!existsSync(join(root, PAGE))) return null
  return globSync('**/*.{html,js,css,svg}', { cwd: root })
    .sort()
    .map((name) => {
      const path = name === PAGE ? '/' : `/${name.replaceAll('\\', '/')}`
      return pageFile(path, name, () => readFileSync(join(root, name)))
    })
}

/** Headers of every page: forbid content from other origins, inline scripts and frames. */
export const SECURITY_HEADERS = {
  'content-security-policy': formatPolicy("'self'"),
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
} as const

/** Returns the policy of a page that may send requests to `connect`, a list of origins. */
export function formatPolicy(connect: string): string {
  return (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
    `connect-src ${connect}; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`
  )
}

/** Serves `files`. `check` can throw to refuse a request. `config` is that of the routes. */
export function servePageFiles(
  app: HttpApp,
  files: readonly PageFile[],
  {
    check = () => {},
    headers = () => ({}),
    config = { scope: 'public' },
  }: {
    readonly check?: (request: FastifyRequest, reply: FastifyReply) => void
    /** Returns further headers, which replace the usual ones. */
    readonly headers?: () => Readonly<Record<string, string>>
    readonly config?: FastifyContextConfig
  } = {},
): void {
  for (const file of files) {
    const caching = file.path.startsWith(HASHED)
      ? 'private, max-age=31536000, immutable'
      : 'private, no-cache'
    app.get(file.path, { schema: { hide: true }, config }, async (request, reply) => {
      check(request, reply)
      const { bytes, gzipped, etag } = file.content()
      reply
        .headers({ ...SECURITY_HEADERS, ...headers() })
        .header('cache-control', caching)
        .header('vary', 'accept-encoding')
      const isGzipped = gzipped !== null && acceptsGzip(request)
      const tag = isGzipped ? toVariantTag(etag, 'gzip') : etag
      reply.header('etag', tag)
      if (request.headers['if-none-match']?.includes(tag)) return reply.code(304).send()
      reply.type(file.type)
      if (!isGzipped) return reply.send(bytes)
      return reply.header('content-encoding', 'gzip').send(gzipped)
    })
  }
}
