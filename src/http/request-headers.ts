import type { IncomingMessage } from 'node:http'
import type { Refusal } from './component.ts'
import { createRefusal } from './refusal.ts'

/** The headers that are checked before routing. Repeated values are joined by `, `. */
export interface RequestHeaders {
  readonly hosts: number
  readonly host: string | undefined
  /** `Sec-Fetch-Site`. */
  readonly site: string | undefined
  readonly origin: string | undefined
  readonly encoding: string | undefined
  readonly length: string | undefined
  readonly transfer: string | undefined
  readonly upgrade: string | undefined
  readonly type: string | undefined
}

const HOST_NOT_ONE = createRefusal('HOST_NOT_ONE')
const ENCODED = createRefusal('CONTENT_ENCODING_UNKNOWN')

/**
 * Reads the headers in one pass over `rawHeaders`. The first access to `headers` would make Node build an object
 * of all headers, which costs more than reading an item from the store.
 */
export function readRequestHeaders({ rawHeaders }: IncomingMessage): RequestHeaders {
  let hosts = 0
  let host: string | undefined
  let site: string | undefined
  let origin: string | undefined
  let encoding: string | undefined
  let length: string | undefined
  let transfer: string | undefined
  let upgrade: string | undefined
  let type: string | undefined
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? ''
    const value = rawHeaders[at + 1] ?? ''
    // Compares the length first, because few headers have the length of a wanted name.
    if (name.length === 4 && name.toLowerCase() === 'host') {
      hosts += 1
      host = joinValues(host, value)
    } else if (name.length === 6 && name.toLowerCase() === 'origin')
      origin = joinValues(origin, value)
    else if (name.length === 7 && name.toLowerCase() === 'upgrade') upgrade = value
    else if (name.length === 12 && name.toLowerCase() === 'content-type') type = value
    else if (name.length === 14) {
      const lower = name.toLowerCase()
      if (lower === 'content-length') length = value
      else if (lower === 'sec-fetch-site') site = joinValues(site, value)
    } else if (name.length === 16 && name.toLowerCase() === 'content-encoding') {
      encoding = joinValues(encoding, value)
    } else if (name.length === 17 && name.toLowerCase() === 'transfer-encoding') {
      transfer = joinValues(transfer, value)
    }
  }
  return { hosts, host, site, origin, encoding, length, transfer, upgrade, type }
}

function joinValues(before: string | undefined, value: string): string {
  return before === undefined ? value : `${before}, ${value}`
}

/** Returns a refusal unless there is exactly one `Host`, or none in HTTP/1.0. Source: RFC 9112 section 3.2. */
export function hostsRefusal({ hosts }: RequestHeaders, httpVersion: string): Refusal | null {
  return hosts === 1 || (hosts === 0 && httpVersion === '1.0') ? null : HOST_NOT_ONE
}

/** Returns a refusal for an encoded body, because its decoded length is unknown. Node decodes no coding but `chunked`. */
export function encodingRefusal({ encoding, transfer }: RequestHeaders): Refusal | null {
  const isPlain = encoding === undefined || encoding.toLowerCase() === 'identity'
  return isPlain && (transfer === undefined || transfer.toLowerCase() === 'chunked')
    ? null
    : ENCODED
}

/** Media types whose bodies are read as text. */
const TEXT_TYPE = /^application\/(?:json|[\w.-]+\+json|x-www-form-urlencoded)\s*;/i
const CHARSET = /;\s*charset\s*=\s*"?([^\s;"]*)/i

/** Returns a refusal for a text in another charset than UTF-8, because it would be read as other characters. */
export function charsetRefusal({ type }: RequestHeaders): Refusal | null {
  if (type === undefined || !TEXT_TYPE.test(type)) return null
  const [, charset = 'utf-8'] = CHARSET.exec(type) ?? []
  if (/^(?:utf-?8|us-ascii)$/i.test(charset)) return null
  const message = `the charset ${charset.slice(0, 40)} is not supported: send the body as UTF-8`
  return createRefusal('CONTENT_TYPE_UNKNOWN', message)
}
