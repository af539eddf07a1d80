import { zstdCompressSync } from 'node:zlib'
import { expect, it } from 'vitest'
import { ENTRIES_MAX } from '../../chain/index.ts'
import { packBody, parseBody } from './body.ts'

it('reads the entries of a body, and of a changed body only one more than a block can have', () => {
  const entries = ['{"a":1}', `"${'x'.repeat(70_000)}"`]
  expect([entries, entries.slice(0, 1)].map((each) => parseBody(packBody(each)))).toEqual([
    ...[entries, entries.slice(0, 1)],
  ])
  const lines = '\n'.repeat(3_000_000)
  for (const body of [lines, zstdCompressSync(lines)]) {
    expect(parseBody(body)).toHaveLength(ENTRIES_MAX + 1)
  }
})
