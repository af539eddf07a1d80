import { readdirSync, readFileSync, statSync } from 'node:fs'
import { basename, dirname, join, relative, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseSync } from 'vite'
import { expect, it } from 'vitest'

/** The modules from the lowest layer up, and the modules that each of them may import (ARCHITECTURE.md). */
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
  exchange: ['ledger', 'base'],
  gateway: ['network', 'filter', 'http', 'base'],
  dashboard: ['client', 'exchange', 'chain', 'base'],
  cli: [
    ...['gateway', 'network', 'guarded-path', 'sample-api', 'rate-feed', 'converter', 'exchange'],
    ...['ledger', 'tokens', 'storage', 'http', 'client', 'chain', 'base', 'dashboard'],
  ],
}
/**
 * Public files of each module that has a second public file beside `index.ts`. The second file exists for code that
 * must not load the whole module, because the code runs in browsers, needs no listener or no network, or only
 * declares a command.
 */
const PUBLIC_API: Record<string, readonly string[]> = {
  chain: ['index.ts', 'portable.ts'],
  exchange: ['index.ts', 'choices.ts', 'portable.ts'],
  http: ['index.ts', 'outbound.ts'],
  ledger: ['index.ts', 'core.ts'],
}
/** Modules that must not do I/O, apart from the folders in DOES_IO. */
const NO_IO = ['base', 'chain', 'filter']
const DOES_IO = ['base/files', 'base/worker']
const IO = /^node:(fs|net|http|https|child_process|worker_threads|sqlite|os|process|timers)(\/|$)/
/** Modules that read stored JSON, so they must use `parseJson`. */
const READS_STORED_JSON = [
  ...['base', 'chain', 'filter', 'client', 'storage', 'ledger', 'exchange', 'network', 'gateway'],
]

const root = fileURLToPath(new URL('..', import.meta.url))
const src = join(root, 'src')

function filesBelow(folder: string): string[] {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name)
    return statSync(path).isDirectory() ? filesBelow(path) : [path]
  })
}

const files = filesBelow(src).filter((path) => /\.tsx?$/.test(path))
const moduleOf = (path: string) => relative(src, path).split(sep)[0] ?? ''
const isTest = (path: string) => /\.test\.tsx?$|\/contract\//.test(path)

interface Import {
  from: string
  to: string
}

/** Returns the specifiers of every import of `path`, including dynamic imports. */
function specifiersOf(path: string): string[] {
  const text = readFileSync(path, 'utf8')
  return [...text.matchAll(/(?:from|import)\s*\(?\s*'([^']+)'/g)].map(([, name]) => name ?? '')
}
const imports: Import[] = files.flatMap((from) =>
  specifiersOf(from)
    .filter((specifier) => specifier.startsWith('.'))
    .map((specifier) => ({ from, to: resolve(dirname(from), specifier) })),
)
const shown = ({ from, to }: Import) => `${relative(src, from)} -> ${relative(src, to)}`

/** Returns the first cycle found from each key of `next`, as text such as `a -> b -> a`. */
function cyclesIn(next: ReadonlyMap<string, Iterable<string>>): string[] {
  const done = new Set<string>()
  const walk = (node: string, above: readonly string[]): string[] => {
    if (above.includes(node)) return [[...above.slice(above.indexOf(node)), node].join(' -> ')]
    if (done.has(node)) return []
    const cycles = [...(next.get(node) ?? [])].flatMap((to) => walk(to, [...above, node]))
    done.add(node)
    return cycles
  }
  return [...next.keys()].flatMap((node) => walk(node, []))
}

it('src contains only folders, and each is a module in MAY_IMPORT', () => {
  for (const name of readdirSync(src)) {
    expect(statSync(join(src, name)).isDirectory(), `${name} is not a folder`).toBe(true)
    expect(Object.keys(MAY_IMPORT)).toContain(name)
  }
})

it('the import scanner finds static and type imports', () => {
  expect(imports.length).toBeGreaterThan(files.length)
})

it('modules import only the modules that MAY_IMPORT allows', () => {
  const wrong = imports.filter(({ from, to }) => {
    const name = moduleOf(from)
    return (
      name !== moduleOf(to) && !(MAY_IMPORT[name] ?? []).includes(moduleOf(to)) && !isTest(from)
    )
  })
  expect(wrong.map(shown)).toEqual([])
})

it('modules import other modules only through their public API, except base, whose files they import directly', () => {
  const wrong = imports.filter(({ from, to }) => {
    const name = moduleOf(to)
    if (name === moduleOf(from) || name === 'base' || !to.startsWith(src)) return false
    return !(PUBLIC_API[name] ?? ['index.ts']).some((file) => to === join(src, name, file))
  })
  expect(wrong.map(shown)).toEqual([])
})

it('files import each other without a cycle', () => {
  const next = new Map<string, string[]>()
  for (const { from, to } of imports) next.set(from, [...(next.get(from) ?? []), to])
  expect(cyclesIn(next)).toEqual([])
})

it('in each folder of a module, the files and subfolders import each other without a cycle', () => {
  const folders = new Map<string, Map<string, Set<string>>>()
  for (const { from, to } of imports) {
    if (isTest(from)) continue
    const [one, other] = [relative(src, from).split(sep), relative(src, to).split(sep)]
    const depth = one.findIndex((part, at) => part !== other[at])
    const [child, imported] = [one[depth], other[depth]]
    if (depth < 1 || child === undefined || imported === undefined) continue
    const folder = one.slice(0, depth).join('/')
    const children = folders.get(folder) ?? new Map<string, Set<string>>()
    folders.set(folder, children.set(child, (children.get(child) ?? new Set()).add(imported)))
  }
  const cycles = [...folders].flatMap(([folder, children]) =>
    cyclesIn(children).map((cycle) => `${folder}/: ${cycle}`),
  )
  expect(folders.size).toBeGreaterThan(10)
  expect(cycles).toEqual([])
})

it('only component.ts and index.ts import from an api/ folder', () => {
  const wrong = imports.filter(({ from, to }) => {
    const folder = dirname(to)
    if (basename(folder) !== 'api' || dirname(from) === folder || isTest(from)) return false
    return !['component.ts', 'index.ts'].includes(basename(from))
  })
  expect(wrong.map(shown)).toEqual([])
})

it('threads and commands that do not listen load neither the listener nor the script engine', () => {
  const loadedBy = (from: string): string[] => {
    const text = readFileSync(from, 'utf8').replaceAll(/(?:import|export) type [^']*/g, '')
    const found = text.matchAll(/^(?:import|export|\}) (?:[^']* )?from '(\.[^']+)'/gm)
    return [...found].map(([, specifier = '']) => resolve(dirname(from), specifier))
  }
  const threads = ['write/writer-thread.ts', 'log/thread.ts', 'peers/thread.ts']
  for (const start of [...threads, 'core.ts', '../network/index.ts']) {
    const loaded = new Set([join(src, 'ledger', start)])
    for (const path of loaded) for (const next of loadedBy(path)) loaded.add(next)
    expect(loaded).toContain(join(src, 'storage/port/store.ts'))
    expect([start, loaded.has(join(src, 'http/app.ts'))]).toEqual([start, false])
    // Only the network threads may load the script engine.
    expect([start, loaded.has(join(src, 'network/runtime/guest.ts'))]).toEqual([start, false])
  }
})

it('modules import only types of node:http, so that a start does not load the HTTP client (node-http.ts)', () => {
  const loading = files.filter(
    (path) =>
      !isTest(path) && /^import (?!type )[^']*'node:http'/m.test(readFileSync(path, 'utf8')),
  )
  expect(loading.map((path) => relative(src, path))).toEqual([])
})

it('modules without I/O import no I/O module of Node, and only cli reads the environment', () => {
  const impure = files.filter((path) => {
    if (isTest(path) || !NO_IO.includes(moduleOf(path))) return false
    if (DOES_IO.some((folder) => path.startsWith(join(src, folder, sep)))) return false
    return specifiersOf(path).some((specifier) => IO.test(specifier))
  })
  expect(impure).toEqual([])
  const reading = files.filter(
    (path) =>
      moduleOf(path) !== 'cli' && !isTest(path) && /process\.env/.test(readFileSync(path, 'utf8')),
  )
  expect(reading).toEqual([])
})

it('stored JSON is parsed by parseJson, which keeps escaped member names intact', () => {
  const reading = files.filter((path) => {
    if (isTest(path) || !READS_STORED_JSON.includes(moduleOf(path))) return false
    return /^(?! *(\/\/|\*|\/\*)).*JSON\.parse\(/m.test(readFileSync(path, 'utf8'))
  })
  expect(reading.map((path) => relative(src, path))).toEqual(['base/json.ts'])
})

it('code that runs in browsers imports no Node module', () => {
  const next = new Map<string, string[]>()
  for (const path of files) next.set(path, specifiersOf(path))
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

/** Maximum number of lines of each module, without tests. Raising one needs a line in a decision record. */
const LINES_MAX: Readonly<Record<string, number>> = {
  base: 1_420,
  chain: 4_180,
  cli: 6_900,
  client: 2_990,
  converter: 3_270,
  dashboard: 9_240,
  exchange: 2_690,
  filter: 1_190,
  gateway: 2_590,
  'guarded-path': 230,
  http: 3_780,
  ledger: 19_520,
  network: 10_700,
  'rate-feed': 1_700,
  'sample-api': 700,
  storage: 13_190,
  tokens: 2_140,
}
const ENTRIES_MAX: Readonly<Record<string, number>> = { ledger: 14, cli: 12, storage: 14 }
const FUNCTION_LINES_MAX = 60
/** The same for a file with JSX, in which a view is one function. */
const VIEW_LINES_MAX = 80
/** Maximum share of functions whose name ends in `Of` or `In`. */
const VAGUE_SHARE_MAX = 0.04

interface Declared {
  readonly name: string
  readonly lines: number
}

interface SourceFile {
  readonly path: string
  readonly lines: number
  readonly functions: readonly Declared[]
  /** Names that the file itself declares and exports. */
  readonly exported: readonly string[]
}

/** A node of the syntax tree. Other members depend on `type`. */
interface Syntax {
  readonly type: string
  readonly start: number
  readonly end: number
  readonly [member: string]: unknown
}

const isSyntax = (value: unknown): value is Syntax =>
  typeof value === 'object' && value !== null && 'type' in value

const nameFrom = (key: unknown): string => {
  const { name, value } = (key ?? {}) as { name?: unknown; value?: unknown }
  return String(name ?? value ?? '')
}

/** Returns the functions below `node`. `name` is the name of the variable or member that has `node` as its value. */
function functionsBelow(node: unknown, text: string, name = ''): Declared[] {
  if (Array.isArray(node)) return node.flatMap((one) => functionsBelow(one, text))
  if (!isSyntax(node)) return []
  const isFunction = /^(FunctionDeclaration|FunctionExpression|ArrowFunctionExpression)$/
  const found: Declared[] = []
  if (isFunction.test(node.type) && isSyntax(node.body)) {
    const lines = text.slice(node.start, node.end).split('\n').length
    found.push({ name: nameFrom(node.id) || name, lines })
  }
  for (const [member, value] of Object.entries(node)) {
    const isValue = member === 'value' || member === 'init'
    found.push(...functionsBelow(value, text, isValue ? nameFrom(node.key ?? node.id) : ''))
  }
  return found
}

function exportedFrom(body: readonly unknown[]): string[] {
  return body.flatMap((statement) => {
    if (!isSyntax(statement) || statement.type !== 'ExportNamedDeclaration') return []
    const declaration = statement.declaration as
      | (Syntax & { id?: unknown; declarations?: { id: unknown }[] })
      | null
    if (declaration === null) return []
    return (declaration.declarations ?? [declaration]).map(({ id }) => nameFrom(id))
  })
}

const sources: SourceFile[] = files
  .filter((path) => !isTest(path) && !basename(path).startsWith('test-'))
  .map((path) => {
    const text = readFileSync(path, 'utf8')
    const { program } = parseSync(path, text)
    return {
      path,
      lines: text.split('\n').length - 1,
      functions: functionsBelow(program.body, text),
      exported: exportedFrom(program.body),
    }
  })

it('only test files named .mocked replace modules, because Node imports those of the others', () => {
  const replacing = [...filesBelow(src), ...filesBelow(join(root, 'test'))]
    .filter((path) => path.endsWith('.test.ts') && !path.endsWith('.mocked.test.ts'))
    .filter((path) => /vi\.(mock|doMock|resetModules)\(/.test(readFileSync(path, 'utf8')))
  expect(replacing).toEqual([])
})

it('no module has more lines than its budget', () => {
  const lines: Record<string, number> = {}
  for (const file of sources) {
    lines[moduleOf(file.path)] = (lines[moduleOf(file.path)] ?? 0) + file.lines
  }
  const over = Object.entries(lines).filter(([name, count]) => count > (LINES_MAX[name] ?? 0))
  expect(over).toEqual([])
})

it('the roots of large modules stay short', () => {
  const over = Object.entries(ENTRIES_MAX).flatMap(([name, max]) => {
    const entries = readdirSync(join(src, name))
    return entries.length > max ? [`${name}: ${entries.join(' ')}`] : []
  })
  expect(over).toEqual([])
})

it('no function is longer than a screen', () => {
  const long = sources.flatMap(({ path, functions }) => {
    const max = path.endsWith('x') ? VIEW_LINES_MAX : FUNCTION_LINES_MAX
    return functions
      .filter(({ lines }) => lines > max)
      .map(({ name, lines }) => `${relative(src, path)}: ${name} has ${lines} lines`)
  })
  expect(long).toEqual([])
})

it('no exported name has two meanings, except in the two engines', () => {
  const places = new Map<string, Set<string>>()
  for (const { path, exported } of sources) {
    const place = relative(src, path).replace(/^storage\/(sqlite|postgres)\/.*/, 'storage engine')
    for (const name of exported) places.set(name, (places.get(name) ?? new Set()).add(place))
  }
  const twice = [...places].filter(([, where]) => where.size > 1)
  expect(twice.map(([name, where]) => `${name}: ${[...where].join(', ')}`)).toEqual([])
})

it('names of functions say what they return, seldom with a bare Of or In', () => {
  const names = sources
    .flatMap(({ functions }) => functions.map(({ name }) => name))
    .filter(Boolean)
  const vague = names.filter((name) => /[a-z0-9](Of|In)$/.test(name))
  expect(vague.length, vague.join(' ')).toBeLessThan(names.length * VAGUE_SHARE_MAX)
})
