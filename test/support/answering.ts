import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'

/** A server that sends the same reply to every request, and is closed after the test. */
export interface Answering {
  readonly url: string
  /** The received requests: method, path and credentials. */
  readonly requests: readonly string[]
}

/** Starts a server that replies to every request with `status` and `body`. */
export async function answering(status: number, body: string): Promise<Answering> {
  const requests: string[] = []
  const server = createServer((request, response) => {
    const { 'x-api-key': key, authorization = '' } = request.headers
    const credentials = key ?? authorization.replace(/^Bearer /, '')
    requests.push(`${request.method} ${request.url} ${credentials}`.trimEnd())
    response.writeHead(status).end(body)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return { requests, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}
