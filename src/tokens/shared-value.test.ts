import { execFile } from 'node:child_process'
import {
  chmod,
  chown,
  type FileHandle,
  mkdtemp,
  open,
  readdir,
  readFile,
  rm,
  stat,
  unlink,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { tryLock } from '../base/files/lock.ts'
import { type SharedValue, sharedFile, valueInMemory } from './shared-value.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'daicho-shared-'))
})
afterEach(() => rm(folder, { recursive: true }))

const list = (lockWaitMs = 5_000) =>
  sharedFile<readonly number[]>({
    path: join(folder, 'list.json'),
    lockWaitMs,
    initial: [],
    format: (values) => JSON.stringify(values),
    parse: (text) => {
      const values: unknown = JSON.parse(text)
      if (!Array.isArray(values)) throw new Error(`not a list: ${text}`)
      return values.map(Number)
    },
  })

it.skipIf(process.geteuid?.() !== 0)(
  'a file that root creates belongs to the owner of the folder',
  async () => {
    await chown(folder, 65_534, 65_534)
    await list().change(() => [1])
    expect((await stat(join(folder, 'list.json'))).uid).toBe(65_534)
  },
)

it('syncs a new file before the rename, and its folder after the rename', async () => {
  const probe = await open(folder, 'r')
  const prototype = Object.getPrototypeOf(probe)
  await probe.close()
  const { sync } = prototype
  const synced: string[] = []
  const spy = vi.spyOn(prototype, 'sync').mockImplementation(async function (this: FileHandle) {
    const kind = (await this.stat()).isDirectory() ? 'folder' : 'file'
    const names = await readdir(folder)
    synced.push(`${kind}, ${names.includes('list.json') ? 'renamed' : 'not renamed'}`)
    return sync.call(this)
  })
  await list().change(() => [1])
  spy.mockRestore()
  expect(synced).toEqual(['file, not renamed', 'folder, renamed'])
})

function describeValue(name: string, open: () => SharedValue<readonly number[]>): void {
  describe(`a value in ${name}`, () => {
    it('starts with its initial value and is replaced by each change', async () => {
      const value = open()
      expect(value.current()).toEqual([])
      expect(await value.change((values) => [...values, 1])).toEqual([1])
      expect(await value.change((values) => [...values, 2])).toEqual([1, 2])
      expect(value.current()).toEqual([1, 2])
      expect(value.current()).toBe(value.current())
    })

    it('loses no concurrent change', async () => {
      const value = open()
      const numbers = Array.from({ length: 20 }, (_, index) => index)
      await Promise.all(numbers.map((n) => value.change((values) => [...values, n])))
      expect(value.current().toSorted((a, b) => a - b)).toEqual(numbers)
    })

    it(`a value in ${name} is unchanged if the update function throws, and can be changed afterwards`, async () => {
      const value = open()
      await value.change(() => [1])
      const fail = value.change(() => {
        throw new RangeError('no')
      })
      await expect(fail).rejects.toThrow(RangeError)
      expect(value.current()).toEqual([1])
      expect(await value.change(() => [2])).toEqual([2])
    })
  })
}

describeValue('memory', () => valueInMemory<readonly number[]>([]))
describeValue('a file', () => list())

it('shows a change at once to another instance with the same file', async () => {
  const [first, second] = [list(), list()]
  expect(first.current()).toEqual([])
  await second.change(() => [1])
  expect(first.current()).toEqual([1])
  await second.change(() => [2])
  expect(first.current()).toEqual([2])
})

it('serializes changes with another process', async () => {
  const script = `
    const { sharedFile } = await import(${JSON.stringify(new URL('./shared-value.ts', import.meta.url))})
    const value = sharedFile({ path: process.argv[1], initial: [], format: JSON.stringify, parse: JSON.parse })
    for (let n = 0; n < 10; n += 1) await value.change((values) => [...values, n])`
  const run = () =>
    promisify(execFile)(process.execPath, [
      '--input-type=module',
      '--eval',
      script,
      join(folder, 'list.json'),
    ])
  await Promise.all([run(), run()])
  expect(list().current()).toHaveLength(20)
})

it('a change leaves the file, with mode 0600, and its lock, but no temporary file', async () => {
  await list().change(() => [1])
  expect(await readdir(folder)).toEqual(['list.json', 'list.json.lock'])
  expect((await stat(join(folder, 'list.json'))).mode & 0o777).toBe(0o600)
})

it('keeps the last value if the file disappears', async () => {
  const value = list()
  await value.change(() => [1])
  await unlink(join(folder, 'list.json'))
  expect(value.current()).toEqual([1])
})

it('rejects a damaged file with an error that contains its path but not its content', async () => {
  await writeFile(join(folder, 'list.json'), '{"secret":1}')
  const error = await Promise.resolve()
    .then(() => list().current())
    .catch((caught: unknown) => caught)
  expect(error).toMatchObject({
    code: 'FILE_DAMAGED',
    message: `${join(folder, 'list.json')} is damaged; restore it from a backup`,
    cause: undefined,
  })
  await expect(list().change(() => [1])).rejects.toMatchObject({ code: 'FILE_DAMAGED' })
  expect(await readFile(join(folder, 'list.json'), 'utf8')).toBe('{"secret":1}')
})

it('creates a missing folder that only the owner can access', async () => {
  const missing = sharedFile({
    path: join(folder, 'none', 'list.json'),
    initial: 0,
    format: String,
    parse: Number,
  })
  expect(missing.current()).toBe(0)
  expect(await missing.change(() => 1)).toBe(1)
  expect((await stat(join(folder, 'none'))).mode & 0o777).toBe(0o700)
})

it('rejects a path below a file', async () => {
  await writeFile(join(folder, 'file'), '')
  const path = join(folder, 'file', 'list.json')
  const value = sharedFile({ path, initial: 0, format: String, parse: Number })
  expect(value.current()).toBe(0)
  await expect(value.change(() => 1)).rejects.toMatchObject({ code: 'FILE_UNREADABLE' })
})

it.skipIf(process.getuid?.() === 0)(
  'rejects a file that the process may not read (skipped for root)',
  async () => {
    await list().change(() => [1])
    await chmod(join(folder, 'list.json'), 0)
    expect(() => list().current()).toThrow('cannot be read')
  },
)

it('stops waiting for a lock that is held too long, with an error that contains the path of the lock', async () => {
  const release = tryLock(join(folder, 'list.json.lock'))
  await expect(list(40).change(() => [1])).rejects.toMatchObject({
    code: 'FILE_LOCKED',
    message: `another process has locked ${join(folder, 'list.json.lock')}; try again`,
  })
  release?.()
  expect(await list().change(() => [1])).toEqual([1])
})
