import { once } from 'node:events'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import fc from 'fast-check'
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Listener } from '../../src/http/index.ts'
import { roundsOf } from '../support/rounds.ts'
import { children, childrenCount } from './children.ts'
import { readWithSheetJs } from './readers.ts'
import { formOf, postImage, startConverter, TEST_LIMITS } from './service.ts'

const SIZE = { width: 300, height: 300, channels: 3 } as const

let converter: Listener
let image: Buffer
beforeAll(async () => {
  converter = await startConverter()
  const noise = { type: 'gaussian', mean: 128, sigma: 60 } as const
  const create = { ...SIZE, background: 'white', noise } as const
  image = await sharp({ create }).png().toBuffer()
})
afterAll(() => converter.close())

/** Sends `head` and `body` unchanged, and resolves to the received text when the connection ends. */
function raw(head: string, body: Uint8Array = new Uint8Array(0)): Promise<string> {
  const { hostname, port } = new URL(converter.url)
  return new Promise((resolve) => {
    const pieces: Buffer[] = []
    const socket = connect(Number(port), hostname)
    socket.on('data', (bytes) => pieces.push(bytes)).on('error', () => {})
    socket.on('close', () => resolve(Buffer.concat(pieces).toString('latin1')))
    socket.write(head.replaceAll('\n', '\r\n'))
    socket.write(body)
  })
}

describe('the preview', () => {
  it('the preview is a PNG with exactly the colours of the workbook', async () => {
    const fields = { width: 40, colors: 16 }
    const reply = await fetch(`${converter.url}/preview`, {
      method: 'POST',
      body: formOf(image, 'a.png', fields),
    })
    expect(reply.headers.get('content-type')).toBe('image/png')
    expect(reply.headers.get('x-daicho-grid')).toBe('40x40')
    expect(reply.headers.get('x-daicho-colors')).toMatch(/^16 of \d+$/)
    const picture = sharp(await reply.arrayBuffer()).raw()
    const { data, info } = await picture.toBuffer({ resolveWithObject: true })
    expect(info).toMatchObject({ width: 40, height: 40, channels: 3 })
    const book = await postImage(converter.url, image, 'a.png', fields)
    const { fills } = readWithSheetJs(new Uint8Array(await book.arrayBuffer()))
    const pixels = fills.map((_, at) => data.toString('hex', at * 3, at * 3 + 3).toUpperCase())
    expect(pixels).toEqual(fills)
  })
})

describe('the colours header', () => {
  it('contains the number of colours of the workbook and the number of colours of the resized image', async () => {
    for (const [colors, expected] of [
      [undefined, /^(\d+) of \1$/],
      [7, /^7 of \d+$/],
    ] as const) {
      const fields = colors === undefined ? {} : { colors }
      const reply = await postImage(converter.url, image, 'a.png', fields)
      expect(reply.headers.get('x-daicho-colors')).toMatch(expected)
      await reply.arrayBuffer()
    }
  })
})

describe('concurrent requests', () => {
  it('concurrent requests get 503 with Retry-After if all workers are busy and the queue is full', async () => {
    const small = await startConverter({
      workerLimits: { ...TEST_LIMITS, workers: 1, queueMax: 0 },
    })
    try {
      const large = { width: 1_200, height: 1_200 }
      const first = await postImage(small.url, image, 'a.png', large)
      expect(first.status).toBe(200)
      const second = await postImage(small.url, image, 'a.png')
      expect(second.status).toBe(503)
      expect(second.headers.get('retry-after')).toBe('5')
      expect(await second.json()).toMatchObject({ status: false, code: 'BUSY' })
      await first.body?.cancel()
    } finally {
      await small.close()
    }
  })

  it('concurrent requests are limited to 16 forms of the maximum size, counted before their bodies are read; the next upload gets 503, but small uploads are converted', async () => {
    const converter = await startConverter()
    const { hostname, port } = new URL(converter.url)
    const head = [
      'POST /image HTTP/1.1',
      'Host: x',
      'Content-Type: multipart/form-data; boundary=b',
      `Content-Length: ${10 * 1024 * 1024 + 64 * 1024}`,
      'Expect: 100-continue',
    ]
    const sockets = Array.from({ length: 16 }, () => connect(Number(port), hostname))
    try {
      await Promise.all(
        sockets.map(async (socket) => {
          socket.write(`${head.join('\r\n')}\r\n\r\n`)
          // The server replies with 100 after it has received the headers, and then waits for the form.
          expect(String((await once(socket, 'data'))[0])).toMatch(/^HTTP\/1\.1 100 /)
        }),
      )
      const refused = await postImage(converter.url, image, 'a.png')
      expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '5'])
      expect(await refused.json()).toMatchObject({ status: false, code: 'BODIES_BUSY' })
      const small = await sharp(image).resize(20).png().toBuffer()
      expect((await postImage(converter.url, small, 'a.png', { width: 1 })).status).toBe(200)
      await Promise.all(
        sockets.map((socket) => {
          socket.destroy()
          return once(socket, 'close')
        }),
      )
      await expect
        .poll(async () => (await postImage(converter.url, image, 'a.png', { width: 1 })).status)
        .toBe(200)
    } finally {
      for (const socket of sockets) socket.destroy()
      await converter.close()
    }
  })

  it('concurrent requests of one client that send nothing give way to an upload from another address', async () => {
    const converter = await startConverter()
    const { port } = new URL(converter.url)
    const head = (bytes: number) =>
      `POST /image HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: ${bytes}\r\n`
    const open = (localAddress: string) =>
      connect({ port: Number(port), host: '127.0.0.1', localAddress })
    const idle = Array.from({ length: 16 }, () => open('127.0.0.2'))
    try {
      for (const socket of idle) {
        socket.write(`${head(10 * 1024 * 1024 + 64 * 1024)}Expect: 100-continue\r\n\r\n`)
        await once(socket, 'data')
      }
      const ended = once(idle[0] ?? open('127.0.0.2'), 'data')
      const name = 'Content-Disposition: form-data; name="file"; filename="a.png"'
      const form = Buffer.concat([
        Buffer.from(`--b\r\n${name}\r\n\r\n`),
        image,
        Buffer.from('\r\n--b--\r\n'),
      ])
      const other = open('127.0.0.3')
      other.write(`${head(form.length)}\r\n`)
      other.write(form)
      expect(await text(other)).toMatch(/^HTTP\/1\.1 200 OK\r\n/)
      expect(String(await ended)).toMatch(/^HTTP\/1\.1 408 [\s\S]*"code":"REQUEST_TIMEOUT"/)
    } finally {
      for (const socket of idle) socket.destroy()
      await converter.close()
    }
  })

  const name = childrenCount
    ? 'are stopped when their clients disconnect during workbooks of ten million cells'
    : 'SKIPPED: child processes can be listed on Linux only'
  it.skipIf(!childrenCount)(name, async () => {
    const busy = await startConverter()
    try {
      const before = children()
      const fields = { width: 3_651, height: 2_738 }
      const flat = await sharp({ create: { ...SIZE, background: 'red' } })
        .png()
        .toBuffer()
      await Promise.all(
        Array.from({ length: 4 }, async () => {
          const reply = await postImage(busy.url, flat, 'a.png', fields)
          const reader = reply.body?.getReader()
          for (let bytes = 0; bytes < 300_000; ) {
            const piece = await reader?.read()
            bytes += piece?.value?.byteLength ?? 300_000
          }
          await reader?.cancel()
        }),
      )
      // The next conversions start only after the workers of the disconnected clients have exited.
      const next = await Promise.all([1, 2].map(() => postImage(busy.url, image, 'a.png')))
      for (const reply of next) expect((await reply.arrayBuffer()).byteLength).toBeGreaterThan(0)
      expect(children() - before).toBeLessThanOrEqual(2)
    } finally {
      await busy.close()
    }
  })
})

it('writes no log line if a client disconnects while its request is queued', async () => {
  const lines: string[] = []
  const limits = { ...TEST_LIMITS, workers: 1, queueMax: 1 }
  const busy = await startConverter({ workerLimits: limits }, (line) => lines.push(line))
  try {
    // The client does not read the workbook, so the worker stays busy.
    const first = await postImage(busy.url, image, 'a.png', { width: 1_200, height: 1_200 })
    const leaving = new AbortController()
    const post = () =>
      fetch(`${busy.url}/image`, {
        ...{ method: 'POST', body: formOf(image, 'a.png'), signal: leaving.signal },
      })
    // The queue has one slot, so if one request is rejected, the other request is queued.
    const two = [post(), post()]
    const rejected = await Promise.race(two)
    expect([rejected.status, await rejected.json()]).toEqual([
      503,
      expect.objectContaining({ code: 'BUSY' }),
    ])
    leaving.abort()
    const ends = (await Promise.allSettled(two)).map(({ status }) => status)
    expect(ends.toSorted()).toEqual(['fulfilled', 'rejected'])
    await first.body?.cancel()
    expect((await postImage(busy.url, image, 'a.png')).status).toBe(200)
  } finally {
    await busy.close()
  }
  expect(lines).toEqual([])
})

describe('invalid requests', () => {
  it('invalid requests get a status below 500 and a JSON body with an error code', async () => {
    const type = fc.constantFrom(
      'multipart/form-data; boundary=b',
      'multipart/form-data',
      'multipart/form-data; boundary=',
      'application/json',
      'text/plain',
      'image/png',
      '',
    )
    const text = fc.oneof(
      fc.string(),
      fc.constant('--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\nBM'),
      fc.constant('--b--'),
      fc.constant('--b\r\n\r\n--b--'),
    )
    await fc.assert(
      fc.asyncProperty(type, fc.array(text), async (contentType, texts) => {
        const reply = await fetch(`${converter.url}/image`, {
          method: 'POST',
          body: Buffer.from(texts.join('\r\n')),
          headers: contentType === '' ? {} : { 'content-type': contentType },
        })
        const body: unknown = await reply.json()
        expect(reply.status, JSON.stringify(body)).toBeLessThan(500)
        expect(body).toMatchObject({ status: false, code: expect.any(String) })
      }),
      { numRuns: roundsOf(60) },
    )
  })

  it('with modified image bytes are converted, or rejected with 413, 415 or 422', async () => {
    const kinds = await Promise.all([
      sharp(image).resize(20).png().toBuffer(),
      sharp(image).resize(20).jpeg().toBuffer(),
      sharp(image).resize(20).gif().toBuffer(),
      sharp(image).resize(20).webp().toBuffer(),
      sharp(image).resize(20).tiff().toBuffer(),
    ])
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...kinds),
        fc.nat(),
        fc.nat(255),
        async (whole, at, value) => {
          const bytes = Uint8Array.from(whole)
          bytes[at % bytes.length] = value
          const reply = await postImage(converter.url, bytes, 'a.png', { width: 4 })
          expect([200, 413, 415, 422]).toContain(reply.status)
          await reply.arrayBuffer()
        },
      ),
      { numRuns: roundsOf(60) },
    )
  })

  it('with a Content-Length above the limit are rejected before they are read', async () => {
    const reply = await raw(
      'POST /image HTTP/1.1\nHost: x\nContent-Type: multipart/form-data; boundary=b\n' +
        'Content-Length: 99999999\n\n',
    )
    expect(reply).toMatch(/^HTTP\/1\.1 413 /)
    expect(reply).toContain('"BODY_TOO_LARGE"')
  })

  it('with a Content-Encoding are rejected', async () => {
    const reply = await fetch(`${converter.url}/image`, {
      method: 'POST',
      body: formOf(image, 'a.png'),
      headers: { 'content-encoding': 'gzip' },
    })
    expect(reply.status).toBe(415)
    expect(await reply.json()).toMatchObject({ code: 'CONTENT_ENCODING_UNKNOWN' })
  })
})

describe('the page', () => {
  it('the page refers only to files of its own listener, and contains no inline code', async () => {
    const reply = await fetch(`${converter.url}/page`)
    expect(reply.headers.get('content-security-policy')).toContain("script-src 'self'")
    const html = await reply.text()
    expect(html).toContain('placeholder="100"')
    const names = [...html.matchAll(/(?:src|href)="([^"#]+)"/g)].map(([, name = '']) => name)
    expect(names).toContain('/page/page.js')
    for (const name of names) {
      expect(name).toMatch(/^\//)
      expect((await fetch(converter.url + name)).status, name).toBe(200)
    }
    expect(html).not.toMatch(/<script>|<style|\son\w+=|style="/)
    const script = await (await fetch(`${converter.url}/page/page.js`)).text()
    expect(script).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(/)
  })
})
