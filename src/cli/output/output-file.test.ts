import { execFileSync, spawnSync } from 'node:child_process'
import {
  chownSync,
  lchownSync,
  lstatSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it, onTestFinished } from 'vitest'
import { partialPath } from '../../base/files/durable-files.ts'
import { requireFileName, writeTexts } from './output-file.ts'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-test-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

it.each(['SIGINT', 'SIGTERM', 'SIGHUP'])('leaves nothing of a file after %s', (signal) => {
  const folder = temporaryFolder()
  const program = join(folder, 'write.ts')
  const out = temporaryFolder()
  writeFileSync(
    program,
    `import { writeTexts } from '${new URL('./output-file.ts', import.meta.url).href}'
    async function* texts() {
      yield 'a secret'
      process.kill(process.pid, '${signal}')
      await new Promise((resolve) => setTimeout(resolve, 60_000))
    }
    await writeTexts(texts(), '${join(out, 'chain.ndjson')}')`,
  )
  const ended = spawnSync(process.execPath, ['--disable-warning=ExperimentalWarning', program])
  expect([ended.signal, readdirSync(out)]).toEqual([signal, []])
})

it('an output replaces no device, no pipe and no link', async () => {
  const folder = temporaryFolder()
  const [pipe, file, link] = ['pipe', 'file', 'link'].map((name) => join(folder, name))
  execFileSync('mkfifo', [pipe ?? ''])
  expect(() => requireFileName(pipe ?? '')).toThrow('is a device or a pipe')
  writeFileSync(file ?? '', '')
  symlinkSync(file ?? '', link ?? '')
  async function* texts() {
    yield 'text'
  }
  await writeTexts(texts(), link ?? '')
  expect(lstatSync(link ?? '').isSymbolicLink()).toBe(true)
  expect(readFileSync(file ?? '', 'utf8')).toBe('text')
})

const isRoot = process.getuid?.() === 0
it.skipIf(!isRoot)(
  isRoot
    ? 'an output is not written through a link that another user has put into a folder'
    : 'SKIPPED: only root can create links of other users',
  async () => {
    const folder = temporaryFolder()
    const [file, link] = [join(folder, 'file'), join(folder, 'link')]
    writeFileSync(file, 'kept')
    symlinkSync(file, link)
    lchownSync(link, 12345, 12345)
    expect(() => requireFileName(link)).toThrow('link is a link of another user: choose another')
    async function* texts() {
      yield 'text'
    }
    await expect(writeTexts(texts(), link)).rejects.toThrow('is a link of another user')
    expect(readFileSync(file, 'utf8')).toBe('kept')
    // The owner of the folder could replace the file as well.
    chownSync(folder, 12345, 12345)
    await writeTexts(texts(), link)
    expect(readFileSync(file, 'utf8')).toBe('text')
  },
)

it('an output is not written into a file or through a link that was put at the name of its unfinished file', async () => {
  const folder = temporaryFolder()
  const [out, file] = [join(folder, 'out'), join(folder, 'file')]
  writeFileSync(file, 'kept')
  async function* texts() {
    yield 'text'
  }
  symlinkSync(file, partialPath(out))
  await writeTexts(texts(), out)
  expect([readFileSync(file, 'utf8'), readFileSync(out, 'utf8')]).toEqual(['kept', 'text'])
  expect(lstatSync(out).isFile()).toBe(true)
  writeFileSync(partialPath(out), '', { mode: 0o666 })
  await writeTexts(texts(), out)
  expect(lstatSync(out).mode & 0o777).toBe(0o600)
})

it('an interrupted program in a clone ends by the signal, not with the code of a finding', () => {
  const program = join(temporaryFolder(), 'interrupted.mjs')
  writeFileSync(program, `process.kill(process.pid, 'SIGINT'); setInterval(() => {}, 60_000)`)
  const run = join(ROOT, 'scripts', 'run.mjs')
  const ended = spawnSync(process.execPath, [run, relative(ROOT, program)])
  expect([ended.status, ended.signal]).toEqual([null, 'SIGINT'])
})
