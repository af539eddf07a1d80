// Commands with an unusable folder or file print one line with the reason, and exit with the documented code.
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { runDaicho } from './support/daicho.ts'
import { temporaryFolder, usedNodeFolder } from './support/ledger-node.ts'
import { MAIN } from './support/program.ts'

const NOBODY = 65_534
/**
 * Folder of Node's compile cache, writable for every user. The cache halves the start time of the commands that
 * run as another user.
 */
let compiled: string
beforeAll(() => {
  compiled = mkdtempSync(join(tmpdir(), 'daicho-compiled-'))
  chmodSync(compiled, 0o777)
})
afterAll(() => rmSync(compiled, { recursive: true, force: true }))

/** Runs `daicho <args>` as NOBODY, who owns no files, if this process is root; otherwise as the current user. */
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

it('exits with code 78 and a one-line message for a folder or file that another user owns', async (test) => {
  if (runAsOther(['--version'], null).status !== 0) {
    return test.skip('another user cannot run the program in this folder')
  }
  const folder = await usedNodeFolder()
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
  // An unreadable key is reported as unreadable (EACCES), not as missing or invalid.
  chmodSync(join(folder, 'node.key'), 0o000)
  refused(['serve', '--only', 'ledger', '--port', '0'], join(folder, 'node.key'))
  expect(readdirSync(out)).toEqual([])
})

it('exits with code 78 for a folder that cannot be created', async (test) => {
  if (!existsSync('/proc/self')) return test.skip('no /proc on this platform')
  const folder = await usedNodeFolder()
  for (const [args, env] of [
    [['serve', '--only', 'ledger', '--port', '0'], { SYSTEM_FOLDER: '/proc/nothing/in/it' }],
    [['serve', '--only', 'samples', '--sample-port', '0'], { SYSTEM_FOLDER: '/proc/nothing' }],
    [['backup', folder, '/proc/nothing'], {}],
  ] as const) {
    const { code, stdout, stderr } = await runDaicho(args, env)
    expect([args, code, stdout]).toEqual([args, 78, ''])
    expect(stderr).toMatch(/^daicho: [^\n]*cannot create the folder [^\n]*ENOENT[^\n]*\n$/)
  }
})

it('prints one line with the reason if the data folder is a file or inside a file', async () => {
  const folder = temporaryFolder()
  const file = join(folder, 'file')
  writeFileSync(file, '')
  const usedFolder = await usedNodeFolder()
  for (const [args, env, code, line] of [
    [['user', 'list'], { SYSTEM_FOLDER: file }, 78, /SYSTEM_FOLDER: there is no folder/],
    [['index', 'list'], { SYSTEM_FOLDER: file }, 78, /SYSTEM_FOLDER: there is no folder/],
    [
      ['serve', '--only', 'ledger', '--port', '0'],
      { SYSTEM_FOLDER: file },
      78,
      /cannot create the folder .*: EEXIST/,
    ],
    [['backup', usedFolder, join(file, 'in')], {}, 78, /cannot create the folder .*: ENOTDIR/],
    [['verify', join(file, 'in')], {}, 2, /there is no folder/],
  ] as const) {
    const ended = await runDaicho(args, env)
    expect([args, ended.code, ended.stdout]).toEqual([args, code, ''])
    expect(ended.stderr).toMatch(line)
    expect(ended.stderr).toMatch(/^daicho: [^\n]*\n$/)
  }
})
