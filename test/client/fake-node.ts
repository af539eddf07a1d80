import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'
import type { Timing } from '../../src/client/index.ts'

/** A received request. */
export interface Arrived {
  readonly method: string
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

/** A test server for replies that a real node never sends. */
export interface FakeNode {
  readonly url: string
  readonly requests: Arrived[]
}

/** Answers each request with the next element of `answers`, and repeats the last element. */
export async function fakeNode(
  ...answers: ((response: ServerResponse, request: Arrived) => void)[]
): Promise<FakeNode> {
  const requests: Arrived[] = []
  const server = createServer(async (message, response) => {
    const answer = answers[Math.min(requests.length, answers.length - 1)]
    const arrived = {
      method: message.method ?? '',
      path: message.url ?? '',
      headers: message.headers,
      body: '',
    }
    requests.push(arrived)
    const parts: Buffer[] = []
    for await (const part of message) parts.push(part)
    arrived.body = Buffer.concat(parts).toString()
    answer?.(response, arrived)
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, requests }
}

export const json =
  (status: number, value: unknown, headers: Record<string, string> = {}) =>
  (response: ServerResponse) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers })
    response.end(JSON.stringify(value))
  }

export const broken = (response: ServerResponse): void => {
  response.destroy()
}

/** A fake timing that records delays instead of waiting. Every random number is `chance`. */
export function noted(chance = 1): Timing & { readonly waits: number[] } {
  const waits: number[] = []
  return {
    waits,
    random: () => chance,
    sleep: async (ms, signal) => {
      signal?.throwIfAborted()
      waits.push(ms)
    },
  }
}

export async function collected<Value>(values: AsyncIterable<Value>): Promise<Value[]> {
  const all: Value[] = []
  for await (const value of values) all.push(value)
  return all
}
