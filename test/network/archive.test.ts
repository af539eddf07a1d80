// Networks in directories and archives, and `daicho network`.
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { readArchive } from '../../src/network/definition/files.ts'
import {
  readDefinition,
  readNetwork,
  requireDefinition,
  writeArchive,
} from '../../src/network/index.ts'
import { runDaicho } from '../support/daicho.ts'
import { temporaryFolder } from '../support/ledger-node.ts'

const sample = (name: string) => fileURLToPath(new URL(`../networks/${name}`, import.meta.url))
const PACKAGE = '{"name":"n","version":"1.0.0"}'

function directory(files: Readonly<Record<string, string>>): string {
  const folder = temporaryFolder()
  for (const [path, text] of Object.entries({ 'package.json': PACKAGE, ...files })) {
    mkdirSync(join(folder, path, '..'), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
  return folder
}

const unreadable = (message: RegExp) =>
  expect.objectContaining({ code: 'NETWORK_UNREADABLE', message: expect.stringMatching(message) })

describe('archives', () => {
  it('archives contain the files of the network byte for byte', () => {
    const { files } = readNetwork(sample('trade'))
    const archive = writeArchive(files)
    expect(readArchive(archive)).toEqual(files)
    expect(writeArchive(readArchive(archive))).toEqual(archive)
    expect(readDefinition(archive).sha256).toBe(requireDefinition({ files, packed: null }).sha256)
  })

  it.each(['../evil.js', '/etc/passwd', 'models/../../x.cto', 'lib\\..\\..\\x.js', 'C:/x.cto'])(
    'archives are rejected if they contain the path %s',
    (path) => {
      const archive = writeArchive(
        new Map([
          ['package.json', Buffer.from(PACKAGE)],
          [path, Buffer.from('x')],
        ]),
      )
      expect(() => readArchive(archive)).toThrow(unreadable(/points outside of the archive/))
    },
  )

  it('archives are rejected if they contain a symbolic link or a decompression bomb, or are encrypted, damaged or truncated', () => {
    const files = new Map([
      ['package.json', Buffer.from(PACKAGE)],
      ['models/m.cto', Buffer.from('namespace a')],
    ])
    const changed = (change: (bytes: Buffer, central: number) => void) => {
      const archive = writeArchive(files)
      // The first entry of the archive's directory is models/m.cto.
      change(archive, archive.indexOf(Buffer.from([0x50, 0x4b, 1, 2])))
      return archive
    }
    const read = (archive: Buffer) => () => readArchive(archive)
    expect(read(changed((bytes, at) => bytes.writeUInt32LE(0o120777 * 65_536, at + 38)))).toThrow(
      unreadable(/symbolic link/),
    )
    expect(read(changed((bytes, at) => bytes.writeUInt16LE(1, at + 8)))).toThrow(
      unreadable(/encrypted/),
    )
    expect(read(changed((bytes, at) => bytes.writeUInt16LE(9, at + 10)))).toThrow(
      unreadable(/unsupported compression method/),
    )
    expect(read(changed((bytes, at) => bytes.writeUInt32LE(3, at + 24)))).toThrow(
      unreadable(/damaged/),
    )
    expect(read(changed((bytes, at) => bytes.writeUInt32LE(2 ** 31, at + 24)))).toThrow(
      unreadable(/is larger than 10485760 bytes/),
    )
    expect(read(changed((bytes, at) => bytes.writeUInt32LE(1, at + 16)))).toThrow(
      unreadable(/damaged/),
    )
    expect(read(changed((bytes, at) => bytes.writeUInt32LE(2 ** 31, at + 42)))).toThrow(
      unreadable(/the archive is incomplete/),
    )
    const whole = writeArchive(files)
    for (let length = 0; length < whole.length; length += 1) {
      expect(read(whole.subarray(0, length))).toThrow(unreadable(/./))
    }
  })

  it('archives are rejected if they contain more than 500 files or 10 MB', () => {
    const many = new Map([['package.json', Buffer.from(PACKAGE)]])
    for (let n = 0; n < 500; n += 1) many.set(`models/${n}.cto`, Buffer.from(`namespace n${n}`))
    expect(() => readArchive(writeArchive(many))).toThrow(unreadable(/500 files/))
    const large = new Map([['package.json', Buffer.from(PACKAGE)]])
    for (let n = 0; n < 3; n += 1) large.set(`models/${n}.cto`, Buffer.alloc(4 * 1024 * 1024))
    expect(() => readArchive(writeArchive(large))).toThrow(unreadable(/10485760 bytes/))
  })
})

describe('directories', () => {
  it('directories are read without files that do not belong to a network, and with only the packages that the network depends on', () => {
    const folder = directory({
      'package.json': '{"name":"n","version":"1.0.0","dependencies":{"@org/shared":"1"}}',
      'models/deep/a.cto': 'namespace a',
      'lib/deep/a.js': '',
      'lib/notes.txt': 'no',
      'test/a.js': 'no',
      'other.cto': 'no',
      'node_modules/@org/shared/models/s.cto': 'namespace s',
      'node_modules/unrelated/x.cto': 'no',
    })
    expect([...readNetwork(folder).files.keys()]).toEqual([
      'lib/deep/a.js',
      'models/deep/a.cto',
      'node_modules/@org/shared/models/s.cto',
      'package.json',
    ])
  })

  it('directories are rejected if they contain symbolic links or no network', () => {
    const folder = directory({ 'models/a.cto': 'namespace a' })
    symlinkSync('/etc/passwd', join(folder, 'models/b.cto'))
    expect(() => readNetwork(folder)).toThrow(unreadable(/models\/b\.cto is a symbolic link/))
    const linked = directory({})
    symlinkSync('/etc', join(linked, 'models'))
    expect(() => readNetwork(linked)).toThrow(unreadable(/models is a symbolic link/))
    expect(() => readNetwork(join(folder, 'nothing'))).toThrow(unreadable(/cannot be read/))
    expect(() => readNetwork(temporaryFolder())).toThrow(unreadable(/no package\.json/))
    expect(() => readNetwork(join(folder, 'package.json'))).toThrow(
      unreadable(/not a directory or a .bna archive/),
    )
  })
})

describe('daicho network', () => {
  it('checks, packs, deploys, lists and upgrades networks', async () => {
    const folder = temporaryFolder()
    const file = join(folder, 'n.bna')
    const checked = await runDaicho(['network', 'check', sample('bond'), '--json'])
    const findings = [expect.objectContaining({ severity: 'warning', path: 'permissions.acl' })]
    expect([checked.code, JSON.parse(checked.stdout)]).toEqual([0, { status: true, findings }])
    const packed = await runDaicho(['network', 'pack', sample('trade'), '--out', file, '--json'])
    const { sha256 } = JSON.parse(packed.stdout)
    const node = { SYSTEM_FOLDER: folder }
    const deployed = await runDaicho(['network', 'deploy', file], node)
    expect(deployed.stdout).toBe(`deployed trade-network 0.2.6  sha256 ${sha256}\n`)
    const listed = await runDaicho(['network', 'list', '--json'], node)
    expect(JSON.parse(listed.stdout).networks).toEqual([
      { name: 'trade-network', version: '0.2.6', description: '', sha256 },
    ])
    const again = await runDaicho(['network', 'upgrade', file], node)
    expect([again.code, again.stderr]).toEqual([
      1,
      'daicho: trade-network is already deployed with exactly this archive\n',
    ])
  })

  it('exits with code 1 for an invalid network, and with code 2 for a network that cannot be read', async () => {
    const folder = directory({ 'models/a.cto': 'namespace a\nasset A {}' })
    const wrong = await runDaicho(['network', 'check', folder])
    expect(wrong.code).toBe(1)
    expect(wrong.stdout).toMatch(
      /^models\/a\.cto:2:7: error: A needs “identified by”.*\n.*warning.*\n1 error\n$/,
    )
    const none = join(folder, 'none')
    const missing = await runDaicho(['network', 'check', none])
    expect([missing.code, missing.stderr]).toEqual([
      2,
      `daicho: ${none}: cannot be read: ENOENT: no such file or directory, lstat '${none}'\n`,
    ])
    expect((await runDaicho(['network', 'upgrade', folder, '--default', 'x'])).code).toBe(2)
    expect((await runDaicho(['network', 'deploy', sample('trade')])).code).toBe(78)
  })

  it('deploys the networks in NETWORKS at the start, serves NETWORK at /api, and requires a key for a public address', async () => {
    const open = await runDaicho([
      'serve',
      '--only',
      'gateway',
      '--host',
      '0.0.0.0',
      '--gateway-port',
      '0',
    ])
    expect([open.code, open.stderr]).toEqual([78, expect.stringMatching(/GATEWAY_API_KEY/)])
    const keyless = await runDaicho(['serve', '--only', 'gateway', '-a', '--gateway-port', '0'])
    expect([keyless.code, keyless.stderr]).toEqual([78, expect.stringMatching(/GATEWAY_API_KEY/)])
    const unknown = { NETWORKS: sample('trade'), NETWORK: 'other' }
    const named = await runDaicho(['serve', '--only', 'gateway', '--gateway-port', '0'], unknown)
    expect([named.code, named.stderr]).toEqual([
      78,
      expect.stringMatching(/NETWORK: there is no network other/),
    ])
  })
})
