import { readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { LONGEST_FIRST } from '../scripts/longest-first.ts'

/** The wings of the house, lowest floor first, and what each may import (ARCHITECTURE.md). */
const MAY_IMPORT: Record<string, readonly string[]> = {
  base: [],
  chain: ['base'],
  filter: ['base'],
  http: ['base'],
  client: ['chain', 'base'],
  storage: ['chain', 'filter', 'base'],
  tokens: ['http', 'base'],
  ledger: ['storage', 'chain', 'filter', 'tokens', 'http', 'base'],
  converter: ['http', 'base'],
  'rate-feed': ['http', 'base'],
  'sample-api': ['tokens', 'http', 'base'],
  'guarded-path': ['http', 'base'],
  network: ['ledger', 'filter', 'base'],
  gateway: ['network', 'tokens', 'filter', 'http', 'base'],
  dashboard: ['client', 'chain', 'base'],
  cli: [
    ...['gateway', 'network', 'guarded-path', 'sample-api', 'rate-feed', 'converter', 'ledger'],
    ...['tokens', 'storage', 'http', 'filter', 'chain', 'base', 'dashboard'],
  ],
}
/** Wings with further faces: what of them runs without Node, without a listener, or where no network is served. */
const FACES: Record<string, readonly string[]> = {
  chain: ['index.ts', 'portable.ts'],
  http: ['index.ts', 'outbound.ts', 'histogram.ts'],
  ledger: ['index.ts', 'unserved.ts'],
  network: ['index.ts', 'ownership.ts'],
}
/** Pure: nothing that touches the machine. */
const NO_IO = ['base', 'chain', 'filter']
const IO = /^node:(fs|net|http|https|child_process|worker_threads|sqlite|os|process|timers)(\/|$)/

const root = fileURLToPath(new URL('..', import.meta.url))
const src = join(root, 'src')

function filesBelow(folder: string): string[] {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name)
    return statSync(path).isDirectory() ? filesBelow(path) : [path]
  })
}

const files = filesBelow(src).filter((path) => /\.tsx?$/.test(path))
const wingOf = (path: string) => relative(src, path).split('/')[0] ?? ''
const isTest = (path: string) => /\.test\.tsx?$|-contract\.ts$/.test(path)

interface Arrow {
  from: string
  to: string
}

/** Every relative import of `path`, also dynamic ones and worker programs. */
function importsOf(path: string): string[] {
  const text = readFileSync(path, 'utf8')
  const found = text.matchAll(/(?:from|import)\s*\(?\s*'([^']+)'/g)
  return [...found].map(([, specifier]) => specifier ?? '')
}
const arrows: Arrow[] = files.flatMap((from) =>
  importsOf(from)
    .filter((specifier) => specifier.startsWith('.'))
    .map((specifier) => ({ from, to: resolve(dirname(from), specifier) })),
)
const shown = ({ from, to }: Arrow) => `${relative(src, from)} -> ${relative(src, to)}`

it('has folders only in src, each of them a wing of the plan', () => {
  for (const name of readdirSync(src)) {
    expect(statSync(join(src, name)).isDirectory(), `${name} lies loose in src`).toBe(true)
    expect(Object.keys(MAY_IMPORT)).toContain(name)
  }
})

it('reads the imports it judges', () => {
  expect(arrows.length).toBeGreaterThan(files.length)
})

it('imports go down the plan only', () => {
  const wrong = arrows.filter(({ from, to }) => {
    const wing = wingOf(from)
    return wing !== wingOf(to) && !(MAY_IMPORT[wing] ?? []).includes(wingOf(to)) && !isTest(from)
  })
  expect(wrong.map(shown)).toEqual([])
})

it('another wing is entered by its index.ts, and base by the names of its files', () => {
  const wrong = arrows.filter(({ from, to }) => {
    const wing = wingOf(to)
    if (wing === wingOf(from) || wing === 'base' || !to.startsWith(src)) return false
    return !(FACES[wing] ?? ['index.ts']).some((face) => to === join(src, wing, face))
  })
  expect(wrong.map(shown)).toEqual([])
})

it('no file imports itself, however long the way round', () => {
  const next = new Map<string, string[]>()
  for (const { from, to } of arrows) next.set(from, [...(next.get(from) ?? []), to])
  const done = new Set<string>()
  const walk = (path: string, above: readonly string[]): string[] => {
    if (above.includes(path)) return [[...above.slice(above.indexOf(path)), path].join(' -> ')]
    if (done.has(path)) return []
    const cycles = (next.get(path) ?? []).flatMap((to) => walk(to, [...above, path]))
    done.add(path)
    return cycles
  }
  expect(files.flatMap((path) => walk(path, []))).toEqual([])
})

it('threads, and commands that serve nothing, load nothing of a listener', () => {
  const loadedBy = (from: string): string[] => {
    const text = readFileSync(from, 'utf8').replaceAll(/(?:import|export) type [^']*/g, '')
    const found = text.matchAll(/^(?:import|export|\}) (?:[^']* )?from '(\.[^']+)'/gm)
    return [...found].map(([, specifier = '']) => resolve(dirname(from), specifier))
  }
  const threads = ['writer/thread.ts', 'log/thread.ts', 'peers/thread.ts']
  for (const start of [...threads, 'unserved.ts', '../network/index.ts']) {
    const loaded = new Set([join(src, 'ledger', start)])
    for (const path of loaded) for (const next of loadedBy(path)) loaded.add(next)
    expect(loaded).toContain(join(src, 'storage/store.ts'))
    expect([start, loaded.has(join(src, 'http/listener.ts'))]).toEqual([start, false])
  }
})

it('the pure wings touch nothing of the machine, and only cli reads the environment', () => {
  const impure = files.filter((path) => {
    if (isTest(path) || !NO_IO.includes(wingOf(path))) return false
    return importsOf(path).some((specifier) => IO.test(specifier))
  })
  expect(impure).toEqual([])
  const reading = files.filter(
    (path) =>
      wingOf(path) !== 'cli' && !isTest(path) && /process\.env/.test(readFileSync(path, 'utf8')),
  )
  expect(reading).toEqual([])
})

it('what people store is read by parseJson, which gets names right that are written with escapes', () => {
  const holding = ['base', 'chain', 'filter', 'client', 'storage', 'ledger', 'network', 'gateway']
  const reading = files.filter((path) => {
    if (isTest(path) || !holding.includes(wingOf(path))) return false
    return /^(?! *(\/\/|\*|\/\*)).*JSON\.parse\(/m.test(readFileSync(path, 'utf8'))
  })
  expect(reading.map((path) => relative(src, path))).toEqual(['base/json.ts'])
})

it('what runs in browsers needs nothing of Node', () => {
  const next = new Map<string, string[]>()
  for (const path of files) next.set(path, importsOf(path))
  const seen = new Set<string>()
  const walk = (path: string): string[] => {
    if (seen.has(path)) return []
    seen.add(path)
    return (next.get(path) ?? []).flatMap((specifier) => {
      if (specifier.startsWith('node:')) return [`${relative(src, path)} imports ${specifier}`]
      return specifier.startsWith('.') ? walk(resolve(dirname(path), specifier)) : []
    })
  }
  const starts = [join(src, 'dashboard', 'browser'), join(src, 'client')]
  const own = files.filter((path) => starts.some((start) => path.startsWith(start)))
  expect(own.flatMap(walk)).toEqual([])
  expect(seen.has(join(src, 'chain', 'portable.ts'))).toBe(true)
})

it('every test has its place in the order, and every place has tests', () => {
  const tests = [src, join(root, 'test')]
    .flatMap(filesBelow)
    .map((path) => relative(root, path))
    .filter((path) => path.endsWith('.test.ts'))
  const places = tests.map((path) => LONGEST_FIRST.find((start) => path.startsWith(start)))
  expect(new Set(places)).toEqual(new Set(LONGEST_FIRST))
})

it('tests that look at what their process has say so in their name, and have one each', () => {
  const looking = /process\.memoryUsage|\/proc\/self\/|\/children\.ts'/
  const tests = [src, join(root, 'test')].flatMap(filesBelow).filter(isTest)
  const unsaid = tests.filter(
    (path) => !path.endsWith('.alone.test.ts') && looking.test(readFileSync(path, 'utf8')),
  )
  expect(unsaid.map((path) => relative(root, path))).toEqual([])
})

it('what is done before or after the tests of a file stands in it: a module that several share runs once', () => {
  const shared = filesBelow(join(root, 'test')).filter((path) => !isTest(path))
  const hooked = shared.filter((path) =>
    /^(?:before|after)(?:All|Each)\(/m.test(readFileSync(path, 'utf8')),
  )
  // Runs with every file: vitest.config.ts names it.
  expect(hooked.map((path) => relative(root, path))).toEqual(['test/support/leftovers.ts'])
})
