import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createGzip, gzipSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { addressKind, type OutboundPolicy, outboundGet } from './outbound.ts'

let server: Server
let url: URL
let answer: RequestListener

beforeEach(async () => {
  answer = (_request, response) => response.end('hello')
  server = createServer((request, response) => answer(request, response))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  url = new URL(`http://127.0.0.1:${port}/secret?key=hidden`)
})
afterEach(() => {
  server.closeAllConnections()
  server.close()
})

const policy: OutboundPolicy = {
  schemes: ['http:'],
  allowPrivate: true,
  timeoutMs: 2_000,
  bodyBytesMax: 1_048_576,
}

describe('outboundGet', () => {
  it('returns status, headers and the whole body', async () => {
    answer = (request, response) => {
      response.setHeader('etag', '"1"')
      response.end(`${request.headers['user-agent']} ${request.headers['accept-encoding']}`)
    }
    const reply = await outboundGet(url, { 'user-agent': 'daicho/test' }, policy)
    expect(reply.status).toBe(200)
    expect(reply.header('etag')).toBe('"1"')
    expect(reply.header('last-modified')).toBeNull()
    expect(reply.body.toString()).toBe('daicho/test gzip')
  })

  it.each(['gzip', 'x-gzip', 'GZip'])('decompresses %s', async (encoding) => {
    answer = (_request, response) => {
      response.setHeader('content-encoding', encoding)
      response.end(gzipSync('text'))
    }
    expect((await outboundGet(url, {}, policy)).body.toString()).toBe('text')
  })

  it.each([301, 302, 303, 307, 308])(
    'does not follow a redirect with status %i',
    async (status) => {
      answer = (_request, response) => response.writeHead(status, { location: '/other' }).end()
      await expect(outboundGet(url, {}, policy)).rejects.toMatchObject({ code: 'REDIRECTED' })
    },
  )

  it('times out if a server never replies, or sends its reply too slowly', async () => {
    answer = () => {}
    const impatient = { ...policy, timeoutMs: 50 }
    await expect(outboundGet(url, {}, impatient)).rejects.toMatchObject({ code: 'TIMEOUT' })
    answer = (_request, response) => {
      response.write('x')
      const timer = setInterval(() => response.write('x'), 5)
      response.once('close', () => clearInterval(timer))
    }
    await expect(outboundGet(url, {}, impatient)).rejects.toMatchObject({ code: 'TIMEOUT' })
  })

  it.each(['before', 'during'])(
    'ends with the reason of its signal, aborted %s the request',
    async (when) => {
      const stopped = new AbortController()
      const reason = new Error('closing')
      answer = () => stopped.abort(reason)
      if (when === 'before') stopped.abort(reason)
      await expect(outboundGet(url, {}, { ...policy, signal: stopped.signal })).rejects.toBe(reason)
    },
  )

  it('mentions the host in an error, but never the path or the query', async () => {
    answer = (request) => request.socket.destroy()
    const error = await outboundGet(url, {}, policy).catch((reason: unknown) => reason)
    expect(error).toMatchObject({ code: 'UNREACHABLE' })
    expect(String(error)).toContain('127.0.0.1')
    expect(String(error)).not.toMatch(/secret|hidden/)
  })

  it('rejects an incomplete body with UNREACHABLE', async () => {
    answer = (_request, response) => {
      response.writeHead(200, { 'content-length': '100' })
      response.write('half', () => response.destroy())
    }
    await expect(outboundGet(url, {}, policy)).rejects.toMatchObject({ code: 'UNREACHABLE' })
  })

  it('accepts a body of exactly the maximum length and rejects one more byte, compressed or not', async () => {
    const exact = { ...policy, bodyBytesMax: 1_000 }
    answer = (_request, response) => response.end(Buffer.alloc(1_000))
    expect((await outboundGet(url, {}, exact)).body.length).toBe(1_000)
    answer = (_request, response) => response.end(Buffer.alloc(1_001))
    await expect(outboundGet(url, {}, exact)).rejects.toMatchObject({ code: 'BODY_TOO_LARGE' })
    answer = (_request, response) => {
      response.setHeader('content-encoding', 'gzip')
      response.end(gzipSync(Buffer.alloc(1_001)))
    }
    await expect(outboundGet(url, {}, exact)).rejects.toMatchObject({ code: 'BODY_TOO_LARGE' })
  })

  it('uses less than 30 MB of memory for a gzip bomb of 300 MiB', async () => {
    const bomb = await gzipOfZeros(300)
    answer = (_request, response) => {
      response.setHeader('content-encoding', 'gzip')
      response.end(bomb)
    }
    await outboundGet(url, {}, policy).catch(() => {})
    const before = process.memoryUsage.rss()
    await expect(outboundGet(url, {}, policy)).rejects.toMatchObject({ code: 'BODY_TOO_LARGE' })
    expect(process.memoryUsage.rss() - before).toBeLessThan(30_000_000)
  })

  it('rejects encodings other than gzip, and invalid gzip', async () => {
    for (const [encoding, body] of [
      ['br', 'x'],
      ['gzip', 'not gzip'],
    ] as const) {
      answer = (_request, response) => {
        response.setHeader('content-encoding', encoding)
        response.end(body)
      }
      await expect(outboundGet(url, {}, policy)).rejects.toMatchObject({ code: 'ENCODING_REFUSED' })
    }
  })

  it('rejects schemes that are not allowed, and private addresses given as a literal or a name', async () => {
    const open: OutboundPolicy = { ...policy, schemes: ['https:', 'http:'], allowPrivate: false }
    const refused = async (href: string, code: string, chosen = open) =>
      expect(outboundGet(new URL(href), {}, chosen)).rejects.toMatchObject({ code })
    await refused('ftp://127.0.0.1/', 'SCHEME_REFUSED')
    await refused('file:///etc/passwd', 'SCHEME_REFUSED')
    await refused(url.href, 'ADDRESS_REFUSED')
    await refused(`http://localhost:${url.port}/`, 'ADDRESS_REFUSED')
    await refused(`http://[::ffff:127.0.0.1]:${url.port}/`, 'ADDRESS_REFUSED')
    await refused(`http://0x7f.1:${url.port}/`, 'ADDRESS_REFUSED')
    await refused('http://169.254.169.254/', 'ADDRESS_REFUSED', { ...open, allowPrivate: true })
    await refused('https://127.0.0.1/', 'SCHEME_REFUSED', { ...open, schemes: ['http:'] })
  })
})

describe('addressKind', () => {
  it.each([
    ['8.8.8.8', 'public'],
    ['2606:4700::1111', 'public'],
    ['127.0.0.1', 'private'],
    ['10.1.2.3', 'private'],
    ['172.31.255.255', 'private'],
    ['172.32.0.0', 'public'],
    ['100.64.0.1', 'private'],
    ['::1', 'private'],
    ['fd12::1', 'private'],
    ['::ffff:10.0.0.1', 'private'],
    ['::ffff:169.254.169.254', 'never'],
    ['169.254.169.254', 'never'],
    ['0.0.0.0', 'never'],
    ['::', 'never'],
    ['fe80::1', 'never'],
    ['fd00:ec2::254', 'never'],
    ['64:ff9b::a00:1', 'never'],
    ['2002:7f00:1::', 'never'],
    ['224.0.0.1', 'never'],
    ['255.255.255.255', 'never'],
    ['example.com', 'never'],
  ])('classifies %s as %s', (address, kind) => expect(addressKind(address)).toBe(kind))
})

function gzipOfZeros(mebibytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const gzip = createGzip({ level: 9 })
    const chunks: Buffer[] = []
    gzip.on('data', (chunk: Buffer) => chunks.push(chunk))
    gzip.once('error', reject)
    gzip.once('end', () => resolve(Buffer.concat(chunks)))
    const block = Buffer.alloc(1_048_576)
    let left = mebibytes
    const fill = () => {
      while (left > 0) {
        left -= 1
        if (!gzip.write(block)) {
          gzip.once('drain', fill)
          return
        }
      }
      gzip.end()
    }
    fill()
  })
}
