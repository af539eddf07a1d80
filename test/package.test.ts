import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { delimiter, join, posix } from 'node:path'
import { expect, it } from 'vitest'
import { NODE_FLAGS, NODE_VARIABLES } from '../scripts/node-flags.mjs'
import { MAIN } from './support/program.ts'

const VARIABLES = Object.entries(NODE_VARIABLES)
  .map(([name, value]) => `${name}=${value}`)
  .join(' ')

it('the installed command has the same V8 flags and variables as the command in a cloned repository', () => {
  const main = readFileSync(MAIN, 'utf8')
  const [line = ''] = main.split('\n')
  expect(line).toBe(`#!/usr/bin/env -S ${VARIABLES} node ${NODE_FLAGS.join(' ')}`)
  // Linux before 5.1 truncates longer lines.
  expect(line.length).toBeLessThanOrEqual(127)
})

it('the container and the systemd service run with the same V8 flags and variables', () => {
  const dockerfile = readFileSync('Dockerfile', 'utf8')
  const entryPoint = /^ENTRYPOINT (.*)$/m.exec(dockerfile)?.[1] ?? ''
  expect(dockerfile).toContain(`\nENV ${VARIABLES}\n`)
  expect(JSON.parse(entryPoint)).toEqual(['node', ...NODE_FLAGS, 'dist/cli/main.js'])
  const service = readFileSync('packaging/daicho.service', 'utf8')
  expect(service).toContain(`\nEnvironment=${VARIABLES}\n`)
  const start = /^ExecStart=(.*)$/m.exec(service)?.[1]
  const command = ['/usr/bin/node', ...NODE_FLAGS, '/opt/daicho/dist/cli/main.js']
  expect(start).toBe([...command, 'serve', '--only', 'ledger'].join(' '))
})

/** Parts of the repository that the package links to and does not contain. */
const ONLY_IN_REPOSITORY = /^(?:clients\/|CONTRIBUTING\.md$)/

it('the package contains each file that its pages link to, except clients and instructions for contributors', () => {
  const { stdout, stderr } = spawnSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
    encoding: 'utf8',
  })
  expect(stdout, stderr).not.toBe('')
  const [packed]: [{ files: readonly { path: string }[] }] = JSON.parse(stdout)
  const paths = packed.files.map(({ path }) => path)
  const files = new Set(paths)
  const isPacked = (path: string) =>
    files.has(path) || paths.some((each) => each.startsWith(`${path.replace(/\/$/, '')}/`))
  const pages = paths.filter((path) => path.endsWith('.md'))
  expect(pages.length).toBeGreaterThan(50)
  const missing = pages.flatMap((page) => {
    const links = [...readFileSync(page, 'utf8').matchAll(/\]\(([^)#: ]+)(?:#[^)]*)?\)/g)]
    return links
      .map(([, link = '']) => posix.normalize(posix.join(posix.dirname(page), link)))
      .filter((path) => !ONLY_IN_REPOSITORY.test(path) && !isPacked(path))
      .map((path) => `${page} -> ${path}`)
  })
  expect(missing).toEqual([])
  expect(paths.filter((path) => /^(?:clients\/|CONTRIBUTING|STYLE)/.test(path))).toEqual([])
})

interface LockEntry {
  readonly dev?: boolean
  readonly os?: readonly string[]
  readonly cpu?: readonly string[]
  readonly libc?: readonly string[]
}

it('an installation contains at most 15 packages', () => {
  const lock: { packages: Record<string, LockEntry> } = JSON.parse(
    readFileSync('package-lock.json', 'utf8'),
  )
  const isFor = (wanted: string, values?: readonly string[]) => values?.includes(wanted) ?? true
  const installed = Object.entries(lock.packages).filter(
    ([path, { dev, os, cpu, libc }]) =>
      path !== '' &&
      dev !== true &&
      isFor('linux', os) &&
      isFor('x64', cpu) &&
      isFor('glibc', libc),
  )
  expect(installed.length).toBeLessThanOrEqual(15)
})

it('the package contains the licence of each package that it bundles', () => {
  const text = readFileSync('dist/licenses.txt', 'utf8')
  const { devDependencies } = JSON.parse(readFileSync('package.json', 'utf8'))
  for (const name of ['fastify', 'pg', 'jose', 'ws', 'typebox', 'commander']) {
    const at = text.indexOf(`\n${name} ${devDependencies[name]} (MIT)\n`)
    expect(at, name).toBeGreaterThan(0)
    expect(text.slice(at, at + 2_500), name).toMatch(/Permission is hereby granted/)
  }
})

it('the package scripts use no shell syntax, so that they run on Windows too', () => {
  const { scripts } = JSON.parse(readFileSync('package.json', 'utf8'))
  for (const script of Object.values(scripts)) {
    expect(script).toMatch(/^(?:node|npm|biome) [\w./: =-]+$/)
    expect(script).not.toMatch(/^\w+=|\bexec\b/)
  }
})

/** Path of a Node on PATH that is too old for daicho, or undefined if PATH has none. */
const old = (process.env.PATH ?? '')
  .split(delimiter)
  .map((folder) => join(folder, 'node'))
  .filter((path) => existsSync(path))
  .map((path) => ({ path, version: spawnSync(path, ['--version'], { encoding: 'utf8' }).stdout }))
  .find(({ version }) => /^v(?:[1-9]|1\d|2[013])\./.test(version))

it.skipIf(old === undefined)(
  `an outdated Node prints the required version and exits with code 78${old === undefined ? ' (skipped: PATH has no such Node)' : ''}`,
  () => {
    const { status, stdout, stderr } = spawnSync(old?.path ?? '', [MAIN, '--version'], {
      encoding: 'utf8',
    })
    const needed = 'daicho needs Node 24 or newer, or Node 22 from 22.18'
    expect({ status, stdout, stderr }).toEqual({
      status: 78,
      stdout: '',
      stderr: `${needed}; this is ${old?.version.trim().slice(1)}\n`,
    })
  },
)
