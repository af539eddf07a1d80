// `daicho load` and `daicho dump` with a data folder and with a running node: interruptions, output and exit codes.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { describe, expect, it, onTestFinished } from 'vitest'
import { NodeItems } from '../src/cli/node/node-items.ts'
import { nodeTarget } from '../src/cli/node/node-target.ts'
import { loadRecords, readRecords } from '../src/exchange/index.ts'
import { issueApiToken, openTokens } from '../src/tokens/index.ts'
import { runDaicho, startDaicho } from './support/daicho.ts'
import { HandClock, startLedgerNode, temporaryFolder, verifyFolder } from './support/ledger-node.ts'
import { until } from './support/until.ts'

const lines = (count: number) =>
  Array.from({ length: count }, (_, at) => `{"id":"i${at}","n":${at}}\n`).join('')

describe('load and dump with a data folder', () => {
  it('a load stores the items of a file, and a dump returns them; a load that refuses lines lists them and exits with code 1', async () => {
    const work = temporaryFolder()
    const folder = join(work, 'data')
    mkdirSync(folder)
    const file = join(work, 'fruit.ndjson.gz')
    const refused = join(work, 'refused.ndjson')
    const bad = Array.from({ length: 25 }, () => 'nope\n').join('')
    writeFileSync(file, gzipSync(`${lines(1_200)}${bad}{"name":"without id"}\n`))
    const settings = { SYSTEM_FOLDER: folder }
    const loaded = await runDaicho(['load', 'fruit', file, '--json'], settings)
    expect([loaded.code, JSON.parse(loaded.stdout)]).toEqual([
      1,
      {
        ...{ status: false, db: 'fruit', records: 1_226, created: 1_201, replaced: 0, deleted: 0 },
        ...{
          attachments: 0,
          skipped: 0,
          refused: 25,
          leftOut: {},
          unknown: 0,
          databasesCreated: ['fruit'],
        },
        failure: null,
      },
    ])
    expect(loaded.stderr).toMatch(/^line 1201 refused: it is not JSON: /m)
    expect(loaded.stderr.match(/ refused: /g)).toHaveLength(20)
    expect(loaded.stderr).toContain('5 more refused; --refused <file> lists all')
    expect(existsSync(`${file}.load`)).toBe(false)

    for (const flag of ['--refused', '--state']) {
      const over = await runDaicho(['load', 'fruit', file, flag, file], settings)
      expect([over.code, over.stderr]).toEqual([2, expect.stringContaining('is the input itself')])
    }
    const progress = await runDaicho(['load', 'fruit', file, '--refused', `${file}.load`], settings)
    expect([progress.code, progress.stderr, existsSync(`${file}.load`)]).toEqual([
      ...[2, expect.stringContaining('is the file for the progress'), false],
    ])
    const missing = ['--refused', join(work, 'none', 'refused.ndjson')]
    expect((await runDaicho(['load', 'fruit', file, ...missing], settings)).code).toBe(2)
    for (const name of ['ledger.db', 'node.key']) {
      const over = await runDaicho(['dump', 'fruit', '--out', join(folder, name)], settings)
      expect([over.code, over.stderr]).toEqual([
        2,
        expect.stringContaining('choose another folder'),
      ])
    }
    const again = ['load', 'fruit', file, '--on-conflict', 'skip', '--refused', refused]
    const skipped = await runDaicho(again, settings)
    expect(skipped.stdout).toMatch(
      /Loaded: 1 new item into fruit\.\nskipped {4}1200 records\nREFUSED {4}25 records/,
    )
    const reasons = readFileSync(refused, 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(reasons.map(({ line }) => line)).toEqual(
      Array.from({ length: 25 }, (_, at) => 1_201 + at),
    )

    const dumped = await runDaicho(['dump', 'fruit'], settings)
    expect(dumped.stdout.startsWith(lines(1_200))).toBe(true)
    expect(dumped.stdout.split('\n')).toHaveLength(1_203)
    expect(dumped.stderr).toContain('Dumped: 1202 items of fruit as of block ')
    const csv = join(work, 'fruit.csv.gz')
    const written = await runDaicho(['dump', 'fruit', '--out', csv, '--json'], settings)
    expect(JSON.parse(written.stdout)).toMatchObject({ status: true, items: 1_202, out: csv })
    expect((await runDaicho(['load', 'copy', csv], settings)).code).toBe(0)
    const copy = await runDaicho(['dump', 'copy'], settings)
    expect(copy.stdout).toBe(dumped.stdout)
    expect((await verifyFolder(folder)).finding).toBeNull()
  })

  it('load and dump are refused while the node runs, and if arguments are missing or wrong', async () => {
    const folder = temporaryFolder()
    const node = await startLedgerNode({ folder })
    const file = join(temporaryFolder(), 'f.ndjson')
    const notLoaded = join(temporaryFolder(), 'g.ndjson')
    for (const path of [file, notLoaded]) writeFileSync(path, '{}\n')
    const at = { SYSTEM_FOLDER: folder }
    const refusals: [string[], Record<string, string>, number, RegExp][] = [
      [['load', 'fruit', file], at, 78, /a node is running in .*: give its address with --url/],
      [['load', 'fruit', file], {}, 78, /set the folder of the node with --folder/],
      [['load', 'fruit', '/nowhere'], at, 2, /there is no file \/nowhere/],
      [['load', 'fruit', folder], at, 2, /is a folder/],
      [['load', 'fruit'], at, 2, /missing required argument/],
      [['load', '{table}', file], at, 2, /{table} requires --format qldb/],
      [
        ['load', 'x', file, '--format', 'qldb', '--on-conflict', 'skip'],
        at,
        2,
        /mix two histories/,
      ],
      [['load', 'x', '-', '--resume'], at, 2, /--resume needs --state for a load from stdin/],
      [
        ['load', 'x', notLoaded, '--url', node.url, '--resume'],
        at,
        2,
        /there is nothing to resume/,
      ],
      [['load', 'a/b', file, '--url', node.url], at, 1, /a database name must have/],
      [['dump', 'nodb'], at, 1, /there is no database nodb/],
      [['dump', 'nodb', '--url', node.url], at, 1, /there is no database nodb/],
      [['dump', 'fruit', '--json'], at, 2, /both write to stdout/],
    ]
    const ended = await Promise.all(refusals.map(([args, settings]) => runDaicho(args, settings)))
    for (const [n, { code, stderr }] of ended.entries()) {
      const [args, , expected, line] = refusals[n] ?? []
      expect([args, code]).toEqual([args, expected])
      expect(stderr).toMatch(line ?? /never/)
    }
    expect(existsSync(`${file}.load`)).toBe(false)
  })

  it('load rejects a reply of CouchDB without --format, before anything is stored', async () => {
    const work = temporaryFolder()
    const at = { SYSTEM_FOLDER: join(work, 'data') }
    mkdirSync(at.SYSTEM_FOLDER)
    const rows = '"rows":[{"id":"fig","key":"fig","doc":{"_id":"fig"}}\n]}\n'
    const inputs: [string, string | Buffer][] = [
      ['a.json', `{"total_rows":1,"offset":0,${rows}`],
      ['b.ndjson', ` \n{ ${rows}`],
      ['c.json.gz', gzipSync(`{"total_rows":1,${rows}`)],
      ['d', '{"rows" : []}'],
    ]
    for (const [name, content] of inputs) {
      const file = join(work, name)
      writeFileSync(file, content)
      const { code, stdout, stderr } = await runDaicho(['load', 'fruit', file, '--json'], at)
      expect([name, code, stdout]).toEqual([name, 2, ''])
      expect(stderr).toMatch(/^daicho: [^\n]*use --format couchdb[^\n]*\n$/)
      expect(existsSync(`${file}.load`)).toBe(false)
    }
    const dumped = await runDaicho(['dump', 'fruit'], at)
    expect(dumped.stderr).toContain('there is no database fruit')
    const loaded = await runDaicho(
      ['load', 'fruit', join(work, 'c.json.gz'), '--format', 'couchdb'],
      at,
    )
    expect(loaded.stdout).toContain('Loaded: 1 new item into fruit.')
  })

  it('load stores every item once if it is killed and resumed', async () => {
    const work = temporaryFolder()
    const folder = join(work, 'data')
    mkdirSync(folder)
    const file = join(work, 'many.ndjson')
    const state = `${file}.load`
    // The lines have no ids, so only the state file and the idempotency keys prevent duplicates.
    writeFileSync(file, Array.from({ length: 15_000 }, (_, n) => `{"n":${n}}\n`).join(''))
    const settings = { SYSTEM_FOLDER: folder }
    const first = startDaicho(['load', 'fruit', file], settings)
    await until(
      'the load has acknowledged a batch',
      () => existsSync(state) && /"batches":[1-9]/.test(readFileSync(state, 'utf8')),
    )
    first.child.kill('SIGKILL')
    await first.ended
    expect(existsSync(state)).toBe(true)
    const forgotten = await runDaicho(['load', 'fruit', file], settings)
    expect([forgotten.code, forgotten.stderr]).toEqual([
      2,
      expect.stringContaining('continue it with --resume'),
    ])
    const second = await runDaicho(['load', 'fruit', file, '--resume', '--json'], settings)
    expect([second.code, JSON.parse(second.stdout)]).toMatchObject([
      0,
      { records: 15_000, created: 15_000 },
    ])
    expect(existsSync(state)).toBe(false)
    const { stdout } = await runDaicho(['dump', 'fruit'], settings)
    const numbers = stdout
      .trimEnd()
      .split('\n')
      .map((line): number => JSON.parse(line).n)
    expect(numbers.length).toBe(15_000)
    expect(numbers.every((n, at) => n === at)).toBe(true)
  })

  it('a load that a signal ends says how to continue, and continues with --resume', async () => {
    const work = temporaryFolder()
    const settings = { SYSTEM_FOLDER: join(work, 'data') }
    mkdirSync(settings.SYSTEM_FOLDER)
    const [input, state] = [join(work, 'input'), join(work, 'state')]
    spawnSync('mkfifo', [input])
    const load = (...flags: string[]) => {
      const via = ['/bin/sh', '-c', 'exec "$@" < "$0"', input]
      return startDaicho(['load', 'fruit', '-', '--state', state, ...flags], settings, { via })
    }
    const first = load()
    // The load waits for more input until the signal.
    const pipe = await open(input, 'w')
    await pipe.write(lines(6_000))
    await until(
      'the load has stored a batch',
      () => existsSync(state) && /"batches":[1-9]/.test(readFileSync(state, 'utf8')),
    )
    first.child.kill('SIGINT')
    await pipe.close()
    expect(await first.ended).toMatchObject({
      code: null,
      stderr: expect.stringMatching(
        /^daicho: the load was interrupted; to continue, run the command again with --resume$/m,
      ),
    })
    const second = load('--resume', '--json')
    const again = await open(input, 'w')
    await again.write(lines(6_000))
    await again.close()
    const { code, stdout } = await second.ended
    expect([code, JSON.parse(stdout)]).toMatchObject([0, { records: 6_000, created: 6_000 }])
  })

  it('a load resumes with another --on-conflict, but not with another database or a damaged state file', async () => {
    const work = temporaryFolder()
    const folder = join(work, 'data')
    mkdirSync(folder)
    const file = join(work, 'f.ndjson')
    const state = `${file}.load`
    writeFileSync(file, `${lines(1_500)}{"id":"i0"}\n`)
    const settings = { SYSTEM_FOLDER: folder }
    const failed = await runDaicho(['load', 'fruit', file], settings)
    expect([failed.code, failed.stderr]).toEqual([
      1,
      expect.stringContaining('line 1501: item i0 of fruit exists'),
    ])
    expect(failed.stderr).toContain('--resume continues the load')
    const other = await runDaicho(['load', 'other', file, '--resume'], settings)
    expect([other.code, other.stderr]).toEqual([2, expect.stringContaining('db was "fruit"')])
    const skipped = ['load', 'fruit', file, '--resume', '--on-conflict', 'skip', '--json']
    const resumed = await runDaicho(skipped, settings)
    expect(JSON.parse(resumed.stdout)).toMatchObject({ status: true, created: 1_500, skipped: 1 })
    await runDaicho(['load', 'fruit', file], settings)
    writeFileSync(file, lines(3))
    rmSync(state, { force: true })
    writeFileSync(state, 'x')
    const damaged = await runDaicho(['load', 'fruit', file, '--resume'], settings)
    expect(damaged.stderr).toContain('is not the state file of a load')
  })

  it('a load does not resume after its database was deleted, even if it was created again', async () => {
    const node = await startLedgerNode()
    const file = join(temporaryFolder(), 'f.ndjson')
    writeFileSync(file, `${lines(1_500)}{"id":"i0"}\n`)
    const load = (...flags: string[]) =>
      runDaicho(['load', 'fruit', file, '--url', node.url, ...flags], {})
    expect((await load()).stderr).toContain('--resume continues the load')
    await node.send('DELETE', '/api/fruit')
    const refusal = (what: string) => ({
      code: 2,
      stdout: '',
      stderr: `daicho: this load cannot be resumed: database fruit was ${what} since then; to load everything, remove ${file}.load\n`,
    })
    expect(await load('--resume')).toMatchObject(refusal('deleted'))
    await node.send('POST', '/api/fruit')
    expect(await load('--resume')).toMatchObject(refusal('deleted and created again'))
    const { json } = await node.send('GET', '/api/dbs?created=true&count=true')
    expect(json).toEqual({
      status: true,
      dbs: ['fruit'],
      counts: [0],
      created: [expect.stringMatching(/^[3-9]\.0$/)],
    })
  })

  it('load reads items from stdin, and resumes with --state', async () => {
    const work = temporaryFolder()
    const settings = { SYSTEM_FOLDER: join(work, 'data') }
    mkdirSync(settings.SYSTEM_FOLDER)
    const input = join(work, 'input')
    const state = join(work, 'state')
    const load = (...flags: string[]) => {
      const via = ['/bin/sh', '-c', 'cat "$0" | "$@"', input]
      return startDaicho(['load', 'fruit', '-', ...flags], settings, { via }).ended
    }
    writeFileSync(input, gzipSync('[{"id":"plum"},{"id":"fig"}]'))
    const loaded = await load('--json')
    expect([loaded.code, loaded.stderr]).toEqual([0, ''])
    expect(JSON.parse(loaded.stdout)).toMatchObject({ status: true, records: 2, created: 2 })

    writeFileSync(input, `${lines(1_500)}{"id":"plum"}\n`)
    const failed = await load('--state', state)
    expect([failed.code, failed.stderr]).toEqual([
      1,
      expect.stringMatching(
        /line 1501: item plum of fruit exists .*; --resume continues the load$/m,
      ),
    ])
    const resumed = await load('--state', state, '--resume', '--on-conflict', 'skip', '--json')
    expect([resumed.code, JSON.parse(resumed.stdout)]).toMatchObject([
      0,
      { records: 1_501, created: 1_500, skipped: 1 },
    ])
    expect(existsSync(state)).toBe(false)
  })

  it('load exits with code 1 if no record of an input can be loaded, and with 0 if it has no records', async () => {
    const work = temporaryFolder()
    const settings = { SYSTEM_FOLDER: join(work, 'data') }
    mkdirSync(settings.SYSTEM_FOLDER)
    const cases: [string, string, string[], number, RegExp][] = [
      ['manifest.ion', '{exportId:"E"}', ['--format', 'qldb'], 1, /no record that could be loaded/],
      ['unnamed.csv', ',n\n0,1\n', [], 1, /column 1 has no name/],
      ['header.csv', 'id:string\r\n', [], 0, /^$/],
      ['raw.json', '[{"_id":{"$oid":"5d505646cf6d4fe581014ab2"}}]', [], 2, /--format mongodb/],
    ]
    for (const [name, text, flags, code, message] of cases) {
      const file = join(work, name)
      writeFileSync(file, text)
      const ended = await runDaicho(['load', 'fruit', file, ...flags, '--json'], settings)
      expect([name, ended.code]).toEqual([name, code])
      expect(ended.stderr).toMatch(message)
      if (code < 2)
        expect(JSON.parse(ended.stdout)).toMatchObject({ status: code === 0, created: 0 })
    }
  })

  it('load uses the column types of --schema, and rejects a schema that is missing or wrong', async () => {
    const work = temporaryFolder()
    const settings = { SYSTEM_FOLDER: join(work, 'data') }
    mkdirSync(settings.SYSTEM_FOLDER)
    const file = join(work, 'fruit.csv')
    const schema = join(work, 'schema.json')
    writeFileSync(file, 'id,price\nplum,80\n')
    const load = () => runDaicho(['load', 'fruit', file, '--schema', schema], settings)
    const wrong: [string | null, RegExp][] = [
      [null, /schema\.json cannot be read: /],
      ['price: number', /the schema must be a JSON object like /],
      ['null', /the schema must be a JSON object like /],
      ['["number"]', /the schema must be a JSON object like /],
      ['{"price":"money"}', /the schema has the unknown type "money" for column price/],
    ]
    for (const [text, message] of wrong) {
      if (text !== null) writeFileSync(schema, text)
      const { code, stdout, stderr } = await load()
      expect([text, code, stdout]).toEqual([text, 2, ''])
      expect(stderr).toMatch(message)
    }
    expect(existsSync(`${file}.load`)).toBe(false)
    writeFileSync(schema, '{"weight":"number"}')
    const unknown = await load()
    expect([unknown.code, unknown.stderr]).toEqual([
      1,
      expect.stringContaining('the schema has a column weight, which the header does not have'),
    ])
    writeFileSync(schema, '{"price":"number"}')
    expect(await load()).toMatchObject({ code: 0 })
    const dumped = await runDaicho(['dump', 'fruit'], settings)
    expect(dumped.stdout).toBe('{"id":"plum","price":80}\n')
  })
})

describe('load and dump with a running node', () => {
  const records = (text: string) =>
    readRecords(
      (async function* () {
        yield Buffer.from(text)
      })(),
      { format: null },
    )
  const options = {
    ...{ chooseDatabase: () => 'fruit', idMember: null, loadId: 'load' },
    ...{ newId: () => 'new', write: async () => {}, finished() {} },
  }

  it('a load by URL stores and replaces items; a dump returns the items at one height, and fails if they change during the dump', async () => {
    const node = await startLedgerNode()
    const target = nodeTarget({ url: node.url })
    const once = { ...options, onConflict: 'fail' as const }
    expect(await loadRecords(records(lines(2_300)), target, once)).toMatchObject({ created: 2_300 })
    const size = await node.service.read.chainSize()
    expect(size).toEqual({ blocks: 4, entries: 2_301 })
    // A repeated load sends the same idempotency keys, so the node records nothing twice.
    await loadRecords(records(lines(2_300)), target, once)
    expect(await node.service.read.chainSize()).toEqual(size)
    const replaced = { ...options, onConflict: 'replace' as const, loadId: 'other' }
    const counts = await loadRecords(
      records('{"id":"i7","n":-1}\n{"id":"a b%/".length}'),
      target,
      replaced,
    )
    expect(counts).toMatchObject({ created: 0, replaced: 1, refused: 1 })

    const items = await NodeItems.open({ url: node.url }, 'fruit')
    const texts: string[] = []
    for await (const page of items.read()) texts.push(...page)
    await items.check()
    expect(items.height).toBe(4)
    expect(texts.sort()).toEqual(
      lines(2_300).replace('"i7","n":7', '"i7","n":-1').trimEnd().split('\n').sort(),
    )
    await node.send('POST', '/api/other')
    await items.check()
    await node.send('DELETE', '/api/fruit/i5')
    await expect(items.check()).rejects.toThrow('fruit changed during the dump')
  })

  it('load stores batches of text with three bytes per character, and the largest and the deepest items', async () => {
    const node = await startLedgerNode()
    const target = nodeTarget({ url: node.url })
    const japanese = '\u65e5\u672c\u8a9e'.repeat(1_400)
    const many = Array.from({ length: 1_200 }, (_, n) => `{"n":${n},"t":"${japanese}"}\n`).join('')
    const deepest = `{"id":"deep","a":${'['.repeat(63)}${']'.repeat(63)}}\n`
    const largest = `{"id":"large","t":"${'x'.repeat(10 * 1024 * 1024 - 21)}"}\n`
    const tooDeep = `{"id":"no","a":${'['.repeat(64)}${']'.repeat(64)}}\n`
    const text = many + deepest + tooDeep + largest
    let made = 0
    const newId = () => `new${made++}`
    const once = { ...options, newId, onConflict: 'fail' as const }
    const counts = await loadRecords(records(text), target, once)
    expect(counts).toMatchObject({ created: 1_202, refused: 1 })
    expect(Buffer.byteLength((await node.service.read.item('fruit', 'large'))?.text ?? '')).toBe(
      10 * 1024 * 1024,
    )
  })

  it('a dump by URL reads smaller pages if a reply is too long or has too many members', async () => {
    const limits: number[] = []
    // Replies without an end to pages of more than 100 items, and with too many elements to more than 50.
    const server = createServer((request, reply) => {
      const { searchParams, pathname } = new URL(request.url ?? '/', 'http://node')
      if (pathname.endsWith('/changes')) {
        return void reply.setHeader('content-type', 'text/event-stream').end('id: 2.0\n\n')
      }
      if (pathname !== '/api/fruit')
        return void reply.end('{"status":true,"serverid":1,"ledgers":[]}')
      const limit = Number(searchParams.get('limit'))
      limits.push(limit)
      const isLast = searchParams.get('cursor') === '1.0'
      const cursor = isLast ? 'null' : '"1.0"'
      if (limit > 50 && limit <= 100) return void reply.end(`[${'0,'.repeat(8_000_001)}0]`)
      if (limit <= 50) {
        const items = Array.from({ length: isLast ? 1 : limit }, () => `i${limits.length}`)
        const docs = items.map((id) => ({ id }))
        const page = JSON.stringify({ status: true, items, docs }).slice(0, -1)
        return void reply.end(`${page},"cursor":${cursor}}`)
      }
      const more = () => {
        while (!reply.destroyed && reply.write(Buffer.alloc(4_194_304)));
      }
      reply.on('drain', more)
      more()
    })
    onTestFinished(() => void server.close())
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
    const address = server.address()
    const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`
    const items = await NodeItems.open({ url }, 'fruit')
    const texts: string[] = []
    for await (const page of items.read()) texts.push(...page)
    expect([texts, limits]).toEqual([
      [...Array.from({ length: 8 }, () => '{"id":"i3"}'), '{"id":"i4"}'],
      [500, 63, 8, 8],
    ])
  })

  it('a load by URL stores attachments whose names must be escaped in a path', async () => {
    const node = await startLedgerNode()
    const target = nodeTarget({ url: node.url })
    const attachment = { name: 'a b.txt', contentType: 'text/plain', bytes: Buffer.from('hello') }
    const item = { kind: 'item' as const, line: 1, item: { id: 'plüm' }, attachments: [attachment] }
    const pages = (async function* () {
      yield [item]
    })()
    const counts = await loadRecords(pages, target, { ...options, onConflict: 'fail' })
    expect(counts).toMatchObject({ created: 1, attachments: 1 })
    const reply = await node.send('GET', '/api/fruit/pl%C3%BCm/attachments/a%20b.txt')
    expect([reply.text, reply.headers.get('content-type')]).toEqual(['hello', 'text/plain'])
    await expect(nodeTarget({ url: 'nonsense' }).createDatabase('x', 'k')).rejects.toThrow(
      'is not the URL of a server',
    )
  })

  it('a load by URL repeats a request with the same idempotency key and growing pauses until the node accepts it, at most 8 times', async () => {
    const busy = '{"status":false,"code":"BUSY","message":"try again"}'
    let replies: [status: number, body: string][] = []
    const keys: (string | undefined)[] = []
    const server = createServer((request, reply) => {
      keys.push(request.headersDistinct['idempotency-key']?.join())
      const [status, body] = replies.shift() ?? [503, busy]
      request.resume().once('end', () => reply.writeHead(status).end(body))
    })
    onTestFinished(() => void server.close())
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
    const address = server.address()
    const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`
    const pauses: number[] = []
    const target = nodeTarget({ url }, async (delayMs) => pauses.push(delayMs))
    replies = [
      [503, busy],
      [502, '<h1>Bad Gateway</h1>'],
      [200, '{"status":true}'],
    ]
    const fig = { id: 'fig', text: '{"id":"fig"}', assigned: false }
    await target.record([{ kind: 'create_item', db: 'fruit', ...fig }], 'k')
    expect([pauses, keys]).toEqual([[250, 500], Array.from({ length: 3 }, () => '"k"')])

    pauses.length = 0
    await expect(target.createDatabase('fruit', 'k')).rejects.toMatchObject({
      code: 'BUSY',
      message: 'the node rejected the request: try again',
    })
    expect(pauses).toEqual([250, 500, 1_000, 2_000, 4_000, 8_000, 16_000])
    replies = [[500, '<h1>Error</h1>']]
    await expect(target.read('fruit', 'plum')).rejects.toThrow('is not a node of daicho')
  })

  it('load says that a batch may be loaded if its reply is lost, and keeps the state for --resume', async () => {
    const node = await startLedgerNode()
    await node.send('POST', '/api/fruit')
    let isLost = true
    // A proxy that delivers the request, and replies with a page of its own.
    const server = createServer(async (request, reply) => {
      const parts: Buffer[] = []
      for await (const part of request) parts.push(part)
      const { method = 'GET', url = '/' } = request
      const body = Buffer.concat(parts)
      const key = String(request.headers['idempotency-key'])
      const answer = await node.send(method, url, body.length === 0 ? undefined : `${body}`, {
        ...(method === 'GET' ? {} : { 'idempotency-key': key }),
        ...(body.length === 0 ? {} : { 'content-type': 'application/json' }),
      })
      if (isLost && method === 'POST') reply.writeHead(500).end('<h1>Error</h1>')
      else reply.writeHead(answer.status).end(answer.text)
    })
    onTestFinished(() => void server.close())
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
    const address = server.address()
    const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`
    const file = join(temporaryFolder(), 'f.ndjson')
    writeFileSync(file, '{"n":1}\n{"n":2}\n')
    const lost = await runDaicho(['load', 'fruit', file, '--url', url])
    expect(lost.code).toBe(1)
    expect(lost.stdout).toMatch(
      /^Nothing is known to be loaded\.\nUNKNOWN {4}2 changes may be in the ledger or not\n/,
    )
    expect(lost.stderr).toMatch(/it is not known whether .* was loaded: .* --resume continues/)
    isLost = false
    const resumed = await runDaicho(['load', 'fruit', file, '--url', url, '--resume', '--json'])
    expect(JSON.parse(resumed.stdout)).toMatchObject({ status: true, created: 2, unknown: 0 })
    const { json } = await node.send('GET', '/api/fruit?docs=true')
    expect(json.docs).toMatchObject([{ n: 1 }, { n: 2 }])
  })

  it('load and dump work with a token that has the required scopes, and a load with another token is refused', async () => {
    const clock = new HandClock()
    const tokens = await openTokens({ clock, folder: null, secret: null })
    const { url } = await startLedgerNode({ tokens, clock })
    const tokenFor = async (...scopes: string[]) =>
      (await issueApiToken(tokens, { subject: 'loader', scopes, lifeSeconds: 600 })).token
    const work = temporaryFolder()
    const file = join(work, 'f.csv')
    const out = join(work, 'out')
    const token = join(work, 'token')
    writeFileSync(file, 'id,price:number\nplum,80\n')
    writeFileSync(token, await tokenFor('db:fruit:admin', 'ledger:read'))
    const reader = await tokenFor('db:fruit:read')
    const load = (given: string) =>
      runDaicho(['load', 'fruit', file, '--url', url, '--token', given])
    const refused = await load(reader)
    expect([refused.code, refused.stdout]).toEqual([
      1,
      expect.stringContaining('Nothing was loaded.'),
    ])
    expect(refused.stderr).toContain('the token lacks the scope')
    const loaded = await load(token)
    expect([loaded.code, loaded.stdout]).toEqual([
      0,
      expect.stringContaining('Loaded: 1 new item into fruit.'),
    ])
    const dump = ['dump', 'fruit', '--url', url, '--token', token, '--format', 'json', '--out', out]
    expect(await runDaicho(dump)).toMatchObject({ code: 0 })
    expect(readFileSync(out, 'utf8')).toBe('[\n{"id":"plum","price":80}\n]\n')
  })
})
