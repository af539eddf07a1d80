import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { fetchFromNode } from './node-client.ts'

async function serve(answer: RequestListener): Promise<string> {
  const server = createServer(answer)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

it('returns the complete reply, even if its status is an error', async () => {
  const url = await serve((_request, response) => void response.writeHead(418).end('ü\u0000'))
  expect(await fetchFromNode(url)).toEqual({ status: 418, bytes: Buffer.from('ü\u0000') })
})

it('aborts an endless reply at the size limit', async () => {
  let sent = 0
  const url = await serve((_request, response) => {
    const more = () => {
      for (let room = true; room && !response.destroyed; sent += 65_536) {
        room = response.write(Buffer.alloc(65_536))
      }
    }
    response.on('drain', more)
    more()
  })
  await expect(fetchFromNode(url, {}, { bytesMax: 1_000_000 })).rejects.toThrow(
    'the reply is too long',
  )
  expect(sent).toBeGreaterThan(1_000_000)
})

it('aborts requests to silent and slow nodes after the timeout', async () => {
  const silent = await serve(() => {})
  const slow = await serve((_request, response) => {
    const drip = setInterval(() => response.write('x'), 10)
    response.on('close', () => clearInterval(drip))
  })
  for (const url of [silent, slow]) {
    await expect(fetchFromNode(url, {}, { timeoutMs: 300 })).rejects.toThrow(/timeout/)
  }
})

it('does not follow redirects, and reports the reason of a failure', async () => {
  let requests = 0
  const other = await serve((_request, response) => {
    requests += 1
    response.end()
  })
  const url = await serve((_request, response) => {
    response.writeHead(307, { location: other }).end()
  })
  await expect(fetchFromNode(url, { headers: { 'x-api-key': 'secret' } })).rejects.toThrow(
    /redirect/,
  )
  expect(requests).toBe(0)
  await expect(fetchFromNode('http://127.0.0.1:9/')).rejects.toThrow(/\w/)
})
