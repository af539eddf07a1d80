// Unusual and malicious parts of requests that no OpenAPI document describes.
import fc from 'fast-check'

/** Targets of request lines, most of them malformed or malicious. */
export const targets = fc.constantFrom(
  ...[
    '/%00',
    '/api/%00/%00',
    '/%2e%2e/%2e%2e/etc/passwd',
    '/..%2f..%2fetc/passwd',
    '/%c0%af',
    '/%ff',
  ],
  ...[
    '/%e0%80%af',
    '/%ed%a0%80',
    '/%f4%90%80%80',
    '/api/a%2fb',
    '/api//a',
    '//',
    '/;/',
    '/api/./a',
    '/%',
  ],
  ...[
    '/api/a?',
    '/?&&&=&',
    '/api/a?limit=1&limit=2',
    '/api/a?limit[]=1',
    '/api/a?limit[a][b][c]=1',
  ],
  ...[
    '/api/a?__proto__[x]=1',
    '/api/a?constructor[prototype][x]=1',
    '/?token=%00',
    '/?%ff=%ff',
    '/?%',
  ],
  ...[
    '/api/a?filter[where][a][lt]=1',
    '/api/a?filter={',
    '/?id=1&id=2',
    '*',
    'http://a/',
    '//a/b',
    '?',
  ],
  ...['/#a', '/\u00e9', '/api/a\\b', '/api/a|b', '/api/__proto__', '/api/constructor/prototype'],
)
/** Targets of up to 36 kB. */
export const longTargets = fc
  .tuple(
    fc.constantFrom('/', '/api/', '/api/a?q=', '/?'),
    fc.constantFrom('a', '%41', 'a=1&', '[a]', '/'),
  )
  .chain(([start, unit]) => fc.nat(9_000).map((times) => start + unit.repeat(times)))
/** Known and unknown methods. */
export const methods = fc.constantFrom(
  ...[
    'GET',
    'HEAD',
    'PUT',
    'POST',
    'PATCH',
    'DELETE',
    'OPTIONS',
    'TRACE',
    'PROPFIND',
    'QUERY',
    'CONNECT',
  ],
)
/** Methods without HEAD: a listener can reject a target before it knows the method, and then always sends a body. */
export const targetMethods = methods.filter((method) => method !== 'HEAD')

/** Header lines, some of them invalid. */
export const headers = fc.constantFrom(
  ...[
    'Host: elsewhere.example',
    'Host:',
    'Host: a, b',
    'Origin: null',
    'Sec-Fetch-Site: cross-site',
  ],
  ...['Content-Encoding: gzip', 'Content-Encoding: identity', 'Expect: 100-continue', 'Expect: x'],
  ...[
    'Upgrade: websocket',
    'Upgrade: h2c',
    'Connection: upgrade',
    'Connection: close',
    'Connection: x',
  ],
  ...[
    'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x',
  ],
  ...['HTTP2-Settings: AAAA', 'Range: bytes=0-0', 'Range: bytes=9-1', 'Range: bytes=0-0,0-1,-1'],
  ...[
    'If-Match: "0.0"',
    'If-Match: *',
    'If-Match: W/"x',
    'If-None-Match: *',
    'If-Match: "9.9", "1.1"',
  ],
  ...[
    'If-Modified-Since: never',
    'Idempotency-Key: a',
    'Idempotency-Key:',
    'Idempotency-Key: a, b',
  ],
  ...[
    'Accept: */*',
    'Accept: x/y;q=9',
    'Accept-Encoding: gzip, br',
    'Last-Event-ID: 1.1',
    'Cookie: a=b',
  ],
  ...[
    'Authorization: Basic',
    'Authorization: Basic ====',
    'Authorization: Bearer x.y.z',
    'Authorization:',
  ],
  ...[
    'x-access-token: x',
    'x-api-key: x',
    'Content-Type: application/json',
    'Content-Type: a/b; c',
  ],
  ...[
    'Content-Type: multipart/form-data',
    'Content-Type: multipart/form-data; boundary=',
    'Date: x',
  ],
  ...[
    'Content-Digest: sha-256=:AAAA:',
    'Repr-Digest: sha-256=::',
    '__proto__: x',
    'constructor: x',
  ],
  ...['X-Forwarded-For: 1.1.1.1', 'X-Http-Method-Override: DELETE', `X-Long: ${'x'.repeat(4_000)}`],
  ...[
    'X-Latin: \u00ff',
    'X-Space : a',
    ': x',
    ' folded',
    'X-Null: a\u0000b',
    'Trailer: a',
    'TE: trailers',
  ],
)
export const lengths = fc.constantFrom(
  ...[
    '0',
    '1',
    '5',
    '-1',
    '+5',
    ' 5',
    '5, 5',
    '5\r\nContent-Length: 6',
    '0x5',
    '1e3',
    '',
    'x',
    '00005',
  ],
  ...['99999999', '9007199254740993', '99999999999999999999', '10485761', '1073741825'],
)
/** Bodies in chunked encoding, most of them malformed. */
export const chunks = fc.constantFrom(
  ...[
    '2\r\n{}\r\n0\r\n\r\n',
    '1\r\n{\r\n1\r\n}\r\n0\r\n\r\n',
    '2;a=b\r\n{}\r\n0\r\n\r\n',
    '02\r\n{}\r\n0\r\n\r\n',
  ],
  ...[
    '2\r\n{}\r\n0\r\nX-Trailer: a\r\n\r\n',
    '2\r\n{}\r\n0\r\nContent-Length: 9\r\n\r\n',
    '0\r\n\r\n',
  ],
  ...[
    '2\n{}\n0\n\n',
    '2\r\n{}0\r\n\r\n',
    '3\r\n{}\r\n0\r\n\r\n',
    'ffffffffffffffff\r\n{}',
    '-1\r\n{}',
    'x\r\n',
  ],
  ...[
    '2 \r\n{}\r\n0\r\n\r\n',
    '0x2\r\n{}\r\n0\r\n\r\n',
    '2\r\n{}\r\n',
    '7fffffff\r\n{}',
    '\r\n',
    '00000000\r\n\r\n',
  ],
  ...[
    `2;${'a'.repeat(20_000)}\r\n{}\r\n0\r\n\r\n`,
    `2\r\n{}\r\n0\r\n${'a: b\r\n'.repeat(5_000)}\r\n`,
  ],
)
export const encodings = fc.constantFrom(
  ...[
    'chunked',
    'Chunked',
    'chunked, chunked',
    'gzip, chunked',
    'chunked, identity',
    'identity',
    'x',
  ],
  ...['chunked\r\nContent-Length: 2', '\tchunked', 'chunked\r\nTransfer-Encoding: chunked'],
)
