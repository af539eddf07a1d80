// Loads and dumps 10,000 generated items in each format, there and back, and through the modules csv and json of
// Python. Needs Python 3: npm run build && node scripts/run.mjs test/foreign/exchange.ts (arguments: the number of
// items and the seed)
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { canonicalJson } from '../../src/base/canonical-json.ts'
import { type Json, type JsonObject, parseJson } from '../../src/base/json.ts'
import { DUMP_FORMATS } from '../../src/exchange/choices.ts'
import { startProgram } from '../support/program.ts'

const [count = 10_000, seed = 1] = process.argv.slice(2).map(Number)
const folder = mkdtempSync(join(tmpdir(), 'daicho-foreign-'))
const settings = { SYSTEM_FOLDER: join(folder, 'data') }
const PYTHON = fileURLToPath(new URL('exchange.py', import.meta.url))

// Names and texts that a format could confuse with its own syntax, and any others.
const NAMES = [
  ...['', ' ', 'a', 'b:number', ':string', 'a,b', 'a;b', '"', '""', "'", 'x\ny', 'x\r\ny', 'x\r'],
  ...[
    'sep=;',
    '\t',
    '\\',
    '\\n',
    '_id',
    'ID',
    '__name__',
    '日本語',
    '🍎',
    '\u0301',
    '\ufeff',
    '=1+1',
    'constructor',
  ],
]
const TEXTS = [
  ...NAMES,
  '1',
  '01',
  '1e5',
  'true',
  'null',
  '[]',
  '2026-02-30',
  '\0',
  '\u2028',
  '  x  ',
]
const text = fc.oneof(fc.constantFrom(...TEXTS), fc.string({ unit: 'binary', maxLength: 12 }))
const value = fc
  .oneof(
    text,
    fc.jsonValue({ maxDepth: 3, stringUnit: 'grapheme', noNegativeZero: true } as object),
  )
  .map((each): Json => parseJson(JSON.stringify(each)))
  .filter(
    (each) => !/"__proto__":|\\ud[89a-f]|:-0[,}\]]|^-0$|[,[]-0[,\]]/i.test(JSON.stringify(each)),
  )
const item = fc.dictionary(fc.constantFrom(...NAMES), value, { maxKeys: 6 })

const items: JsonObject[] = fc
  .sample(item, { numRuns: count, seed })
  .map((each, at) => ({ ...parseJson(JSON.stringify(each)), id: `i${at}` }))
const sorted = (list: readonly JsonObject[]) =>
  list.map((each) => `${canonicalJson(each)}\n`).join('')

async function daicho(...args: string[]): Promise<void> {
  const { code, stderr } = await startProgram(args, settings).ended
  if (code !== 0) throw new Error(`daicho ${args.join(' ')}: ${stderr}`)
}

function python(...args: string[]): string {
  return execFileSync('python3', [PYTHON, ...args], { encoding: 'utf8', maxBuffer: 2 ** 30 })
}

function expectEqual(found: string, expected: string, what: string): void {
  if (found === expected) return
  const others = expected.split('\n')
  const at = found.split('\n').findIndex((line, n) => line !== others[n])
  throw new Error(`${what}: item ${at} is ${found.split('\n')[at]}, not ${others[at]}`)
}

let databases = 0
/** Loads a file into a new database, and returns the items as NDJSON. */
async function reload(path: string): Promise<string> {
  databases += 1
  const out = join(folder, 'out.ndjson')
  await daicho('load', `db${databases}`, path)
  await daicho('dump', `db${databases}`, '--out', out)
  return readFileSync(out, 'utf8')
}

/** Removes empty texts, which Python's csv does not tell from absent members. */
const withoutEmpty = (list: readonly JsonObject[]): JsonObject[] =>
  list.map((each) => Object.fromEntries(Object.entries(each).filter(([, member]) => member !== '')))
const parsed = (ndjson: string): JsonObject[] => ndjson.split('\n').filter(Boolean).map(parseJson)

try {
  mkdirSync(settings.SYSTEM_FOLDER)
  const source = join(folder, 'source.ndjson')
  writeFileSync(source, sorted(items))
  await daicho('load', 'items', source)
  for (const format of DUMP_FORMATS) {
    const dumped = join(folder, `dump.${format}`)
    await daicho('dump', 'items', '--out', dumped)
    expectEqual(await reload(dumped), sorted(items), `${format} there and back`)
    const toComparable = format === 'csv' ? withoutEmpty : (list: JsonObject[]) => list
    const given = toComparable(items)
    const read = toComparable(parsed(python('read', format, dumped)))
    expectEqual(sorted(read), sorted(given), `${format} read by Python`)
    const written = join(folder, `python.${format}`)
    writeFileSync(source, sorted(given))
    python('write', format, source, written)
    expectEqual(await reload(written), sorted(given), `${format} written by Python`)
    const size = Math.round(readFileSync(dumped).length / 1024)
    console.log(`${format}: ${count} items (${size} KiB) are equal`)
  }
} finally {
  rmSync(folder, { recursive: true })
}
