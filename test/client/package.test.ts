// The package `@daicho/client`, as npm packs and installs it.
import { globSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, it } from 'vitest'
import * as client from '../../src/client/index.ts'
import { installClient } from '../support/installed-client.ts'

it('an installation of the client has no dependency and at most 400 kB', async () => {
  const modules = join(await installClient(), 'node_modules')
  const files = globSync('**/*', { cwd: modules }).filter((path) => !path.startsWith('.'))
  const packages = files.filter((path) => path.endsWith('package.json'))
  expect(packages).toEqual([join('@daicho', 'client', 'package.json')])
  const bytes = files.reduce((sum, path) => sum + statSync(join(modules, path)).size, 0)
  expect(bytes).toBeLessThan(400_000)
})

it('the client has the same exports, version and licence as daicho/client', async () => {
  const installed = join(await installClient(), 'node_modules/@daicho/client')
  const url = pathToFileURL(join(installed, 'dist/index.js')).href
  const exported: object = await import(/* @vite-ignore */ url)
  expect(Object.keys(exported).sort()).toEqual(Object.keys(client).sort())
  const types = readFileSync(join(installed, 'dist/client/index.d.ts'), 'utf8')
  expect(types).toBe(readFileSync('dist/client/index.d.ts', 'utf8'))
  const [own, whole] = [join(installed, 'package.json'), 'package.json'].map((path) =>
    JSON.parse(readFileSync(path, 'utf8')),
  )
  expect([own.version, own.license]).toEqual([whole.version, whole.license])
  expect(readFileSync(join(installed, 'LICENSE'), 'utf8')).toBe(readFileSync('LICENSE', 'utf8'))
})
