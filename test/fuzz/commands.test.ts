// Commands with damaged input files end with a documented exit code and a one-line message, without a stack trace and
// without new files.
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { defaultNetwork } from '../../src/network/index.ts'
import { runDaicho } from '../support/daicho.ts'
import { temporaryFolder } from '../support/ledger-node.ts'

const PNG = Buffer.from('89504e470d0a1a0a0000000d49484452ffffffffffffffff0806000000', 'hex')
const ZEROS = Buffer.alloc(100_000)
const KEY = 'daicho.example/1+00000000+AAAA'

it.each([
  ['image', 'a.png', PNG, ['a.xlsx'], [1]],
  ['image', 'a.png', ZEROS, ['a.xlsx'], [1]],
  ['verify', 'a.export', Buffer.from('{"format":"daicho-export"}\n{'), [], [1, 2]],
  ['verify', 'a.export', Buffer.from('28b52ffd', 'hex'), [], [1, 2]],
  ['verify', 'a.tlog-proof', Buffer.from('c2sp.org/tlog-proof@v1\n\u0000'), ['--key', KEY], [1, 2]],
  ['import', 'a.export', ZEROS, [], [1, 2, 78]],
  ['network check', 'a.bna', defaultNetwork().archive.subarray(40), [], [1, 2]],
  ['network check', 'a.bna', ZEROS, [], [1, 2]],
] as const)(
  '%s: exits as documented for a damaged %s',
  async (command, name, bytes, more, codes) => {
    const folder = temporaryFolder()
    const file = join(folder, name)
    writeFileSync(file, bytes)
    const rest = more.map((each) => (each.endsWith('.xlsx') ? join(folder, each) : each))
    const data = temporaryFolder()
    const ended = await runDaicho([...command.split(' '), file, ...rest], { SYSTEM_FOLDER: data })
    expect(codes).toContain(ended.code)
    const output = `${ended.stdout}${ended.stderr}`
    expect(output).not.toBe('')
    expect(output).not.toMatch(/node_modules|\.ts:\d|\n\s+at /)
    expect(readdirSync(folder)).toEqual([name])
    // Commands that work in a folder create a lock file there and keep it.
    expect(readdirSync(data).filter((each) => each !== 'ledger.lock')).toEqual([])
  },
)
