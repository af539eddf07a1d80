import { pipeline, Readable, type Transform } from 'node:stream'
import { promisify } from 'node:util'
import { brotliCompress, constants, createBrotliCompress, createGzip, gzip } from 'node:zlib'
import type { FastifyReply, FastifyRequest, onSendHookHandler } from 'fastify'
import type { HttpApp } from './component.ts'
import { type ReplyBudget, ReplyStream } from './reply-budget.ts'

/** Characters or bytes below which compression does not pay. */
const LENGTH_MIN = 1_024
const TYPES = /^(?:application\/(?:[\w.+-]*json|x-ndjson|x-yaml)|text\/(?!event-stream))/
/** Quality and window of brotli (log2 of bytes): as fast as gzip for JSON, and less than a megabyte of memory per reply. */
const BROTLI = {
  params: { [constants.BROTLI_PARAM_QUALITY]: 4, [constants.BROTLI_PARAM_LGWIN]: 18 },
}

type Encoding = 'br' | 'gzip'
const WHOLE = {
  br: (bytes: Uint8Array | string) => promisify(brotliCompress)(bytes, BROTLI),
  gzip: promisify(gzip),
} satisfies Record<Encoding, unknown>
const STREAMS: Record<Encoding, () => Transform> = {
  br: () => createBrotliCompress(BROTLI),
  gzip: () => createGzip(),
}

/** Returns the encoding of `known`, most wanted first, that `Accept-Encoding` prefers, or null. Source: RFC 9110, 12.5.3. */
export function chooseEncoding<Known extends string>(
  header: unknown,
  known: readonly Known[],
): Known | null {
  const weights = new Map<string, number>()
  for (const element of String(header ?? '').split(',')) {
    const [, name = '', weight = '1'] =
      /^\s*([\w*-]+)\s*(?:;\s*q\s*=\s*([\d.]+)\s*)?$/i.exec(element) ?? []
    weights.set(name.toLowerCase(), Number(weight))
  }
  const weigh = (name: string) => weights.get(name) ?? weights.get('*') ?? 0
  const [best = null] = known.toSorted((one, other) => weigh(other) - weigh(one))
  return best !== null && weigh(best) > 0 ? best : null
}

/** Returns whether the client accepts a reply in gzip. */
export function acceptsGzip({ headers }: Pick<FastifyRequest, 'headers'>): boolean {
  return chooseEncoding(headers['accept-encoding'], ['gzip']) !== null
}

/** Removes from an entity tag that a client sends what `toVariantTag` has added. */
export function toPlainTag(tag: string): string {
  return tag.replace(/-(?:br|gzip)$/, '')
}

/** Returns the entity tag of an encoded reply: equal tags must mean equal bytes (RFC 9110, 8.8.3.3). */
export function toVariantTag(tag: string, encoding: Encoding): string {
  return tag.replace(/"$/, `-${encoding}"`)
}

/**
 * Compresses the texts and JSON that GET returns from LENGTH_MIN on, whole or as a stream, if the client accepts it. zlib
 * works outside the event loop; the number of streams is bounded by the reply budget, and further replies are sent as
 * they are.
 *
 * The length of a compressed reply reveals how often a secret in it repeats a text that an attacker has chosen (BREACH).
 * So replies with `no-store`, which all replies with a token or a password have, are never compressed. And no page of
 * another site can make a browser send a request to the API, because its access needs a token in a header, and because
 * the guards refuse such requests.
 */
export function compressReplies(app: HttpApp): void {
  const compress: onSendHookHandler = (request, reply, payload, done) => {
    if (reply.statusCode === 304) keepVariantTag(request, reply)
    if (!isCompressible(reply, payload)) return done(null, payload)
    addVary(reply)
    const encoding = chooseEncoding(request.headers['accept-encoding'], ['br', 'gzip'] as const)
    if (encoding === null) return done(null, payload)
    const sent = request.method === 'HEAD' ? withoutBody(payload) : payload
    encode(app.replyBudget, reply, sent, encoding).then(
      (encoded) => done(null, encoded),
      (error: Error) => done(error),
    )
  }
  // Only for reads, because the replies to changes are short, and a hook costs a few percent of a change.
  app.addHook('onRoute', (route) => {
    const isRead = [route.method].flat().some((method) => method === 'GET' || method === 'HEAD')
    // First, because the hook of HEAD removes the payload.
    if (isRead) route.onSend = [compress, ...[route.onSend ?? []].flat()]
  })
}

function isCompressible(reply: FastifyReply, payload: unknown): boolean {
  const isStream = payload instanceof Readable
  const isLong =
    (typeof payload === 'string' || payload instanceof Uint8Array) && payload.length >= LENGTH_MIN
  if (reply.statusCode !== 200 || !(isStream || isLong)) return false
  return (
    TYPES.test(String(reply.getHeader('content-type'))) &&
    reply.getHeader('content-encoding') === undefined &&
    reply.getHeader('accept-ranges') === undefined &&
    !String(reply.getHeader('cache-control')).includes('no-store')
  )
}

function addVary(reply: FastifyReply): void {
  const own = reply.getHeader('vary')
  if (own === undefined) reply.header('vary', 'accept-encoding')
  else if (!/accept-encoding/i.test(`${own}`)) reply.header('vary', `${own}, accept-encoding`)
}

/** The reply to HEAD has the headers of the reply to GET, as far as they are known without its content. */
function withoutBody(payload: unknown): unknown {
  return payload instanceof Readable ? payload : null
}

async function encode(
  budget: ReplyBudget,
  reply: FastifyReply,
  payload: unknown,
  encoding: Encoding,
): Promise<unknown> {
  if (payload === null) {
    setEncoded(reply, encoding)
    return Readable.from([])
  }
  if (typeof payload === 'string' || payload instanceof Uint8Array) {
    const bytes = await WHOLE[encoding](payload)
    setEncoded(reply, encoding)
    reply.header('content-length', bytes.length)
    return bytes
  }
  if (!(payload instanceof ReplyStream) || !(await payload.exceeds(LENGTH_MIN))) return payload
  if (!budget.startCompression(reply.raw)) return payload
  setEncoded(reply, encoding)
  // The source reports its own errors; an error of either side ends both.
  return pipeline(payload, STREAMS[encoding](), () => {})
}

function setEncoded(reply: FastifyReply, encoding: Encoding): void {
  reply.removeHeader('content-length')
  reply.header('content-encoding', encoding)
  const { method } = reply.request
  const tag = reply.getHeader('etag')
  // The tag in the reply to a change is that of the item, not of the reply.
  if (typeof tag === 'string' && (method === 'GET' || method === 'HEAD')) {
    reply.header('etag', toVariantTag(tag, encoding))
  }
}

/** Lets 304 have the entity tag of the reply that the client has. */
function keepVariantTag({ headers }: FastifyRequest, reply: FastifyReply): void {
  const tag = reply.getHeader('etag')
  if (typeof tag !== 'string') return
  const known = headers['if-none-match'] ?? ''
  const variants = (['br', 'gzip'] as const).map((encoding) => toVariantTag(tag, encoding))
  const found = known.includes(tag) ? undefined : variants.find((one) => known.includes(one))
  if (found !== undefined) reply.header('etag', found)
}
