import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { type IncomingHttpHeaders, request } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { mountGuardedPath, mountPresenceFilter, openPairs } from '../../src/guarded-path/index.ts'
import { startListener } from '../../src/http/index.ts'
import { openUserDirectory, sampleApiComponent } from '../../src/sample-api/index.ts'
import { type IssuerTokens, openTokens, type TokenService } from '../../src/tokens/index.ts'

export interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
}

export interface Call {
  readonly headers?: Record<string, string | string[]>
  readonly body?: string | Buffer
  readonly localAddress?: string
}

/** Options of the listener. Each has a default. */
export interface Setup {
  readonly users?: readonly object[]
  readonly pairs?: object
  readonly presenceFilter?: boolean
  readonly secret?: string
  readonly issuers?: IssuerTokens
}

/**
 * The listener of the token-gated sample API and the guarded path, on a real socket, with a manual clock and
 * captured logs.
 */
export interface SamplesListener {
  readonly clock: { nowMs: number }
  readonly tokens: TokenService
  readonly folder: string
  readonly port: number
  /** All log lines so far, of every level. */
  readonly logs: string[]
  call(method: string, path: string, call?: Call): Promise<Answer>
  /** Sends `text` unchanged, and returns all data until the server closes the connection. */
  raw(text: string | Buffer): Promise<string>
  /** Logs in, and returns the token. */
  login(name?: string, password?: string): Promise<string>
  close(): Promise<void>
}

/** Starts the listener on a free port with a new folder. */
export async function startSamples(setup: Setup = {}): Promise<SamplesListener> {
  const clock = { nowMs: Date.UTC(2026, 10, 20, 12), now: () => clock.nowMs }
  const folder = await mkdtemp(join(tmpdir(), 'daicho-samples-'))
  const file = (name: string, content: unknown): string | null => {
    if (content === undefined) return null
    const path = join(folder, name)
    writeFileSync(path, JSON.stringify(content))
    return path
  }
  const tokens = await openTokens({
    clock,
    folder,
    secret: setup.secret ?? null,
    issuers: setup.issuers ?? null,
  })
  const users = await openUserDirectory({
    file: file('declared-users.json', setup.users),
    folder,
    isLoopback: true,
  })
  const pairs = await openPairs({ file: file('hello.json', setup.pairs), isLoopback: true })
  const logs: string[] = []
  const logger = pino({ level: 'trace' }, { write: (line) => logs.push(line) })
  const listener = await startListener(
    sampleApiComponent({
      monotonic: clock,
      tokens,
      users,
      logger,
      version: '0.0.0',
      mountFirst: async (app) => {
        if (setup.presenceFilter === true) mountPresenceFilter(app)
        await mountGuardedPath(app, pairs, clock)
      },
    }),
    {
      host: '127.0.0.1',
      port: 0,
      publicHosts: new Set(),
      logger,
    },
  )
  const port = Number(new URL(listener.url).port)
  const call = (method: string, path: string, parts: Call = {}) => send(port, method, path, parts)
  return {
    clock,
    tokens,
    folder,
    port,
    logs,
    call,
    raw: (text) => sendRaw(port, text),
    login: async (name = 'demo', password = 'demo') => {
      const answer = await call('POST', '/api/authenticate', json({ name, password }))
      const reply: { token?: string } = JSON.parse(answer.text)
      if (reply.token === undefined) throw new Error(`no token: ${answer.status} ${answer.text}`)
      return reply.token
    },
    close: async () => {
      await listener.close()
      await rm(folder, { recursive: true })
    },
  }
}

/** Returns the options of a request with a JSON body. */
export function json(value: unknown): Call {
  return { headers: { 'content-type': 'application/json' }, body: JSON.stringify(value) }
}

/** Returns the options of a request with a URL-encoded body. */
export function form(fields: Record<string, string>): Call {
  return {
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams(fields).toString(),
  }
}

/** Returns a random text that occurs nowhere else. */
export function unmistakable(): string {
  return randomBytes(12).toString('hex')
}

function send(port: number, method: string, path: string, call: Call): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const length =
      call.body === undefined ? {} : { 'content-length': `${Buffer.byteLength(call.body)}` }
    const outgoing = request(
      {
        host: '127.0.0.1',
        port,
        method,
        path,
        agent: false,
        headers: { ...length, ...call.headers },
        ...(call.localAddress === undefined ? {} : { localAddress: call.localAddress }),
      },
      (incoming) => {
        const parts: Buffer[] = []
        incoming.on('data', (part: Buffer) => parts.push(part))
        incoming.once('error', reject)
        incoming.once('end', () =>
          resolve({
            status: incoming.statusCode ?? 0,
            headers: incoming.headers,
            text: Buffer.concat(parts).toString(),
          }),
        )
      },
    )
    outgoing.once('error', reject)
    outgoing.end(call.body)
  })
}

function sendRaw(port: number, text: string | Buffer): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(text))
    const parts: Buffer[] = []
    socket.on('data', (part) => parts.push(part))
    socket.once('error', reject)
    socket.once('close', () => resolve(Buffer.concat(parts).toString()))
  })
}
