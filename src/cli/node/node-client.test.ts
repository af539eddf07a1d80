import { execFileSync, spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { createServer as createTlsServer } from 'node:tls'
import { expect, it, onTestFinished } from 'vitest'
import { answering } from '../../../test/support/answering.ts'
import { runDaicho, runHere } from '../../../test/support/command.ts'
import { temporaryFolder } from '../../../test/support/ledger-node.ts'
import { createCommands } from '../command-list.ts'
import { fetchFromNode } from './node-client.ts'
import { textOrFile } from './node-options.ts'

async function serve(answer: RequestListener): Promise<string> {
  const server = createServer(answer)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

/** Starts a TCP server that calls `onConnection`. Returns its address as a URL. */
async function listenTo(onConnection: (socket: Socket) => void): Promise<string> {
  const server = createTcpServer(onConnection)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
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
    'the reply has more than 1000000 bytes',
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
    await expect(fetchFromNode(url, {}, { timeoutMs: 300 })).rejects.toThrow(
      'no reply within 300 ms',
    )
  }
})

it('reports a server with or without TLS, or of another protocol, in one line that tells what to do', async () => {
  const plain = await serve((_request, response) => void response.end())
  const answer = (text: string | null) =>
    listenTo((socket) => {
      socket
        .on('error', () => {})
        .once('data', () => (text === null ? socket.destroy() : socket.end(text)))
    })
  const tls = createTlsServer()
  tls.on('tlsClientError', () => {})
  for (const [url, reason] of [
    [
      plain.replace('http:', 'https:'),
      'it does not answer with TLS; use http:// instead of https://',
    ],
    [await answer('SSH-2.0-x\r\n'), 'its reply is not HTTP'],
    [await answer(null), 'it closed the connection; if it expects TLS, use https://'],
    [
      await listenTo((socket) => void tls.emit('connection', socket)),
      'it closed the connection; if it expects TLS, use https://',
    ],
  ] as const) {
    await expect(fetchFromNode(url)).rejects.toThrow(new Error(reason))
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

const run = async (name: string, args: readonly string[]) => {
  const command = createCommands().find((each) => each.name() === name)
  return runHere(command ?? expect.fail(name), args)
}
const FILE = 'fruit.ndjson'
const REPLY = JSON.stringify({
  ...{
    status: true,
    serverid: 1,
    dbs: [],
    peers: [],
    tokens: [],
    indexes: [],
    items: [],
    docs: [],
  },
  ...{ ledgers: [], count: 0, groups: [], evidence: null },
})

it.each([
  ['peers', []],
  ['peers', ['add', 'key', 'http://b.example']],
  ['peers', ['remove', '1']],
  ['count', ['fruit']],
  ['count', ['fruit', '--group', 'kind']],
  ['dump', ['fruit']],
  ['load', ['fruit', FILE, '--on-conflict', 'skip']],
  ['index', ['list']],
  ['index', ['add', 'fruit', 'n', '--no-wait']],
  ['token', ['list']],
  ['network', ['list']],
  ['network', ['identity', 'list', 'trade']],
])('the command %s %j sends every request below the path of --url', async (name, words) => {
  const { url, requests } = await answering(200, REPLY)
  const folder = temporaryFolder()
  writeFileSync(join(folder, FILE), '{"id":"a"}\n')
  const args = words.map((word) => (word === FILE ? join(folder, FILE) : word))
  const token = name === 'network' ? [] : ['--token', 'secret']
  await run(name, [...args, '--url', `${url}/staging/`, ...token])
  expect(requests).not.toEqual([])
  expect(requests.filter((line) => !/^[A-Z]+ \/staging\/(api|networks|trade)/.test(line))).toEqual(
    [],
  )
})

it('verify audits the node below the path of its URL', async () => {
  const { url, requests } = await answering(200, REPLY)
  await run('verify', [`${url}/staging`])
  expect(requests).toEqual(['GET /staging/api/serverid', 'GET /staging/api/ledgers/1/vkey'])
})

it('a command refuses a name that a URL cannot contain, and requests no other address', async () => {
  const { url, requests } = await answering(200, REPLY)
  for (const args of [
    ['count', '..'],
    ['dump', '.'],
    ['peers', 'remove', '..'],
    ['peers', 'remove', ''],
    ['count', ''],
  ]) {
    const [name = '', ...words] = args
    const ended = await run(name, [...words, '--url', url])
    expect(ended).toMatchObject({ code: 2, stderr: expect.stringContaining('cannot be used as') })
  }
  expect(requests.filter((line) => !line.startsWith('GET /api/'))).toEqual([])
})

it('a command prints no part of a token or key that no header can have, and sends nothing', async () => {
  const { url, requests } = await answering(200, REPLY)
  const folder = temporaryFolder()
  const [input, secret] = [join(folder, FILE), join(folder, 'secret')]
  writeFileSync(input, '{"id":"a"}\n')
  writeFileSync(secret, 'hidden\nhidden')
  for (const args of [
    ['load', 'fruit', input, '--url', url, '--token', secret],
    ['count', 'fruit', '--url', url, '--token', secret],
    ['verify', url, '--token', secret],
    ['network', 'list', '--url', url],
  ]) {
    const ended = await runDaicho(args, { GATEWAY_API_KEY_FILE: secret })
    expect(ended.stderr).toMatch(/the value of the header [\w-]+ has a character/)
    expect(ended.stdout + ended.stderr).not.toContain('hidden')
  }
  expect(requests).toEqual([])
})

it('reads a token from a pipe', () => {
  const pipe = join(temporaryFolder(), 'pipe')
  execFileSync('mkfifo', [pipe])
  spawn('sh', ['-c', 'echo token > "$0"', pipe])
  expect(textOrFile(pipe)).toBe('token')
})
