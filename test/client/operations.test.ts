import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { OPERATIONS_FOLDER, operationFiles } from '../../scripts/make-client-types.ts'

it('the types of the client are those of the routes; else run scripts/make-client-types.ts', async () => {
  const files = await operationFiles()
  expect(readdirSync(OPERATIONS_FOLDER).sort()).toEqual([...files.keys()].sort())
  for (const [name, text] of files) {
    expect(readFileSync(join(OPERATIONS_FOLDER, name), 'utf8')).toBe(text)
  }
})

it('the client needs nothing that browsers do not have', () => {
  const folder = join(OPERATIONS_FOLDER, '..')
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (!name.endsWith('.ts')) continue
    const text = readFileSync(join(folder, name), 'utf8')
    expect(text).not.toMatch(/from 'node:|\bprocess\.|\bBuffer\b|require\(/)
  }
})
