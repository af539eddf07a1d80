import { type LookupOptions, lookup } from 'node:dns'
import type { IncomingMessage, RequestOptions } from 'node:http'
import { request as tlsRequest } from 'node:https'
import { BlockList, isIP, type LookupFunction } from 'node:net'
import type { Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { CodedError } from '../base/coded-error.ts'
import { errorCode } from '../base/errors.ts'
import { request as plainRequest } from './node-http.ts'

/** Reasons why an outbound request fails. */
export type OutboundErrorCode =
  | 'SCHEME_REFUSED' // the policy does not allow this scheme
  | 'ADDRESS_REFUSED' // the host is, or resolves to, an address that the policy does not allow
  | 'UNREACHABLE' // no connection, unknown name, TLS failure, reset, or incomplete reply
  | 'TIMEOUT' // the reply was not complete in time
  | 'REDIRECTED' // the reply is a redirect; redirects are never followed
  | 'BODY_TOO_LARGE' // the body is longer than allowed, before or after decompression
  | 'ENCODING_REFUSED' // the Content-Encoding is not gzip, or the body is not valid gzip

/** A failed outbound request. The message contains the host, never the path, query or credentials. */
export class OutboundError extends CodedError<OutboundErrorCode> {
  override readonly name = 'OutboundError'
}

/** Limits of an outbound request. */
export interface OutboundPolicy {
  /** Usually `['https:']`; only tests and peers on a private network also allow `http:`. */
  readonly schemes: readonly ('https:' | 'http:')[]
  /** Whether private networks and loopback are allowed. */
  readonly allowPrivate: boolean
  /** Whether only private networks and loopback are allowed. */
  readonly privateOnly?: boolean
  /** Setting that allows private addresses, for the error message. */
  readonly privateSetting?: string
  /** Maximum milliseconds from the call to the last byte of the body, including name resolution. */
  readonly timeoutMs: number
  /** Maximum length of the body, both compressed and decompressed. */
  readonly bodyBytesMax: number
  /** Aborts the request; its reason, an Error, is thrown. */
  readonly signal?: AbortSignal | undefined
  /** Called with the bytes of each part of the body, decompressed. */
  readonly onBytes?: ((bytes: number) => void) | undefined
}

export interface OutboundReply {
  /** HTTP status, 200..299 or 304 or 400..599. */
  readonly status: number
  /** Returns the value of a header, by lower-case name. */
  header(name: string): string | null
  /** The body, decompressed. */
  readonly body: Buffer
}

/**
 * Sends one GET to a URL configured by the operator, within the limits of `policy`.
 *
 * Checks the host and every address to which it resolves. The connection uses the result of the checked lookup, so DNS
 * cannot return another address in between. Redirects are errors. Bytes are counted as they arrive, and the connection
 * is closed at the limit, so a decompression bomb cannot use more memory. Connections are not reused.
 *
 * Errors: OutboundError.
 */
export function outboundGet(
  url: URL,
  headers: Readonly<Record<string, string>>,
  policy: OutboundPolicy,
): Promise<OutboundReply> {
  return sendRequest(url, { method: 'GET', headers, body: null }, policy)
}

/** Sends one POST of `body`, with the same limits. Errors: OutboundError. */
function outboundPost(
  url: URL,
  headers: Readonly<Record<string, string>>,
  body: Uint8Array,
  policy: OutboundPolicy,
): Promise<OutboundReply> {
  return sendRequest(url, { method: 'POST', headers, body }, policy)
}

/** Sends outbound requests. An interface, so that tests can replace the network. */
export interface Outbound {
  readonly get: typeof outboundGet
  readonly post: typeof outboundPost
}

export const systemOutbound: Outbound = { get: outboundGet, post: outboundPost }

interface OutboundRequest {
  readonly method: 'GET' | 'POST'
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array | null
}

async function sendRequest(
  url: URL,
  sent: OutboundRequest,
  policy: OutboundPolicy,
): Promise<OutboundReply> {
  requireAllowedUrl(url, policy)
  const ended = new AbortController()
  const timer = setTimeout(
    () =>
      ended.abort(
        new OutboundError(
          'TIMEOUT',
          `no complete reply from ${url.hostname} within ${policy.timeoutMs} ms`,
        ),
      ),
    policy.timeoutMs,
  )
  const onAbort = () => ended.abort(policy.signal?.reason)
  policy.signal?.addEventListener('abort', onAbort)
  try {
    if (policy.signal?.aborted === true) onAbort()
    ended.signal.throwIfAborted()
    const response = await send(url, sent, policy, ended.signal)
    return await receiveReply(url, response, policy, ended.signal)
  } catch (error) {
    throw ended.signal.aborted ? ended.signal.reason : toOutboundError(url, error)
  } finally {
    clearTimeout(timer)
    policy.signal?.removeEventListener('abort', onAbort)
    // Closes the connection if the reply was not read to its end.
    ended.abort()
  }
}

function requireAllowedUrl(url: URL, policy: OutboundPolicy): void {
  if (!policy.schemes.some((scheme) => scheme === url.protocol)) {
    throw new OutboundError('SCHEME_REFUSED', `the scheme ${url.protocol} is not allowed`)
  }
  // An IP literal is not resolved, so `checkedLookup` would not check it.
  const literal = url.hostname.replace(/^\[|\]$/g, '')
  if (isIP(literal) !== 0) requireAllowedAddress(url.hostname, literal, policy)
}

function requireAllowedAddress(host: string, address: string, policy: OutboundPolicy): void {
  const kind = addressKind(address)
  if (kind === 'public' ? policy.privateOnly !== true : kind === 'private' && policy.allowPrivate)
    return
  const { privateSetting } = policy
  const message =
    kind === 'private' && privateSetting !== undefined
      ? `${host} has the private address ${address}; set ${privateSetting}=1 to allow it`
      : `${host} has the address ${address}, to which requests are not allowed`
  throw new OutboundError('ADDRESS_REFUSED', message)
}

function send(
  url: URL,
  { method, headers, body }: OutboundRequest,
  policy: OutboundPolicy,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const options: RequestOptions = {
    method,
    headers: {
      ...(body === null ? {} : { 'content-length': `${body.length}` }),
      ...headers,
      'accept-encoding': 'gzip',
      connection: 'close',
    },
    agent: false,
    signal,
    lookup: checkedLookup(policy),
    maxHeaderSize: 16_384,
  }
  return new Promise((resolve, reject) => {
    const request =
      url.protocol === 'https:' ? tlsRequest(url, options) : plainRequest(url, options)
    request.once('response', resolve)
    // Uses `on` instead of `once`, because a reset after the reply emits another error, which must have a listener.
    request.on('error', reject)
    request.end(body ?? undefined)
  })
}

/** Returns a variant of `dns.lookup` that fails if `policy` forbids one of the addresses. */
function checkedLookup(policy: OutboundPolicy): LookupFunction {
  return (hostname, options: LookupOptions, callback) => {
    lookup(hostname, { ...options, all: true }, (error, addresses) => {
      const [first] = addresses ?? []
      if (error !== null || first === undefined) {
        callback(error ?? new Error(`no address for ${hostname}`), '', 0)
        return
      }
      try {
        for (const { address } of addresses) requireAllowedAddress(hostname, address, policy)
      } catch (refusal) {
        callback(refusal instanceof Error ? refusal : new Error(String(refusal)), '', 0)
        return
      }
      if (options.all === true) callback(null, addresses)
      else callback(null, first.address, first.family)
    })
  }
}

async function receiveReply(
  url: URL,
  response: IncomingMessage,
  policy: OutboundPolicy,
  signal: AbortSignal,
): Promise<OutboundReply> {
  const status = response.statusCode ?? 0
  if (status >= 300 && status < 400 && status !== 304) {
    throw new OutboundError(
      'REDIRECTED',
      `${url.hostname} replied with a redirect, status ${status}`,
    )
  }
  const body = await readReplyBody(url, response, policy, signal)
  return {
    status,
    header: (name) => {
      const value = response.headers[name]
      return typeof value === 'string' ? value : null
    },
    body,
  }
}

async function readReplyBody(
  url: URL,
  response: IncomingMessage,
  policy: OutboundPolicy,
  signal: AbortSignal,
): Promise<Buffer> {
  const encoding = (response.headers['content-encoding'] ?? 'identity').toLowerCase()
  if (encoding === 'identity' || response.statusCode === 304) {
    return collect(url, response, policy)
  }
  if (encoding !== 'gzip' && encoding !== 'x-gzip') {
    throw new OutboundError(
      'ENCODING_REFUSED',
      `${url.hostname} sent an unsupported Content-Encoding`,
    )
  }
  const gunzip = createGunzip()
  let sent = 0
  response.on('data', (chunk: Buffer) => {
    sent += chunk.length
    if (sent > policy.bodyBytesMax) gunzip.destroy(tooLarge(url))
  })
  response.on('error', (error) => gunzip.destroy(error))
  signal.addEventListener('abort', () => gunzip.destroy(), { once: true })
  response.pipe(gunzip)
  return collect(url, gunzip, policy)
}

/** Reads `stream` to its end. An error in the loop destroys the stream. */
async function collect(
  url: URL,
  stream: Readable,
  { bodyBytesMax, onBytes }: OutboundPolicy,
): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of stream) {
    const part: Buffer = chunk
    bytes += part.length
    if (bytes > bodyBytesMax) throw tooLarge(url)
    onBytes?.(part.length)
    chunks.push(part)
  }
  return Buffer.concat(chunks)
}

function tooLarge(url: URL): OutboundError {
  return new OutboundError('BODY_TOO_LARGE', `the reply of ${url.hostname} is too long`)
}

function toOutboundError(url: URL, error: unknown): OutboundError {
  if (error instanceof OutboundError) return error
  const code = errorCode(error) || 'UNKNOWN'
  if (code.startsWith('Z_')) {
    return new OutboundError('ENCODING_REFUSED', `${url.hostname} sent broken gzip (${code})`, {
      cause: error,
    })
  }
  return new OutboundError('UNREACHABLE', `${url.hostname} cannot be reached (${code})`, {
    cause: error,
  })
}

/**
 * `private`: addresses of the operator's own networks. `never`: addresses that are never allowed, e.g. link-local
 * addresses (cloud metadata services), multicast, and "this network" (0.0.0.0/8).
 */
type AddressKind = 'public' | 'private' | 'never'

const NEVER = blockList(
  ...['0.0.0.0/8', '169.254.0.0/16', '192.0.0.0/24', '224.0.0.0/4', '240.0.0.0/4'],
  ...['::/128', 'fe80::/10', 'fec0::/10', 'ff00::/8', '100::/64', 'fd00:ec2::254/128'],
  // IPv6 addresses that contain an IPv4 address: NAT64, local-use NAT64, 6to4, Teredo.
  ...['64:ff9b::/96', '64:ff9b:1::/48', '2002::/16', '2001::/32'],
)
const PRIVATE = blockList(
  ...['10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16'],
  ...['198.18.0.0/15', '::1/128', 'fc00::/7'],
)

function blockList(...subnets: string[]): BlockList {
  const list = new BlockList()
  for (const subnet of subnets) {
    const [net = '', bits] = subnet.split('/')
    list.addSubnet(net, Number(bits), isIP(net) === 4 ? 'ipv4' : 'ipv6')
  }
  return list
}

/**
 * Classifies an IP literal; other strings are `never`. An IPv4-mapped IPv6 address is classified as its IPv4
 * address. Source: IANA special-purpose address registries (RFC 6890).
 */
export function addressKind(address: string): AddressKind {
  const version = isIP(address)
  if (version === 0) return 'never'
  const family = version === 4 ? 'ipv4' : 'ipv6'
  if (NEVER.check(address, family)) return 'never'
  return PRIVATE.check(address, family) ? 'private' : 'public'
}
