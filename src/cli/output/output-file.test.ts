import { execFileSync, spawnSync } from 'node:child_process'
import {
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

it('an interrupted program in a clone ends by the signal, not with the code of a finding', () => {
  const program = join(temporaryFolder(), 'interrupted.mjs')
  writeFileSync(program, `process.kill(process.pid, 'SIGINT'); setInterval(() => {}, 60_000)`)
  const run = join(ROOT, 'scripts', 'run.mjs')
  const ended = spawnSync(process.execPath, [run, relative(ROOT, program)])
  expect([ended.status, ended.signal]).toEqual([null, 'SIGINT'])
})
