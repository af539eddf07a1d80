// Folders and files that are not what a command needs: one line that says why, and the exit code of the manual.
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { runDaicho } from './support/daicho.ts'
import { livedIn, temporaryFolder } from './support/ledger-node.ts'
import { MAIN } from './support/program.ts'

const NOBODY = 65_534
/** Programs of another user keep what they compiled where that user may write, and start in half the time. */
let compiled: string
beforeAll(() => {
  compiled = mkdtempSync(join(tmpdir(), 'daicho-compiled-'))
  chmodSync(compiled, 0o777)
})
afterAll(() => rmSync(compiled, { recursive: true, force: true }))

/** Runs `daicho <args>` as a user who owns nothing; null where that cannot be done. */
function runAsOther(args: readonly string[], folder: string | null) {
  const isRoot = process.getuid?.() === 0
  const other = isRoot ? { uid: NOBODY, gid: NOBODY } : {}
  const env = {
    ...process.env,
    NODE_COMPILE_CACHE: compiled,
    ...(folder === null ? {} : { SYSTEM_FOLDER: folder }),
  }
  return spawnSync(process.execPath, [MAIN, ...args], {
    ...other,
    env,
    encoding: 'utf8',
  })
}

it('a folder or a file of another owner: one line that says so, and 78', async (test) => {
  if (runAsOther(['--version'], null).status !== 0) {
    return test.skip('another user cannot run the program where it lies')
  }
  const folder = await livedIn()
  const out = temporaryFolder()
  chmodSync(out, 0o777)
  const refused = (args: readonly string[], path: string) => {
    const { status, stdout, stderr } = runAsOther(args, folder)
    expect([args, status, stdout]).toEqual([args, 78, ''])
    expect(stderr).toMatch(/^daicho: [^\n]*EACCES[^\n]*\n$/)
    expect(stderr).toContain(path)
  }
  chmodSync(folder, 0o000)
  const store = join(folder, 'ledger.db')
  for (const [args, path] of [
    [['verify', folder], store],
    [['backup', folder, out], store],
    [['export', folder, '--out', join(out, 'chain')], store],
    [['serve', '--only', 'ledger', '--port', '0'], folder],
    [['index', 'list'], store],
    [['index', 'add', 'fruit', 'ripe'], folder],
    [['network', 'list'], folder],
    [['user', 'list'], join(folder, 'users.json')],
    [['token', 'mint', '--scope', 'ledger:read'], folder],
    [['restore', '--from', 'http://127.0.0.1:1', '--serverid', '1'], join(folder, 'node.key')],
  ] as const) {
    refused(args, path)
  }
  chmodSync(folder, 0o777)
  chmodSync(store, 0o000)
  refused(['verify', folder], store)
  chmodSync(store, 0o666)
  // One that cannot be read is not taken for one that is missing, nor for one that is none.
  chmodSync(join(folder, 'node.key'), 0o000)
  refused(['serve', '--only', 'ledger', '--port', '0'], join(folder, 'node.key'))
  expect(readdirSync(out)).toEqual([])
})

it('a folder that the system never lets be made ends the command, with 78', async (test) => {
  if (!existsSync('/proc/self')) return test.skip('there is no /proc here')
  const folder = await livedIn()
  for (const [args, env] of [
    [['serve', '--only', 'ledger', '--port', '0'], { SYSTEM_FOLDER: '/proc/nothing/in/it' }],
    [['serve', '--only', 'samples', '--sample-port', '0'], { SYSTEM_FOLDER: '/proc/nothing' }],
    [['backup', folder, '/proc/nothing'], {}],
  ] as const) {
    const { code, stdout, stderr } = await runDaicho(args, env)
    expect([args, code, stdout]).toEqual([args, 78, ''])
    expect(stderr).toMatch(/^daicho: [^\n]*cannot be made: ENOENT[^\n]*\n$/)
  }
})

it('a folder that is a file, and one in a file, are named with the reason', async () => {
  const folder = temporaryFolder()
  const file = join(folder, 'file')
  writeFileSync(file, '')
  const lived = await livedIn()
  for (const [args, env, code, line] of [
    [['user', 'list'], { SYSTEM_FOLDER: file }, 78, /SYSTEM_FOLDER: there is no folder/],
    [['index', 'list'], { SYSTEM_FOLDER: file }, 78, /SYSTEM_FOLDER: there is no folder/],
    [['serve', '--only', 'ledger'], { SYSTEM_FOLDER: file }, 78, /cannot be made: EEXIST/],
    [['backup', lived, join(file, 'in')], {}, 78, /cannot be made: ENOTDIR/],
    [['verify', join(file, 'in')], {}, 2, /there is no folder/],
  ] as const) {
    const ended = await runDaicho(args, env)
    expect([args, ended.code, ended.stdout]).toEqual([args, code, ''])
    expect(ended.stderr).toMatch(line)
    expect(ended.stderr).toMatch(/^daicho: [^\n]*\n$/)
  }
})

it('verify takes no flag that it would not look at, and no address that is none', async () => {
  const folder = await livedIn()
  for (const [args, line] of [
    [[folder, '--key', 'x'], '--key is of no use for a folder or an export'],
    [[folder, '--state', 'x'], '--state is of no use for a folder or an export'],
    [['-', '--token', 'x'], '--token is of no use for a folder or an export'],
    [['http://'], 'http:// is not the address of a ledger'],
  ] as const) {
    const ended = await runDaicho(['verify', ...args])
    expect([ended.code, ended.stdout, ended.stderr]).toEqual([2, '', `daicho: ${line}\n`])
  }
})
