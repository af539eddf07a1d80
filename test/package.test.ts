import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { NODE_FLAGS } from '../scripts/node-flags.mjs'

it('the installed command runs with the same flags of V8 as a clone', () => {
  const main = readFileSync(new URL('../src/cli/main.ts', import.meta.url), 'utf8')
  expect(main.split('\n')[0]).toBe(`#!/usr/bin/env -S node ${NODE_FLAGS.join(' ')}`)
})
