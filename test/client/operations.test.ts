import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, it } from 'vitest'
import { OPERATIONS_FILE, operationsText } from '../../scripts/make-client-types.ts'

it('the generated types of the client match the routes (to update them, run scripts/make-client-types.ts)', async () => {
  expect(readFileSync(OPERATIONS_FILE, 'utf8')).toBe(await operationsText())
})

it('the client imports no Node API', () => {
  const folder = dirname(OPERATIONS_FILE)
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (!name.endsWith('.ts')) continue
    const text = readFileSync(join(folder, name), 'utf8')
    expect(text).not.toMatch(/from 'node:|\bprocess\.|\bBuffer\b|require\(/)
  }
})
