// `daicho backup`, `export`, `import`, and `verify` with an export: output and exit codes.
import { spawnSync } from 'node:child_process'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as delay } from 'node:timers/promises'
import { gunzipSync } from 'node:zlib'
import { expect, it } from 'vitest'
import { BLOB_FOLDERS, DATA_FILES } from '../src/cli/node/node-folder.ts'
import { type Ended, runDaicho, serveLedger, startDaicho } from './support/daicho.ts'
import {
  startLedgerNode,
  temporaryFolder,
  usedNodeFolder,
  verifyFolder,
} from './support/ledger-node.ts'
import { MAIN } from './support/program.ts'
import { tamper } from './support/tampered.ts'

async function post(url: string, body?: unknown): Promise<number> {
  const reply = await fetch(url, {
    method: 'POST',
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    headers: body === undefined ? {} : { 'content-type': 'application/json' },
  })
  await reply.arrayBuffer()
  return reply.status
}

/** Expects that the command printed one line to stderr, nothing to stdout, and exited with `expected`. */
function expectRefusal({ code, stdout, stderr }: Ended, expected: number, line: RegExp): void {
  expect([stdout, stderr.trimEnd().split('\n').length]).toEqual(['', 1])
  expect(stderr).toMatch(line)
  expect(code).toBe(expected)
}

it('--help lists the options and exit codes of each command; unknown arguments exit with code 2', async () => {
  const helps = await Promise.all(
    ['backup', 'export', 'import', 'verify'].map((name) => runDaicho([name, '--help'])),
  )
  for (const { code, stdout, stderr } of helps) {
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toContain('--json')
    expect(stdout).toContain('Exit code')
  }
  const mistakes = [
    ['backup'],
    ['backup', 'one'],
    ['backup', 'one', 'two', 'three'],
    ['backup', 'one', 'two', '--keep', '0'],
    ['backup', 'one', 'two', '--keep', '1.5'],
    ['export', 'one'],
    ['export', '--out', 'one'],
    ['import'],
    ['import', 'one', '--nonsense'],
  ]
  const ended = await Promise.all(mistakes.map((args) => runDaicho(args)))
  for (const [at, { code, stdout, stderr }] of ended.entries()) {
    expect([mistakes[at], code, stdout]).toEqual([mistakes[at], 2, ''])
    expect(stderr).toMatch(/help/)
  }
})

it('exits with the documented code and a one-line message if the source is missing or the destination is unusable', async () => {
  const folder = temporaryFolder()
  const empty = join(folder, 'empty')
  mkdirSync(empty)
  writeFileSync(join(folder, 'text'), 'hello\n')
  const out = join(folder, 'out')
  const usedFolder = await usedNodeFolder()
  const refusals: [string[], number, RegExp, Record<string, string>?][] = [
    [['backup', join(folder, 'nowhere'), out], 2, /there is no folder/],
    [['backup', empty, out], 2, /there is no store at/],
    [['backup', usedFolder, join(usedFolder, 'backups')], 2, /is inside the folder to back up/],
    [['backup', usedFolder, join(folder, 'text')], 78, /cannot create the folder/],
    [['backup', usedFolder, 's3://SECRET@bucket/a'], 78, /^(?!.*SECRET).* starts with s3:\/;/],
    [['copy', usedFolder, 'PG://u:SECRET@h/db'], 78, /^(?!.*SECRET).* starts with PG:\/;/],
    [['export', 'PG://u:SECRET@h/db', '--out', out], 2, /^(?!.*SECRET).*there is no folder with/],
    [['verify', 'PG://u:SECRET@h/db'], 2, /^(?!.*SECRET).*there is no folder or file with/],
    [['export', empty, '--out', out], 2, /there is no store at/],
    [['export', usedFolder, '--out', folder], 2, /is a folder: give the name of a file/],
    [['export', usedFolder, '--out', '-', '--json'], 2, /both write to stdout/],
    [['export', usedFolder, '--out', join(folder, 'no', 'such')], 1, /ENOENT/],
    [['import', out], 78, /set the folder of the node with --folder or SYSTEM_FOLDER/],
    [['import', out], 78, /there is no folder/, { SYSTEM_FOLDER: join(folder, 'nowhere') }],
    [['import', out], 2, /there is no file/, { SYSTEM_FOLDER: empty }],
    [['import', join(folder, 'text')], 2, /there is no export in/, { SYSTEM_FOLDER: empty }],
    [['verify', join(folder, 'text')], 2, /there is no export in/],
  ]
  const ended = await Promise.all(
    refusals.map(([args, , , variables]) => runDaicho(args, variables)),
  )
  for (const [at, one] of ended.entries()) {
    const [, code, line] = refusals[at] ?? []
    expectRefusal(one, code ?? 0, line ?? /never/)
  }
  expect(readdirSync(folder).sort()).toEqual(['empty', 'text'])
})

it('`daicho serve` continues the chain of a backup; --without-keys omits the keys', async () => {
  const folder = await usedNodeFolder()
  const to = join(temporaryFolder(), 'backups')
  const json = await runDaicho(['backup', folder, to, '--json'])
  expect([json.code, json.stdout.trimEnd().split('\n').length]).toEqual([0, 1])
  const made = JSON.parse(json.stdout)
  expect(made).toMatchObject({
    status: true,
    blocks: 3,
    attachments: 0,
    keys: true,
    verified: true,
    removed: [],
    finding: null,
  })
  expect(json.stderr).toMatch(/^backing up +\d+ %/m)
  const server = await serveLedger(made.path)
  expect(await post(`${server.url}/api/fruit`, { id: 'new' })).toBe(200)
  server.child.kill('SIGTERM')
  await server.ended
  expect(await verifyFolder(made.path)).toMatchObject({ finding: null, blocks: 4 })

  const { path } = JSON.parse((await runDaicho(['backup', folder, to, '--json'])).stdout)
  const bare = await runDaicho(['backup', folder, to, '--without-keys', '--keep', '1'])
  expect(bare.code).toBe(0)
  expect(bare.stdout).toMatch(/^Backed up: 3 blocks, everything is valid\.\nfolder .*\nserver id /)
  expect(bare.stdout).toMatch(/keys +left out/)
  expect(bare.stdout).toContain(`removed    ${path.slice(to.length + 1)}\n`)
  // The first backup has a block that the others lack.
  const names = readdirSync(to).filter((name) => name !== '.lock')
  const [first = '', left = '', ...more] = names.sort()
  expect([join(to, first), more]).toEqual([made.path, []])
  expect(readdirSync(join(to, left))).toEqual(['ledger.db'])
})

it('backup and export of an invalid store create no file, exit with code 1, and print the location', async () => {
  const folder = await usedNodeFolder()
  tamper(folder, `UPDATE blocks SET body = replace(body, 'plum', 'plus') WHERE height = 1`)
  const to = temporaryFolder()
  const [backup, json, exported] = await Promise.all([
    runDaicho(['backup', folder, join(to, 'one')]),
    runDaicho(['backup', folder, join(to, 'two'), '--json']),
    runDaicho(['export', folder, '--out', join(to, 'export')]),
  ])
  expect([backup.code, json.code, exported.code]).toEqual([1, 1, 1])
  expect(backup.stdout).toMatch(/^NO BACKUP: the store is damaged at height 1, entry 1: /)
  expect(JSON.parse(json.stdout)).toMatchObject({
    status: false,
    path: null,
    verified: false,
    finding: { height: 1, index: 1 },
  })
  expect(exported.stderr).toMatch(/^daicho: the chain does not verify at height 1, entry 1: /)
  expect(readdirSync(to).sort()).toEqual(['one', 'two'])
})

it('exports to a file, a compressed file or a pipe; each export verifies and imports', async () => {
  const folder = await usedNodeFolder()
  const to = temporaryFolder()
  const [plain, packed] = [join(to, 'chain.ndjson'), join(to, 'chain.ndjson.gz')]
  const [file, gz, pipe] = await Promise.all([
    runDaicho(['export', folder, '--out', plain, '--json']),
    runDaicho(['export', folder, '--out', packed]),
    runDaicho(['export', folder, '--out', '-']),
  ])
  expect([file.code, gz.code, pipe.code]).toEqual([0, 0, 0])
  const { headId } = JSON.parse(file.stdout)
  expect(JSON.parse(file.stdout)).toEqual({
    status: true,
    out: plain,
    blocks: 3,
    entries: 5,
    headId: expect.stringMatching(/^[0-9a-f]{128}$/),
  })
  expect(gz.stdout).toMatch(/^Exported: 3 blocks, 5 entries\.\nhead /)
  expect(pipe.stdout).toBe(readFileSync(plain, 'utf8'))
  expect(gunzipSync(readFileSync(packed)).toString()).toBe(pipe.stdout)
  expect(statSync(plain).mode & 0o777).toBe(0o600)
  expect(readdirSync(to).sort()).toEqual(['chain.ndjson', 'chain.ndjson.gz'])

  const verified = await runDaicho(['verify', packed, '--json'])
  expect([verified.code, JSON.parse(verified.stdout)]).toMatchObject([
    0,
    { status: true, blocks: 3, entries: 5, databases: 1, items: 3, headId, finding: null },
  ])
  const target = temporaryFolder()
  const variables = { SYSTEM_FOLDER: target }
  expectRefusal(
    await runDaicho(['import', plain], variables),
    78,
    /contains no key: copy the node\.key/,
  )
  copyFileSync(join(folder, 'node.key'), join(target, 'node.key'))
  const imported = await runDaicho(['import', packed, '--json'], variables)
  expect(JSON.parse(imported.stdout)).toMatchObject({ status: true, blocks: 3, entries: 5, headId })
  expect(imported.stderr).toMatch(/^importing 100 %/m)
  expect(await verifyFolder(target)).toMatchObject({ finding: null, headId, items: 3 })
  // Imported again, the same export verifies the store.
  expect((await runDaicho(['import', plain], variables)).code).toBe(0)
})

it('verify and import report a damaged line of an export with line, height and entry, and exit with code 1', async () => {
  const folder = await usedNodeFolder()
  const out = join(temporaryFolder(), 'chain.ndjson')
  await runDaicho(['export', folder, '--out', out])
  writeFileSync(out, readFileSync(out, 'utf8').replace('"plum"', '"plus"'))
  const target = temporaryFolder()
  copyFileSync(join(folder, 'node.key'), join(target, 'node.key'))
  const [text, json, imported] = await Promise.all([
    runDaicho(['verify', out]),
    runDaicho(['verify', out, '--json']),
    runDaicho(['import', out], { SYSTEM_FOLDER: target }),
  ])
  expect([text.code, json.code, imported.code]).toEqual([1, 1, 1])
  const what = 'the entry, its timestamp, blind and commitment do not match'
  expect(text.stdout).toContain(`DIFFERENCE at line 3, height 1, entry 1: ${what}`)
  expect(JSON.parse(json.stdout)).toMatchObject({
    status: false,
    blocks: 1,
    finding: { line: 3, height: 1, index: 1, what },
  })
  expect(imported.stderr).toContain(`line 3, height 1, entry 1: ${what}`)
  expect(readdirSync(target).sort()).toEqual(['ledger.lock', 'node.key'])
})

it('a node continues to write during a backup and an export, and both contain a prefix of its chain', async () => {
  const folder = temporaryFolder()
  const server = await serveLedger(folder)
  await post(`${server.url}/api/fruit`)
  const many = Array.from({ length: 5_000 }, (_, n) => ({ n }))
  await post(`${server.url}/api/fruit`, many)
  let isWriting = true
  let written = 0
  const writers = Array.from({ length: 8 }, async () => {
    while (isWriting) {
      expect(await post(`${server.url}/api/fruit`, { while: written })).toBe(200)
      written += 1
    }
  })
  const to = temporaryFolder()
  const [backup, exported] = await Promise.all([
    runDaicho(['backup', folder, join(to, 'backups'), '--json']),
    runDaicho(['export', folder, '--out', join(to, 'chain.gz'), '--json']),
  ])
  isWriting = false
  await Promise.all(writers)
  server.child.kill('SIGKILL')
  await server.ended
  expect([backup.code, exported.code]).toEqual([0, 0])
  const { blocks, headId, path } = JSON.parse(backup.stdout)
  expect(await verifyFolder(path)).toMatchObject({ finding: null, blocks, headId })
  const database = new DatabaseSync(join(folder, 'ledger.db'))
  const idAt = database.prepare('SELECT id FROM blocks WHERE height = ?')
  expect(idAt.get(blocks - 1)).toEqual({ id: headId })
  const other = JSON.parse(exported.stdout)
  expect(idAt.get(other.blocks - 1)).toEqual({ id: other.headId })
  database.close()
  expect(await verifyFolder(folder)).toMatchObject({ finding: null, entries: 5_001 + written })
})

it('a killed backup, export or import leaves no incomplete result, and can be started again', async () => {
  const folder = temporaryFolder()
  const node = await startLedgerNode({ folder })
  await node.send('POST', '/api/fruit')
  const text = 'x'.repeat(200)
  for (let block = 0; block < 8; block += 1) {
    const many = Array.from({ length: 5_000 }, (_, n) => ({ n, text }))
    expect((await node.send('POST', '/api/fruit', many)).status).toBe(200)
  }
  await node.close()
  const to = temporaryFolder()
  const out = join(to, 'chain.ndjson')
  expect((await runDaicho(['export', folder, '--out', out])).code).toBe(0)
  const target = temporaryFolder()
  copyFileSync(join(folder, 'node.key'), join(target, 'node.key'))
  const again = join(to, 'again.ndjson')
  const runs: [string[], Record<string, string>][] = [
    [['backup', folder, join(to, 'backups')], {}],
    [['export', folder, '--out', again], {}],
    [['import', out], { SYSTEM_FOLDER: target }],
  ]
  // The delays reach different phases on different computers, but the assertions hold for all phases.
  for (const waitMs of [300, 700]) {
    await Promise.all(
      runs.map(async ([args, variables]) => {
        const run = startDaicho(args, variables)
        await Promise.race([delay(waitMs), run.ended])
        run.child.kill('SIGKILL')
        await run.ended
      }),
    )
    const backups = existsSync(join(to, 'backups')) ? readdirSync(join(to, 'backups')) : []
    for (const name of backups.filter((name) => /^\d/.test(name))) {
      expect((await verifyFolder(join(to, 'backups', name))).finding).toBeNull()
    }
    if (existsSync(again)) expect(readFileSync(again).equals(readFileSync(out))).toBe(true)
    if (existsSync(join(target, 'ledger.db'))) break
    expect(readdirSync(target)).not.toContain('ledger.db-wal')
  }
  for (const [args, variables] of runs) {
    const { code, stderr } = await runDaicho(args, variables)
    if (args[0] === 'import' && code === 78) expect(stderr).toMatch(/already contains a store/)
    else expect([args[0], code]).toEqual([args[0], 0])
  }
  expect(await verifyFolder(target)).toMatchObject({ finding: null, entries: 40_001 })
  // Ignores `signed-head`. It is missing if the import was killed after it had moved the store into place; then the
  // next start of a node writes it.
  const left = readdirSync(target).filter((name) => name !== 'signed-head')
  expect(left.sort()).toEqual(['ledger.db', 'ledger.lock', 'node.key'])
})

it('a backup copies every file of a node except store, lock and signed head', async () => {
  const folder = temporaryFolder()
  const serve = ['serve', '--json', '--port', '0', '--rates-port', '0', '--sample-port', '0']
  const all = startDaicho([...serve, '--converter-port', '0', '--gateway-port', '0'], {
    SYSTEM_FOLDER: folder,
    LOG_LEVEL: 'error',
    RATES_SOURCES: 'lastgood,snapshot',
  })
  await all.firstLine
  const added = spawnSync(process.execPath, [MAIN, 'user', 'add', 'someone'], {
    env: { SYSTEM_FOLDER: folder },
    input: 'a long enough password\n',
  })
  expect(added.status).toBe(0)
  all.child.kill('SIGTERM')
  await all.ended
  const taken = [...DATA_FILES, ...BLOB_FOLDERS].map(({ name }) => name)
  // Files that a backup does not copy: the store, because the engine copies it; the locks, because each process creates
  // its own; and the signed head, because with it a node would reject the backup as an older store.
  const known = [...taken, 'ledger.db', 'signed-head']
  const others = readdirSync(folder).filter((name) => !known.includes(name))
  expect(others.filter((name) => !name.endsWith('.lock'))).toEqual([])
})

it('export and import on a full disk exit with code 1 and a one-line message, and leave no incomplete file', async (test) => {
  const disk = temporaryFolder()
  const options = ['-t', 'tmpfs', '-o', 'size=400k', 'tmpfs', disk]
  if (spawnSync('mount', options).status !== 0) {
    return test.skip('no disk can be mounted here: needs root on Linux')
  }
  try {
    const folder = temporaryFolder()
    const node = await startLedgerNode({ folder })
    await node.send('POST', '/api/fruit')
    await node.send('POST', '/api/fruit', { text: 'x'.repeat(1_000_000) })
    await node.close()
    const full = await runDaicho(['export', folder, '--out', join(disk, 'chain')])
    expect([full.code, full.stderr]).toEqual([1, expect.stringMatching(/disk is full/)])
    expect(readdirSync(disk)).toEqual([])
    const out = join(temporaryFolder(), 'chain')
    await runDaicho(['export', folder, '--out', out])
    copyFileSync(join(folder, 'node.key'), join(disk, 'node.key'))
    const imported = await runDaicho(['import', out], { SYSTEM_FOLDER: disk })
    expect([imported.code, imported.stderr]).toEqual([1, expect.stringMatching(/disk is full/)])
    expect(readdirSync(disk).sort()).toEqual(['ledger.lock', 'node.key'])
  } finally {
    spawnSync('umount', [disk])
  }
})
