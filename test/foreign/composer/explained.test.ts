import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { EXPLANATIONS } from './explained.ts'

it('every difference that the comparison with Composer explains is a row on the page of differences', () => {
  const file = new URL('../../../docs/reference/gateway/composer.md', import.meta.url)
  const page = readFileSync(file, 'utf8')
  const missing = EXPLANATIONS.map(([key]) => key).filter((key) => !page.includes(`\n| ${key} |`))
  expect(EXPLANATIONS.length).toBeGreaterThan(10)
  expect(missing).toEqual([])
})
