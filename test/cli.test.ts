// The `daicho` command: real processes, their output and exit codes.

import { once } from 'node:events'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import { runDaicho, serveLedger, startDaicho } from './support/daicho.ts'
import { startLedgerNode, temporaryFolder, usedNodeFolder } from './support/ledger-node.ts'
import { tamper } from './support/tampered.ts'
import { until } from './support/until.ts'

const SERVE = ['serve', '--only', 'ledger', '--port', '0']
const VERSION: string = JSON.parse(readFileSync('package.json', 'utf8')).version

/** Expects that the command printed one line to stderr, nothing to stdout, and exited with `code`. */
function expectRefusal(
  ended: { code: number | null; stdout: string; stderr: string },
  code: number,
  line: RegExp,
): void {
  expect(ended.stdout).toBe('')
  const lines = ended.stderr.trimEnd().split('\n')
  expect(lines.filter((text) => !text.startsWith('{'))).toEqual([expect.stringMatching(line)])
  expect(ended.code).toBe(code)
}

async function request(url: string, method = 'GET', body?: unknown, headers = {}) {
  const reply = await fetch(url, {
    method,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
  })
  return { status: reply.status, text: await reply.text() }
}

describe('help, version and mistakes', () => {
  it('--help and --version print to stdout and exit with code 0', async () => {
    const [help, version, serve, verify, config] = await Promise.all([
      runDaicho(['--help']),
      runDaicho(['--version']),
      runDaicho(['serve', '--help']),
      runDaicho(['verify', '--help']),
      runDaicho(['help', 'config']),
    ])
    for (const ended of [help, version, serve, verify, config]) {
      expect([ended.code, ended.stderr]).toEqual([0, ''])
    }
    expect(version.stdout).toBe(`${VERSION}\n`)
    for (const command of ['serve', 'verify', 'config']) expect(help.stdout).toContain(command)
    for (const flag of ['--only', '--host', '--port', '--json', '--folder', 'SYSTEM_FOLDER']) {
      expect(serve.stdout).toContain(flag)
    }
    expect(verify.stdout).toContain('Exit code')
    expect(config.stdout).toContain('--json')
  })

  it('exits with code 2 for unknown arguments, and refers to the help', async () => {
    const mistakes = [
      [],
      ['nonsense'],
      ['--nonsense'],
      ['serve', '--nonsense'],
      ['serve', 'too', 'many'],
      ['serve', '--only', 'nonsense'],
      ['serve', '--only', ''],
      ['dump', 'fruit', '--out', '--gzip'],
      ['erase', 'fruit', '--ids', '--dry-run'],
      ['serve', '--port', '65536'],
      ['serve', '--port', '-1'],
      ['serve', '--port', 'x'],
      ['verify'],
      ['verify', 'one', 'two'],
      ['config', 'too-much'],
    ]
    const ended = await Promise.all(mistakes.map((args) => runDaicho(args)))
    for (const [at, { code, stdout, stderr }] of ended.entries()) {
      expect([mistakes[at], code, stdout]).toEqual([mistakes[at], 2, ''])
      expect(stderr).toMatch(/help/)
      expect(stderr).not.toMatch(/\bat .*:\d+:\d+/)
    }
  })
})

describe('output', () => {
  it('ends without a message and with exit code 141 if the reader of stdout, such as `head`, has closed it', async () => {
    const { child, ended } = startDaicho(['config'])
    child.stdout?.destroy()
    expect(await ended).toEqual({ code: 141, stdout: '', stderr: '' })
  })
})

describe('configuration', () => {
  it.each([
    ['PORT', '65536'],
    ['PORT', '4126x'],
    ['PORT', '-1'],
    ['PEERS_INTERVAL_MS', '9'],
    ['PEERS_INTERVAL_MS', '10.5'],
    ['TOKENS', 'perhaps'],
    ['LOG_LEVEL', 'loud'],
    ['PUBLIC_HOSTS', 'https://ledger.example'],
    ['PUBLIC_HOSTS', 'ledger.example:4126'],
    ['ALLOW_ORIGINS', '*'],
    ['ALLOW_ORIGINS', 'null'],
    ['ALLOW_ORIGINS', 'app.example'],
    ['ALLOW_ORIGINS', 'https://app.example/'],
    ['ALLOW_ORIGINS', 'https://*.example'],
    ['ALLOW_ORIGINS', 'https://app.example,https://App.example'],
    ['ALLOW_ORIGINS', 'https://app.example:443'],
    ['VERIFY_EVERY', '30s'],
    ['VERIFY_EVERY', '25d'],
    ['STORE', 'mysql://db/ledger'],
    ['STORE', 'postgres://db/ledger'],
    ['BASIC_USERNAME', 'a:b'],
    ['BASIC_USERNAME', 'a\nb'],
    ['BASIC_PASSWORD', 'a\nb'],
    ['BASIC_PASSWORD_FILE', '/nowhere/at/all'],
    ['HOST', '999.1.1.1'],
    ['HOST', 'no such host'],
    ['HOST', '203.0.113.7'],
    ['SYSTEM_FOLDER', '~/data'],
    ['SYSTEM_FOLDER', '"/var/lib/daicho"'],
    ['SYSTEM_FOLDER', '/var/lib/daicho\r'],
    ['SYSTEM_FOLDER', '/dev/null/below'],
    ['SYSTEM_FOLDER', '/dev/null'],
  ])(
    'with %s=%j, the node does not start, exits with code 78, and names the variable in a one-line message',
    async (name, value) => {
      // `config` reports the errors that do not need a start too, in a tenth of the time of `serve`.
      const needsStart = name === 'HOST' || name === 'SYSTEM_FOLDER'
      const credentials = { BASIC_USERNAME: 'u', BASIC_PASSWORD: 'p' }
      const ended = needsStart
        ? await runDaicho(SERVE, { ...credentials, LOG_LEVEL: 'error', [name]: value })
        : await runDaicho(['config'], { [name]: value })
      expectRefusal(ended, 78, new RegExp(`^daicho: .*\\b${name}\\b`))
    },
  )

  it('`serve` creates no files if a value is invalid', async () => {
    const folder = join(temporaryFolder(), 'data')
    const ended = await runDaicho(SERVE, { SYSTEM_FOLDER: folder, PEERS_INTERVAL_MS: '9' })
    expectRefusal(ended, 78, /\bPEERS_INTERVAL_MS\b/)
    expect(existsSync(folder)).toBe(false)
  })

  it('exits with code 78 for a user name without a password, a secret given twice, or an empty secret file', async () => {
    const folder = temporaryFolder()
    writeFileSync(join(folder, 'empty'), '\n')
    const [half, both, empty] = await Promise.all([
      runDaicho(SERVE, { BASIC_USERNAME: 'u' }),
      runDaicho(SERVE, { BASIC_USERNAME: 'u', BASIC_PASSWORD: 'p', BASIC_PASSWORD_FILE: '/x' }),
      runDaicho(SERVE, { BASIC_USERNAME: 'u', BASIC_PASSWORD_FILE: join(folder, 'empty') }),
    ])
    expectRefusal(half, 78, /BASIC_USERNAME and BASIC_PASSWORD/)
    expectRefusal(both, 78, /BASIC_PASSWORD or BASIC_PASSWORD_FILE/)
    expectRefusal(empty, 78, /BASIC_PASSWORD_FILE/)
  })

  it('refuses the preset credentials on an address that other machines can reach', async () => {
    const ended = await Promise.all([
      runDaicho(SERVE, { HOST: '0.0.0.0' }),
      runDaicho([...SERVE, '--host', '::'], {}),
    ])
    for (const one of ended) expectRefusal(one, 78, /BASIC_USERNAME and BASIC_PASSWORD/)
  })

  it('never prints the URL of a database, which may contain a password, and takes none for a folder', async () => {
    const variables = { SYSTEM_FOLDER: temporaryFolder(), STORE: 'postgres://u:brass@db/ledger' }
    const [shown, wrong, folder] = await Promise.all([
      runDaicho(['config', '--json'], variables),
      runDaicho(['config'], { ...variables, STORE: 'pg://u:brass@db/ledger' }),
      runDaicho(['doctor', '--folder', 'postgres://u:brass@db/ledger']),
    ])
    expectRefusal(folder, 78, /STORE takes the URL of a database/)
    expect(JSON.parse(shown.stdout)).toMatchObject({ STORE: '********' })
    expectRefusal(wrong, 78, /STORE must be a URL that begins with postgres:/)
    expect(JSON.stringify([shown, wrong, folder])).not.toContain('brass')
  })

  it('treats an empty variable as unset', async () => {
    const names = ['HOST', 'PORT', 'SYSTEM_FOLDER', 'BASIC_USERNAME', 'BASIC_PASSWORD']
    const more = ['BASIC_PASSWORD_FILE', 'PUBLIC_HOSTS', 'DEFAULT_PX', 'TOKENS', 'LOG_LEVEL']
    const empty = Object.fromEntries([...names, ...more].map((name) => [name, '']))
    const [given, unset] = await Promise.all([
      runDaicho(['config', '--json'], empty),
      runDaicho(['config', '--json']),
    ])
    expect(given).toEqual(unset)
    expect(JSON.parse(given.stdout)).toMatchObject({ HOST: '127.0.0.1', PORT: 4126, TOKENS: 'off' })
  })

  it('config prints the effective settings with secrets masked', async () => {
    const folder = temporaryFolder()
    writeFileSync(join(folder, 'password'), 'brass key\n')
    const variables = {
      PORT: '5000',
      BASIC_USERNAME: 'keeper',
      BASIC_PASSWORD_FILE: join(folder, 'password'),
      PUBLIC_HOSTS: 'a.example, b.example',
    }
    const [json, text, wrong] = await Promise.all([
      runDaicho(['config', '--json'], variables),
      runDaicho(['config'], variables),
      runDaicho(['config'], { ...variables, PORT: 'x' }),
    ])
    expect([json.code, json.stderr]).toEqual([0, ''])
    expect(json.stdout.trimEnd().split('\n').length).toBe(1)
    expect(JSON.parse(json.stdout)).toMatchObject({
      PORT: 5000,
      BASIC_USERNAME: 'keeper',
      BASIC_PASSWORD: '********',
      PUBLIC_HOSTS: ['a.example', 'b.example'],
      SYSTEM_FOLDER: null,
    })
    expect(text.stdout).toMatch(/^PORT +5000 +set/m)
    expect(json.stdout + text.stdout).not.toContain('brass')
    expectRefusal(wrong, 78, /\bPORT\b/)
  })
})

describe('serve', () => {
  it('--json prints one line with the address of each component, and --only selects components', async () => {
    const server = await serveLedger(temporaryFolder())
    const { ledger, ...others } = JSON.parse(await server.firstLine)
    expect(others).toEqual({})
    expect(ledger).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
    expect((await request(`${ledger}/healthz`)).text).toBe('{"status":true}')
    server.child.kill('SIGINT')
    expect(await server.ended).toEqual({ code: 0, stdout: `{"ledger":"${ledger}"}\n`, stderr: '' })
  })

  it('without --json prints a line for each component, and writes logs without secrets to stderr as JSON lines', async () => {
    const daicho = startDaicho(SERVE)
    const line = await daicho.firstLine
    expect(line).toMatch(/^ledger http:\/\/127\.0\.0\.1:\d+$/)
    const url = line.slice('ledger '.length)
    expect((await request(`${url}/api/dbs?token=SECRET`)).status).toBe(200)
    // Sends two signals, because in a terminal, the program and its process group each receive one.
    daicho.child.kill('SIGINT')
    daicho.child.kill('SIGTERM')
    const { code, stderr } = await daicho.ended
    expect(code).toBe(0)
    const logged = stderr
      .trimEnd()
      .split('\n')
      .map((text) => JSON.parse(text))
    expect(logged.map(({ msg }) => msg)).toContain('listening')
    expect(stderr).toContain('SYSTEM_FOLDER is not set')
    expect(stderr).not.toMatch(/SECRET|password/i)
  })

  it('after SIGTERM, accepts no connection on any port while a request is answered', async () => {
    const daicho = startDaicho([
      ...['serve', '--only', 'ledger,samples', '--json'],
      ...['--port', '0', '--sample-port', '0'],
    ])
    const urls = JSON.parse(await daicho.firstLine) as Record<'ledger' | 'samples', string>
    const slow = connect(Number(new URL(urls.samples).port), '127.0.0.1')
    const received = text(slow)
    slow.write(
      'POST /api/authenticate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n',
    )
    slow.write('Expect: 100-continue\r\nContent-Length: 2\r\n\r\n')
    // The node has read the headers.
    await once(slow, 'readable')
    daicho.child.kill('SIGTERM')
    for (const url of [urls.ledger, urls.samples]) {
      await until(`${url} accepts no connection`, () =>
        request(url).then(
          () => false,
          () => true,
        ),
      )
    }
    slow.write('{}')
    expect(await received).toMatch(/\r\n\r\nHTTP\/1.1 \d/)
    expect((await daicho.ended).code).toBe(0)
  })

  it('BASIC_PASSWORD_FILE sets the password of the page at /', async () => {
    const folder = temporaryFolder()
    writeFileSync(join(folder, 'password'), 'brass: key\r\n')
    const server = await serveLedger(join(folder, 'data'), {
      BASIC_USERNAME: 'keeper',
      BASIC_PASSWORD_FILE: join(folder, 'password'),
    })
    const basic = (text: string) => ({
      authorization: `Basic ${Buffer.from(text).toString('base64')}`,
    })
    const as = async (text: string) =>
      (await request(`${server.url}/`, 'GET', undefined, basic(text))).status
    expect(await as('keeper:brass: key')).toBe(200)
    expect(await as('keeper:wrong')).toBe(401)
    expect(await as('admin:daicho')).toBe(401)
  })

  it('applies ALLOW_ORIGINS to each component, and VERIFY_EVERY to the ledger', async () => {
    const args = ['serve', '--only', 'ledger,converter', '--port', '0', '--converter-port', '0']
    const origin = 'https://app.example'
    const daicho = startDaicho([...args, '--json'], { ALLOW_ORIGINS: origin, VERIFY_EVERY: '24h' })
    const urls: { ledger: string; converter: string } = JSON.parse(await daicho.firstLine)
    const preflight = (address: string, from: string) =>
      fetch(address, {
        method: 'OPTIONS',
        headers: { origin: from, 'access-control-request-method': 'POST' },
      })
    for (const address of [`${urls.ledger}/api/fruit`, `${urls.converter}/image`]) {
      const allowed = await preflight(address, origin)
      expect([allowed.status, allowed.headers.get('access-control-allow-origin')]).toEqual([
        204,
        origin,
      ])
      const other = await preflight(address, 'https://other.example')
      expect(other.headers.get('access-control-allow-origin')).toBeNull()
    }
    const ready = await request(`${urls.ledger}/readyz`)
    expect(JSON.parse(ready.text)).toMatchObject({
      status: true,
      verification: { result: expect.stringMatching(/^(?:pending|passed)$/) },
    })
    daicho.child.kill('SIGTERM')
    expect(await daicho.ended).toMatchObject({ code: 0 })
  })

  it('names the component whose port is in use, and creates no files', async () => {
    const folder = join(temporaryFolder(), 'data')
    const taken = createServer()
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve))
    const address = taken.address()
    const port = typeof address === 'object' ? String(address?.port) : ''
    const ended = await runDaicho(['serve', '--only', 'ledger', '--port', port, '--folder', folder])
    const line = `^daicho: ledger: port ${port} is in use: choose another with --port$`
    expectRefusal(ended, 78, new RegExp(line))
    expect(existsSync(folder)).toBe(false)
    taken.close()
  })

  it('exits with code 78 and a one-line message for a folder in use, and the first process continues', async () => {
    const folder = temporaryFolder()
    const server = await serveLedger(folder)
    const second = await runDaicho(SERVE, {
      SYSTEM_FOLDER: folder,
      LOG_LEVEL: 'error',
    })
    expectRefusal(
      second,
      78,
      /another daicho is using the folder .+; stop it, or choose another folder$/m,
    )
    expect((await request(`${server.url}/api/still-here`, 'POST')).status).toBe(200)
  })

  it('makes the folder and the key readable for their owner only, and keeps the server id', async () => {
    const folder = join(temporaryFolder(), 'made', 'here')
    const ids: string[] = []
    for (let start = 0; start < 2; start += 1) {
      const server = await serveLedger(folder)
      ids.push((await request(`${server.url}/api/serverid`)).text)
      server.child.kill('SIGTERM')
      await server.ended
    }
    expect(ids[0]).toBe(ids[1])
    expect(statSync(folder).mode & 0o777).toBe(0o700)
    expect(statSync(join(folder, 'node.key')).mode & 0o777).toBe(0o600)
  })

  it('exits with code 78 for a store without its key or with a wrong key, of a newer version, or of another program', async () => {
    const serve = (folder: string) =>
      runDaicho(SERVE, {
        SYSTEM_FOLDER: folder,
        LOG_LEVEL: 'error',
      })
    const folder = await usedNodeFolder()
    const key = join(folder, 'node.key')
    const store = join(folder, 'ledger.db')

    renameSync(key, `${key}.away`)
    expectRefusal(await serve(folder), 78, /contains a store but not its key node\.key/)
    writeFileSync(key, 'not a key')
    expectRefusal(await serve(folder), 78, /does not contain an Ed25519 key/)
    const other = temporaryFolder()
    await (await startLedgerNode({ folder: other })).close()
    writeFileSync(key, readFileSync(join(other, 'node.key')))
    expectRefusal(await serve(folder), 78, /belongs to server id \d+, but the key in the folder/)
    renameSync(`${key}.away`, key)

    const head = join(folder, 'signed-head')
    renameSync(head, `${head}.away`)
    writeFileSync(head, 'not a head')
    expectRefusal(await serve(folder), 78, /does not contain a signed head: compare the chain/)
    writeFileSync(head, readFileSync(join(other, 'signed-head')))
    expectRefusal(await serve(folder), 78, /signed-head belongs to the log .*: put back/)
    renameSync(`${head}.away`, head)
    writeFileSync(join(folder, 'peers.json'), '')
    expectRefusal(await serve(folder), 78, /does not contain a list of peers: restore it/)
    rmSync(join(folder, 'peers.json'))

    tamper(folder, 'PRAGMA user_version = 99')
    expectRefusal(await serve(folder), 78, /has format 99, but this daicho uses format 1: export/)
    expectRefusal(
      await runDaicho(['verify', folder]),
      78,
      /has format 99, but this daicho uses format 1: export/,
    )
    tamper(folder, 'PRAGMA application_id = 7')
    expectRefusal(await serve(folder), 78, /is not a daicho store/)
    writeFileSync(store, 'this is text, not a store, and long enough to look at it '.repeat(40))
    expectRefusal(await serve(folder), 78, /ledger\.db/)
  })
})

describe('verify', () => {
  it('reports no difference while the server runs, after it has stopped, and after it was killed', async () => {
    const folder = temporaryFolder()
    const server = await serveLedger(folder)
    await request(`${server.url}/api/fruit`, 'POST')
    await request(`${server.url}/api/fruit`, 'POST', [{ id: 'fig' }, { id: 'plum' }])
    const expected = { status: true, blocks: 2, entries: 3, databases: 1, items: 2, finding: null }

    const beside = await runDaicho(['verify', folder, '--json'])
    expect([beside.code, JSON.parse(beside.stdout)]).toMatchObject([0, expected])
    expect((await request(`${server.url}/api/fruit`, 'POST', {})).status).toBe(200)
    server.child.kill('SIGKILL')
    await server.ended
    const killed = await runDaicho(['verify', folder, '--json'])
    expect([killed.code, JSON.parse(killed.stdout)]).toMatchObject([
      0,
      { ...expected, blocks: 3, entries: 4, items: 3 },
    ])
    const again = await serveLedger(folder)
    again.child.kill('SIGTERM')
    await again.ended
    const stopped = await runDaicho(['verify', folder])
    expect(stopped.code).toBe(0)
    expect(stopped.stdout).toMatch(/^Everything is valid: 3 blocks, 4 entries, 1 database/)
    expect(stopped.stderr).toMatch(/^verifying/)
  })

  it('reports a changed value with its location, and exits with code 1', async () => {
    const folder = await usedNodeFolder()
    const _store = join(folder, 'ledger.db')
    tamper(folder, `UPDATE items SET item = '{"id":"fig","ripe":false}' WHERE id = 'fig'`)
    const [json, text] = await Promise.all([
      runDaicho(['verify', folder, '--json']),
      runDaicho(['verify', folder]),
    ])
    expect(json.code).toBe(1)
    expect(json.stdout.trimEnd().split('\n').length).toBe(1)
    expect(JSON.parse(json.stdout)).toMatchObject({
      status: false,
      finding: { height: 2, index: 0, what: 'item fig of fruit is stored with another content' },
    })
    expect(text.code).toBe(1)
    expect(text.stdout).toMatch(/^DIFFERENCE at height 2, entry 0: item fig of fruit/)

    tamper(folder, `UPDATE items SET item = '{"id":"fig","ripe":true}' WHERE id = 'fig'`)
    expect((await runDaicho(['verify', folder])).code).toBe(0)
    tamper(folder, `UPDATE blocks SET body = replace(body, 'plum', 'plus') WHERE height = 1`)
    const chain = await runDaicho(['verify', folder, '--json'])
    expect(chain.code).toBe(1)
    expect(JSON.parse(chain.stdout).finding).toMatchObject({ height: 1, index: 1 })
  })

  it('reports a store file whose header is overwritten', async () => {
    const folder = await usedNodeFolder()
    const store = join(folder, 'ledger.db')
    tamper(folder, 'PRAGMA wal_checkpoint(TRUNCATE)')
    writeFileSync(store, Buffer.concat([Buffer.alloc(100), readFileSync(store).subarray(100)]))
    const { code, stdout } = await runDaicho(['verify', folder, '--json'])
    expect(code).toBe(1)
    expect(JSON.parse(stdout)).toMatchObject({ status: false, finding: { height: null } })
  })

  it('exits with code 78 and a one-line message if a folder in SYSTEM_FOLDER is a file', async () => {
    const folder = await usedNodeFolder()
    writeFileSync(join(folder, 'attachments'), 'x')
    const refused = await runDaicho(SERVE, { SYSTEM_FOLDER: folder })
    expectRefusal(refused, 78, /^daicho: ENOTDIR: not a directory, \w+ '.*attachments/)
    const verified = await runDaicho(['verify', folder])
    expect(verified.stderr).not.toContain('    at ')
  })

  it('leaves the folder of a stopped node unchanged', async () => {
    const folder = await usedNodeFolder()
    const picture = () =>
      readdirSync(folder)
        .sort()
        .filter((name) => statSync(join(folder, name)).size > 0)
        // Omits `ledger.db-shm`, which is an index of the WAL and not data. Empty files are omitted too, because SQLite
        // deletes an empty WAL.
        .filter((name) => !name.endsWith('-shm'))
        .map((name) => [name, readFileSync(join(folder, name)).toString('base64')])
    const before = picture()
    expect((await runDaicho(['verify', folder])).code).toBe(0)
    expect(JSON.stringify(picture()) === JSON.stringify(before)).toBe(true)
  })

  it('exits with code 2 and a one-line message if there is nothing to verify', async () => {
    const folder = temporaryFolder()
    mkdirSync(join(folder, 'empty'))
    writeFileSync(join(folder, 'file'), '')
    for (const path of ['nowhere', 'empty', 'file']) {
      expectRefusal(await runDaicho(['verify', join(folder, path)]), 2, /there is no /)
    }
    expect(existsSync(join(folder, 'nowhere'))).toBe(false)
  })
})
