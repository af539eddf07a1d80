import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { grants, openPairs, PART_LENGTH_MAX } from './pairs.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'daicho-pairs-'))
})
afterEach(() => rm(folder, { recursive: true }))

const fileOf = async (content: unknown) => {
  const path = join(folder, 'hello.json')
  await writeFile(path, typeof content === 'string' ? content : JSON.stringify(content))
  return path
}

it('reads the credentials from the file, even if the address is not loopback', async () => {
  const table = { a: { name: 'ada', password: 'x:y' }, constructor: { name: 'b', password: 'ø' } }
  const file = await fileOf(table)
  for (const isLoopback of [true, false]) {
    expect(Object.fromEntries(await openPairs({ file, isLoopback }))).toEqual(table)
  }
})

it('uses the preset credentials only without a file and on a loopback address', async () => {
  const preset = await openPairs({ file: null, isLoopback: true })
  expect([...preset.keys()]).toEqual(['demo'])
  await expect(openPairs({ file: null, isLoopback: false })).rejects.toMatchObject({
    code: 'HELLO_NOT_CONFIGURED',
    message: expect.stringContaining('HELLO_FILE'),
  })
})

it('reports errors in the file with the id of the entry, but without passwords', async () => {
  const long = 'x'.repeat(PART_LENGTH_MAX + 1)
  const bad: [unknown, string][] = [
    ['', 'is not JSON'],
    ['{"a":{"name":"ada","password":"hunter2"', 'is not JSON'],
    ['{"__proto__":{"name":"ada","password":"hunter2"}}', 'is not JSON'],
    [[], 'is not a JSON object'],
    [{}, 'contains 0 pairs'],
    [{ '': { name: 'ada', password: 'hunter2' } }, 'has an id that is empty'],
    [{ [long]: { name: 'ada', password: 'hunter2' } }, 'has an id that is empty, too long'],
    [{ a: 'hunter2' }, 'has no valid name for id a'],
    [
      { a: { name: 'a:b', password: 'hunter2' } },
      'has no valid name for id a: a name must be a string without colons',
    ],
    [{ a: { name: 1, password: 'hunter2' } }, 'has no valid name for id a'],
    [{ a: { name: 'ada' } }, 'has no valid password for id a'],
    [{ a: { name: 'ada', password: '' } }, 'has no valid password for id a'],
    [{ a: { name: 'ada', password: 'hunter2\n' } }, 'has no valid password for id a'],
  ]
  for (const [content, why] of bad) {
    const file = await fileOf(content)
    const error = await openPairs({ file, isLoopback: true }).catch((caught: unknown) => caught)
    expect(error).toMatchObject({ code: 'HELLO_FILE_UNUSABLE' })
    expect(String(error)).toContain(why)
    expect(String(error)).not.toContain('hunter2')
  }
  const missing = openPairs({ file: join(folder, 'none'), isLoopback: true })
  await expect(missing).rejects.toThrow('cannot be read')
})

it('grants nothing for an unknown id, even with an empty name and password', () => {
  const pairs = new Map([['a', { name: 'ada', password: 'secret' }]])
  const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`
  expect(grants(pairs, 'a', basic('ada:secret'))).toBe(true)
  for (const id of ['a', 'b', undefined, ['a', 'a']]) {
    for (const header of [basic(':'), undefined]) expect(grants(pairs, id, header)).toBe(false)
  }
})
