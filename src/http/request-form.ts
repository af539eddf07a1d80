import type { IncomingMessage } from 'node:http'
import type { Refusal } from './component.ts'

const HOST_NOT_ONE: Refusal = {
  status: 400,
  code: 'HOST_NOT_ONE',
  message: 'send exactly one Host header',
}
const TARGET_NOT_PATH: Refusal = {
  status: 400,
  code: 'TARGET_NOT_PATH',
  message: 'send the path alone as the target of the request',
}

/**
 * Why the form of a request is not taken on any listener, or null.
 *
 * There must be exactly one `Host` (RFC 9112 section 3.2 asks for this 400; HTTP/1.0 had
 * none), and the target must be
 * a path: one that names a host itself (`GET http://…`, for proxies) would say which host is meant
 * a second time, and two answers to one question are how guards are talked round.
 */
export function requestFormRefusal({
  rawHeaders,
  httpVersion,
  url,
}: IncomingMessage): Refusal | null {
  let hosts = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]
    if (name?.length === 4 && name.toLowerCase() === 'host') hosts += 1
  }
  if (hosts !== 1 && !(hosts === 0 && httpVersion === '1.0')) return HOST_NOT_ONE
  return url?.startsWith('/') === true || url === '*' ? null : TARGET_NOT_PATH
}
