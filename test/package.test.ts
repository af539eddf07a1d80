import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { expect, it } from 'vitest'
import { NODE_FLAGS } from '../scripts/node-flags.mjs'
import { MAIN } from './support/program.ts'

it('the installed command runs with the same V8 flags as a clone', () => {
  const main = readFileSync(MAIN, 'utf8')
  expect(main.split('\n')[0]).toBe(`#!/usr/bin/env -S node ${NODE_FLAGS.join(' ')}`)
})

/** A Node in PATH that is too old for daicho. */
const old = (process.env.PATH ?? '')
  .split(delimiter)
  .map((folder) => join(folder, 'node'))
  .filter((path) => existsSync(path))
  .map((path) => ({ path, version: spawnSync(path, ['--version'], { encoding: 'utf8' }).stdout }))
  .find(({ version }) => /^v(?:[1-9]|1\d|2[013])\./.test(version))

it.skipIf(old === undefined)(
  `an outdated Node prints the required version and exits with 78${old === undefined ? ' (skipped: there is none in PATH)' : ''}`,
  () => {
    const { status, stdout, stderr } = spawnSync(old?.path ?? '', [MAIN, '--version'], {
      encoding: 'utf8',
    })
    const needed = 'daicho needs Node 24 or newer, or 22.18 or newer of 22'
    expect({ status, stdout, stderr }).toEqual({
      status: 78,
      stdout: '',
      stderr: `${needed}; this is ${old?.version.trim().slice(1)}\n`,
    })
  },
)
