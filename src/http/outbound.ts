import { type LookupOptions, lookup } from 'node:dns'
import { type IncomingMessage, request as plainRequest, type RequestOptions } from 'node:http'
import { request as tlsRequest } from 'node:https'
import { BlockList, isIP, type LookupFunction } from 'node:net'
import type { Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { CodedError } from '../base/coded-error.ts'

/** Why an outbound request got no usable reply. */
export type OutboundErrorCode =
  | 'SCHEME_REFUSED' // not a scheme that the caller allows
  | 'ADDRESS_REFUSED' // the host is, or resolves to, an address that is not allowed
  | 'UNREACHABLE' // no connection, no such name, TLS failure, reset, cut short
  | 'TIMEOUT' // not complete within the time allowed
  | 'REDIRECTED' // the reply points elsewhere; redirects are never followed
  | 'BODY_TOO_LARGE' // more bytes than allowed, before or after decompression
  | 'ENCODING_REFUSED' // a Content-Encoding that was not asked for, or not what it says

/** Thrown by `Outbound`. The message names the host, never the path, query or credentials. */
export class OutboundError extends CodedError<OutboundErrorCode> {
  override readonly name = 'OutboundError'
}

/** Limits of an outbound request. */
export interface OutboundPolicy {
  /** `['https:']`; only tests and peers on a private network add `http:`. */
  readonly schemes: readonly ('https:' | 'http:')[]
  /** Whether private networks and loopback are allowed. */
  readonly allowPrivate: boolean
  /** From the call to the last byte of the body, name resolution included. */
  readonly timeoutMs: number
  /** Maximum length of the body, as sent and decompressed. */
  readonly bodyBytesMax: number
}

/** A complete reply. */
export interface OutboundReply {
  /** HTTP status, 200..299 or 304 or 400..599. */
  readonly status: number
  /** Returns the value of a header, by lower-case name. */
  header(name: string): string | null
  /** The body, decompressed. */
  readonly body: Buffer
}

/**
 * Sends one GET to an address configured by the operator, within the limits of `policy`.
 *
 * The host is checked as written and at every address it resolves to, on the lookup that the connection
 * uses, so that DNS cannot answer twice differently. Redirects are errors. The body is counted while it
 * streams and the connection is destroyed at the limit, so a compressed bomb costs no more memory than
 * the limit. A connection is used once.
 *
 * Errors: OutboundError.
 */
export function outboundGet(
  url: URL,
  headers: Readonly<Record<string, string>>,
  policy: OutboundPolicy,
): Promise<OutboundReply> {
  return exchange(url, { method: 'GET', headers, body: null }, policy)
}

/** Sends one POST of `body`, with the same limits. Errors: OutboundError. */
function outboundPost(
  url: URL,
  headers: Readonly<Record<string, string>>,
  body: Uint8Array,
  policy: OutboundPolicy,
): Promise<OutboundReply> {
  return exchange(url, { method: 'POST', headers, body }, policy)
}

/** Both, as a dependency. */
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

async function exchange(
  url: URL,
  sent: OutboundRequest,
  policy: OutboundPolicy,
): Promise<OutboundReply> {
  refuseByUrl(url, policy)
  const ended = new AbortController()
  const timer = setTimeout(
    () => ended.abort(new OutboundError('TIMEOUT', `no complete reply from ${url.hostname}`)),
    policy.timeoutMs,
  )
  try {
    const response = await send(url, sent, policy, ended.signal)
    return await receive(url, response, policy, ended.signal)
  } catch (error) {
    throw ended.signal.aborted ? ended.signal.reason : asOutboundError(url, error)
  } finally {
    clearTimeout(timer)
    // Closes the connection if the reply was not read to its end.
    ended.abort()
  }
}

function refuseByUrl(url: URL, policy: OutboundPolicy): void {
  if (!policy.schemes.some((scheme) => scheme === url.protocol)) {
    throw new OutboundError('SCHEME_REFUSED', `${url.protocol} is not allowed here`)
  }
  // An IP address is not looked up.
  const literal = url.hostname.replace(/^\[|\]$/g, '')
  if (isIP(literal) !== 0) refuseByAddress(url.hostname, literal, policy)
}

function refuseByAddress(host: string, address: string, policy: OutboundPolicy): void {
  const kind = addressKind(address)
  if (kind === 'public' || (kind === 'private' && policy.allowPrivate)) return
  throw new OutboundError('ADDRESS_REFUSED', `${host} is at ${address}, which is not allowed`)
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
    // `on`, not `once`: a reset after the reply emits again, and must not be uncaught.
    request.on('error', reject)
    request.end(body ?? undefined)
  })
}

/** `dns.lookup`, which rejects a name if one of its addresses is not allowed. */
function checkedLookup(policy: OutboundPolicy): LookupFunction {
  return (hostname, options: LookupOptions, callback) => {
    lookup(hostname, { ...options, all: true }, (error, addresses) => {
      const [first] = addresses ?? []
      if (error !== null || first === undefined) {
        callback(error ?? new Error(`no address for ${hostname}`), '', 0)
        return
      }
      try {
        for (const { address } of addresses) refuseByAddress(hostname, address, policy)
      } catch (refusal) {
        callback(refusal instanceof Error ? refusal : new Error(String(refusal)), '', 0)
        return
      }
      if (options.all === true) callback(null, addresses)
      else callback(null, first.address, first.family)
    })
  }
}

async function receive(
  url: URL,
  response: IncomingMessage,
  policy: OutboundPolicy,
  signal: AbortSignal,
): Promise<OutboundReply> {
  const status = response.statusCode ?? 0
  if (status >= 300 && status < 400 && status !== 304) {
    throw new OutboundError('REDIRECTED', `${url.hostname} answered ${status}, a redirect`)
  }
  const body = await bodyOf(url, response, policy, signal)
  return {
    status,
    header: (name) => {
      const value = response.headers[name]
      return typeof value === 'string' ? value : null
    },
    body,
  }
}

async function bodyOf(
  url: URL,
  response: IncomingMessage,
  policy: OutboundPolicy,
  signal: AbortSignal,
): Promise<Buffer> {
  const encoding = (response.headers['content-encoding'] ?? 'identity').toLowerCase()
  if (encoding === 'identity' || response.statusCode === 304) {
    return collect(url, response, policy.bodyBytesMax)
  }
  if (encoding !== 'gzip' && encoding !== 'x-gzip') {
    throw new OutboundError('ENCODING_REFUSED', `${url.hostname} sent an unknown encoding`)
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
  return collect(url, gunzip, policy.bodyBytesMax)
}

/** Reads `stream` to its end. Leaving the loop early destroys it. */
async function collect(url: URL, stream: Readable, bytesMax: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of stream) {
    const part: Buffer = chunk
    bytes += part.length
    if (bytes > bytesMax) throw tooLarge(url)
    chunks.push(part)
  }
  return Buffer.concat(chunks)
}

function tooLarge(url: URL): OutboundError {
  return new OutboundError('BODY_TOO_LARGE', `the reply of ${url.hostname} is too long`)
}

function asOutboundError(url: URL, error: unknown): OutboundError {
  if (error instanceof OutboundError) return error
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'UNKNOWN'
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
 * `private`: the operator's own networks. `never`: link-local addresses (cloud metadata services), multicast,
 * "this network".
 */
type AddressKind = 'public' | 'private' | 'never'

const NEVER = blockList(
  ...['0.0.0.0/8', '169.254.0.0/16', '192.0.0.0/24', '224.0.0.0/4', '240.0.0.0/4'],
  ...['::/128', 'fe80::/10', 'fec0::/10', 'ff00::/8', '100::/64', 'fd00:ec2::254/128'],
  // Forms that contain an IPv4 address: NAT64, its local form, 6to4, Teredo.
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
 * Classifies the IP literal `address`; other texts are `never`. An IPv4 address mapped into IPv6 counts as the
 * IPv4 address. Source: IANA special-purpose address registries (RFC 6890).
 */
export function addressKind(address: string): AddressKind {
  const version = isIP(address)
  if (version === 0) return 'never'
  const family = version === 4 ? 'ipv4' : 'ipv6'
  if (NEVER.check(address, family)) return 'never'
  return PRIVATE.check(address, family) ? 'private' : 'public'
}
