import type { IncomingMessage } from 'node:http'
import type { Refusal } from './component.ts'

const HOST_NOT_ONE: Refusal = {
  status: 400,
  code: 'HOST_NOT_ONE',
  message: 'send exactly one Host header',
}

/**
 * Why the form of a request is not taken on any listener, or null: there must be exactly one `Host`
 * (RFC 9112 section 3.2 asks for this 400; HTTP/1.0 had none).
 */
export function requestFormRefusal({ rawHeaders, httpVersion }: IncomingMessage): Refusal | null {
  let hosts = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]
    if (name?.length === 4 && name.toLowerCase() === 'host') hosts += 1
  }
  return hosts === 1 || (hosts === 0 && httpVersion === '1.0') ? null : HOST_NOT_ONE
}
