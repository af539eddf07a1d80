import { expect, it } from 'vitest'
import { compiledEngine } from './engine.ts'
import { Guest, type GuestAnswer, GuestBootError } from './guest.ts'
import { GuestClock } from './guest-clock.ts'

const program = {
  name: 'program.js',
  text: `(host, log) => {
    globalThis.count = 0; globalThis.ask = host; globalThis.say = log
    return (code) => {
      const value = (0, eval)(code)
      return value instanceof Promise ? value.then(String) : String(value)
    }
  }`,
}
const silent = async () => 'nothing'
const engine = await compiledEngine()
const clock = new GuestClock()
const options = { program, scripts: [], engine, clock, memoryBytes: 64 * 1024 * 1024 }

const started = () => Guest.boot(options, 2_000)
const evaluate = (
  guest: Guest,
  request: string,
  answer: (request: string) => Promise<string> = silent,
  withinMs = 10_000,
): Promise<GuestAnswer> => guest.call(request, { answer, log: () => {} }, withinMs)

it('returns the value of a script, or of its promise', async () => {
  const guest = await started()
  expect(await evaluate(guest, '6 * 7')).toEqual({ value: '42' })
  const later = '(async () => { await null; return "later" })()'
  expect(await evaluate(guest, later)).toEqual({ value: 'later' })
})

it('resets all state of the scripts after each call', async () => {
  const guest = await started()
  const leave = `count += 1; Object.prototype.own = 1; Array.prototype.map = null
    globalThis.left = 1; JSON.parse = () => 7; count`
  expect(await evaluate(guest, leave)).toEqual({ value: '1' })
  const look = '[count, ({}).own, typeof [].map, typeof left, JSON.parse("1")].join()'
  expect(await evaluate(guest, look)).toEqual({ value: '0,,function,undefined,1' })
})

it('resets changes to a large array that a script of the network created', async () => {
  const scripts = [{ name: 'lib/table.js', text: 'var table = new Uint8Array(8 << 20)' }]
  const guest = await Guest.boot({ ...options, scripts }, 2_000)
  const count = 'const at = 4 << 20; table[at] += 1; table[at]'
  expect(await evaluate(guest, count)).toEqual({ value: '1' })
  expect(await evaluate(guest, count)).toEqual({ value: '1' })
})

it('answers requests in order, even requests that the script does not await', async () => {
  const guest = await started()
  const requests: string[] = []
  const host = async (request: string) => {
    requests.push(request)
    if (request === 'no') throw new Error('that is refused')
    return request.toUpperCase()
  }
  const value = `(async () => { let text = (await ask('a')) + (await ask('b'))
    try { await ask('no') } catch (error) { text += error.message }
    ask('later'); ask('no')
    return text })()`
  expect(await evaluate(guest, value, host)).toEqual({ value: 'ABthat is refused' })
  expect(requests).toEqual(['a', 'b', 'no', 'later', 'no'])
})

it('limits the total length of unanswered requests', async () => {
  const guest = await started()
  const code = `const text = 'x'.repeat(4e6); let count = 0
    try { for (;;) { ask(text); count += 1 } } catch (error) { count + ' ' + error.message }`
  const bounded = { value: '16 too many requests wait for an answer' }
  expect(await evaluate(guest, code)).toEqual(bounded)
  const next = guest.worn ? await started() : guest
  expect(await evaluate(next, code)).toEqual(bounded)
})

it('passes logged lines to the host, and throws in the script if the host throws', async () => {
  const guest = await started()
  const lines: string[] = []
  const log = (text: string) => {
    lines.push(text)
    if (text === 'no') throw new TypeError('that is refused')
  }
  const code = `say('a'); try { say('no') } catch (error) { error.name + error.message }`
  const answer = await guest.call(code, { answer: silent, log }, 10_000)
  expect([answer, lines]).toEqual([{ value: 'Errorthat is refused' }, ['a', 'no']])
})

it.each([
  ['an endless loop', 'for (;;);', 'DEADLINE'],
  ['an endless loop that catches errors', 'for (;;) try { for (;;); } catch {}', 'DEADLINE'],
  ['an endless sort', '[1, 2, 3].sort(() => { for (;;); })', 'DEADLINE'],
  ['a catastrophic pattern', '/(a+)+$/.test("a".repeat(40) + "b")', 'DEADLINE'],
  ['an error with an endless message getter', 'throw { get message() { for (;;); } }', 'DEADLINE'],
  [
    'an endless allocation of arrays',
    'const a = []; for (;;) a.push(new Array(1000).fill(1))',
    'MEMORY',
  ],
  [
    'an endless allocation of buffers',
    'const b = []; for (;;) b.push(new ArrayBuffer(1 << 20))',
    'MEMORY',
  ],
  ['a giant string', 'let s = "x"; for (;;) s += s', 'MEMORY'],
  ['a giant array', 'new Array(1e8).fill(1)', 'MEMORY'],
  ['endless recursion', 'function f() { f() }; f()', 'MEMORY'],
])('stops %s, and the next call works', async (_name, code, failed) => {
  const guest = await started()
  const withinMs = failed === 'MEMORY' ? 10_000 : 250
  expect(await evaluate(guest, code, silent, withinMs)).toMatchObject({ failed })
  // A caller must replace a guest that is `worn`, for example because its memory has grown.
  const next = guest.worn ? await started() : guest
  expect(await evaluate(next, 'count += 1')).toEqual({ value: '1' })
})

/** Scripts that never end, although most of them return or throw. */
const ENDLESS = [
  'new Proxy({}, { get() { for (;;); } })',
  '({ toString() { for (;;); } })',
  'JSON.stringify({ toJSON() { for (;;); } })',
  'for (const each of (function* () { for (;;) yield 1 })());',
  'for (const each of (function* () { try { yield 1 } finally { for (;;); } })()) break',
  '(async () => { for await (const each of (async function* () { for (;;) yield 1 })()); })()',
  'const next = () => Promise.resolve().then(next); next(); 1',
  'const next = () => ask("a").then(next); next(); 1',
  '(async () => { await { then(resolve) { resolve(this) } } })()',
  'Object.prototype.then = () => { for (;;); }; (async () => ({}))()',
  'class A extends Array { static get [Symbol.species]() { for (;;); } }; new A(1, 2).map(String)',
  'class P extends Promise { static get [Symbol.species]() { for (;;); } }; new P(() => {}).then(1)',
  'throw Object.defineProperty(new Error(), "stack", { get() { for (;;); } })',
  'throw { get name() { for (;;); } }',
  'throw { toJSON() { for (;;); } }',
  'throw new Proxy({}, { ownKeys() { for (;;); }, getOwnPropertyDescriptor() { for (;;); }, get() { for (;;); } })',
  'const f = () => { try { for (;;); } finally { f() } }; f()',
  'for (;;) { try { for (;;); } catch {} finally { continue } }',
  'console = say; console({ toString() { for (;;); } })',
]

it('stops endless scripts however they hide their loop: in traps, getters, iterators, promises or thrown values', async () => {
  let guest = await started()
  for (const code of ENDLESS) {
    const { failed } = { failed: 'no', ...(await evaluate(guest, code, silent, 40)) }
    expect([code, failed]).toEqual([code, 'DEADLINE'])
    if (guest.worn) guest = await started()
  }
  expect(await evaluate(guest, 'count += 1')).toEqual({ value: '1' })
})

it('describes any thrown value', async () => {
  const guest = await started()
  const said: Record<string, string> = {
    'throw 1n': '1',
    'throw Symbol("x")': 'Symbol(x)',
    'throw () => 1': '() => 1',
    'const a = {}; a.a = a; throw a': '[object Object]',
    'throw { toJSON() { throw 5 } }': '[object Object]',
    'const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); throw proxy': '',
    'throw new Error("x".repeat(9_999))': `Error: ${'x'.repeat(4_089)}`,
  }
  for (const [code, message] of Object.entries(said)) {
    expect([code, await evaluate(guest, code)]).toEqual([code, { failed: 'THROWN', message }])
  }
})

it('stops a script whose promise never settles', async () => {
  const guest = await started()
  for (const request of ['new Promise(() => {})', '(async () => { for (;;) await null })()']) {
    expect(await evaluate(guest, request, silent, 250)).toMatchObject({ failed: 'DEADLINE' })
  }
})

it('gives scripts no access to the `host` function and to the globals of Node', async () => {
  const guest = await started()
  const names = [
    'host',
    'process',
    'require',
    'fetch',
    'setTimeout',
    'Deno',
    'WebAssembly',
    'console',
  ]
  const look = `${JSON.stringify(names)}.map((name) => typeof globalThis[name]).join()`
  expect(await evaluate(guest, look)).toEqual({ value: names.map(() => 'undefined').join() })
  const escapeCode = 'this.constructor.constructor("return typeof process")()'
  expect(await evaluate(guest, escapeCode)).toEqual({ value: 'undefined' })
  expect(await evaluate(guest, 'import("node:fs")')).not.toMatchObject({ failed: 'LOST' })
})

it('reports the script that cannot be loaded, with the reason', async () => {
  const scripts = [{ name: 'lib/broken.js', text: 'function (' }]
  const booting = () => Guest.boot({ ...options, scripts }, 2_000)
  await expect(booting()).rejects.toThrow(GuestBootError)
  await expect(booting()).rejects.toThrow('lib/broken.js: SyntaxError')
  const endless = [{ name: 'lib/endless.js', text: 'for (;;);' }]
  await expect(Guest.boot({ ...options, scripts: endless }, 100)).rejects.toThrow('lib/endless.js')
})

it('reports that the guest must be replaced after its memory has grown', async () => {
  const guest = await started()
  expect(await evaluate(guest, '"x".repeat(3e7).length', silent, 20_000)).toEqual({
    value: '30000000',
  })
  expect(guest.worn).toBe(true)
})

it('counts the time of its host, except the waits for a database server', async () => {
  const guest = await started()
  const late = async () => {
    for (const untilMs = performance.now() + 60; performance.now() < untilMs; );
    return 'late'
  }
  const ask = (answer: () => Promise<string>) => guest.call("ask('read')", { answer, log() {} }, 50)
  expect(await ask(late)).toMatchObject({ failed: 'DEADLINE' })
  clock.begin()
  expect(await ask(() => clock.stopped(late))).toEqual({ value: 'late' })
})
