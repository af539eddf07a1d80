import { expect, it, onTestFinished } from 'vitest'
import type { GuestAnswer } from './guest.ts'
import type { Answerer } from './run.ts'
import { Sandbox, SandboxError } from './sandbox.ts'

const program = {
  name: 'program.js',
  text: `var count = 0; var ask = host; var say = tell; (code, known) => {
    globalThis.given = known
    const value = (0, eval)(code)
    return value instanceof Promise ? value.then(String) : String(value)
  }`,
}
const deadlineMs = 250
const silent: Answerer = async () => 'nothing'
const options = {
  program,
  scripts: [],
  memoryBytes: 64 * 1024 * 1024,
  bootMs: 2_000,
}

async function started(): Promise<Sandbox> {
  const sandbox = await Sandbox.start(options)
  onTestFinished(() => sandbox.close())
  return sandbox
}
const call = { role: 'processors', known: [], deadlineMs, areWritesAsked: false } as const
const evaluate = async (
  sandbox: Sandbox,
  request: string,
  answer = silent,
  withinMs = deadlineMs,
): Promise<GuestAnswer> =>
  (await sandbox.call({ ...call, request, deadlineMs: withinMs }, answer)).answer

it('gives back what the script returns, or a promise of it', async () => {
  const sandbox = await started()
  expect(await evaluate(sandbox, '6 * 7')).toEqual({ value: '42' })
  const later = '(async () => { await null; return "later" })()'
  expect(await evaluate(sandbox, later)).toEqual({ value: 'later' })
})

it('forgets everything that a call leaves behind', async () => {
  const sandbox = await started()
  const leave = `count += 1; Object.prototype.own = 1; Array.prototype.map = null
    globalThis.left = 1; JSON.parse = () => 7; count`
  expect(await evaluate(sandbox, leave)).toEqual({ value: '1' })
  const look = '[count, ({}).own, typeof [].map, typeof left, JSON.parse("1")].join()'
  expect(await evaluate(sandbox, look)).toEqual({ value: '0,,function,undefined,1' })
})

it('forgets what a call leaves in a long table that the scripts of the network made', async () => {
  const scripts = [{ name: 'lib/table.js', text: 'var table = new Uint8Array(8 << 20)' }]
  const sandbox = await Sandbox.start({ ...options, scripts })
  onTestFinished(() => sandbox.close())
  const count = 'const at = 4 << 20; table[at] += 1; table[at]'
  expect(await evaluate(sandbox, count)).toEqual({ value: '1' })
  expect(await evaluate(sandbox, count)).toEqual({ value: '1' })
})

it('answers what the script asks, while the script waits', async () => {
  const sandbox = await started()
  const asked: string[] = []
  const host: Answerer = async (request) => {
    asked.push(request)
    if (request === 'no') throw new Error('that is refused')
    return request.toUpperCase()
  }
  const value = `(() => { let text = ask('a') + ask('b')
    try { ask('no') } catch (error) { text += error.message }
    return text })()`
  expect(await evaluate(sandbox, value, host)).toEqual({ value: 'ABthat is refused' })
  expect(asked).toEqual(['a', 'b', 'no'])
})

it('is told what the script says with its next question, or at the end, or at once where that is wanted', async () => {
  const sandbox = await started()
  const heard: string[] = []
  const host: Answerer = async (request, told) => {
    heard.push(`${told.join()} ${request}`)
    return 'null'
  }
  const request = `say('a'); say('b'); ask('?'); say('c'); say('d'); 'end'`
  const ended = await sandbox.call({ ...call, request }, host)
  expect([heard, ended]).toEqual([
    ['a,b ?'],
    { answer: { value: 'end' }, told: ['c', 'd'], foreseen: [] },
  ])

  heard.length = 0
  const nothing = '{"ask":"nothing"}'
  expect((await sandbox.call({ ...call, request, areWritesAsked: true }, host)).told).toEqual([])
  expect(heard).toEqual([`a ${nothing}`, `b ${nothing}`, ' ?', `c ${nothing}`, `d ${nothing}`])

  heard.length = 0
  const many = `for (let n = 0; n < 250; n += 1) say('x'); 'end'`
  expect((await sandbox.call({ ...call, request: many }, host)).told).toHaveLength(50)
  expect(heard).toHaveLength(2)
  // What was told is not lost with a script that fails.
  const fails = `say('x'); throw new Error('no')`
  expect((await sandbox.call({ ...call, request: fails }, host)).told).toEqual(['x'])
})

it('gives calls that follow others what those wrote, and others what they were sent with', async () => {
  const sandbox = await started()
  const known = [{ type: 'T', identifier: 'id', id: 'a', text: '{"$class":"T","id":"a","n":1}' }]
  const write = `say('{"ask":"update","resources":[{"$class":"T","id":"a","n":2}]}')`
  const look = 'given'
  const before = sandbox.begin([{ ...call, known, request: write }])
  const behind = sandbox.begin([{ ...call, known, request: look }], true)
  const others = sandbox.begin([{ ...call, known, request: look }])
  const runs = [...before, ...behind, ...others]
  const ends = await Promise.all(
    runs.map(async (run) => [(await run.finish(silent))?.answer, await run.foreseen]),
  )
  const text = '{"$class":"T","id":"a","n":2}'
  expect(ends.slice(1)).toEqual([
    [{ value: `[${text}]` }, [{ at: 0, text }]],
    [{ value: `[${known[0]?.text}]` }, []],
  ])
})

it('does not run what was abandoned before it began', async () => {
  const sandbox = await started()
  const [first] = sandbox.begin([{ ...call, request: 'ask(1)' }])
  const [second] = sandbox.begin([{ ...call, request: 'say(1)' }], true)
  second?.abandon()
  expect((await first?.finish(silent))?.answer).toEqual({ value: 'nothing' })
  expect([await second?.foreseen, await second?.finish(silent)]).toEqual([null, null])
})

it('lets a call wait for its turn for longer than it may take', async () => {
  const sandbox = await started()
  const untilMs = performance.now() + 2 * deadlineMs
  const request = 'const given = ask(1); for (let at = 0; at < 1e5; at += 1); given'
  const [run] = sandbox.begin([{ ...call, request }])
  await run?.foreseen
  while (performance.now() < untilMs) await new Promise((resolve) => setImmediate(resolve))
  expect((await run?.finish(silent))?.answer).toEqual({ value: 'nothing' })
})

it('evaluates a condition while a processor waits for what it protects, and answers that too', async () => {
  const sandbox = await started()
  const host: Answerer = async (request, _told, evaluateCondition) => {
    const answer = await evaluateCondition({ request, deadlineMs }, async (asked) => `<${asked}>`)
    return JSON.stringify(answer)
  }
  const code = `count = 5; ask('ask("x") + (count + 1)') + ask('1')`
  const value = '{"value":"<x>1"}{"value":"1"}'
  expect(await evaluate(sandbox, code, host)).toEqual({ value })
})

it.each([
  ['an endless loop', 'for (;;);', 'DEADLINE'],
  ['an endless loop that catches', 'for (;;) try { for (;;); } catch {}', 'DEADLINE'],
  ['an endless sort', '[1, 2, 3].sort(() => { for (;;); })', 'DEADLINE'],
  ['a pattern that blows up', '/(a+)+$/.test("a".repeat(40) + "b")', 'DEADLINE'],
  ['an error whose message never ends', 'throw { get message() { for (;;); } }', 'DEADLINE'],
  ['a bomb of arrays', 'const a = []; for (;;) a.push(new Array(1000).fill(1))', 'MEMORY'],
  ['a bomb of buffers', 'const b = []; for (;;) b.push(new ArrayBuffer(1 << 20))', 'MEMORY'],
  ['a giant string', 'let s = "x"; for (;;) s += s', 'MEMORY'],
  ['a giant array', 'new Array(1e8).fill(1)', 'MEMORY'],
  ['endless recursion', 'function f() { f() }; f()', 'MEMORY'],
])('ends %s, and the next call is as if it had not been', async (_name, code, failed) => {
  const sandbox = await started()
  const withinMs = failed === 'MEMORY' ? 10_000 : deadlineMs
  expect(await evaluate(sandbox, code, silent, withinMs)).toMatchObject({ failed })
  expect(await evaluate(sandbox, 'count += 1')).toEqual({ value: '1' })
})

it('ends a script that waits for ever', async () => {
  const sandbox = await started()
  for (const request of ['new Promise(() => {})', '(async () => { for (;;) await null })()']) {
    expect(await evaluate(sandbox, request)).toMatchObject({ failed: 'DEADLINE' })
  }
})

it('reaches nothing of the machine', async () => {
  const sandbox = await started()
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
  expect(await evaluate(sandbox, look)).toEqual({ value: names.map(() => 'undefined').join() })
  const wayOut = 'this.constructor.constructor("return typeof process")()'
  expect(await evaluate(sandbox, wayOut)).toEqual({ value: 'undefined' })
  expect(await evaluate(sandbox, 'import("node:fs")')).not.toMatchObject({ failed: 'LOST' })
})

it('tells which script cannot be loaded, and why', async () => {
  const scripts = [{ name: 'lib/broken.js', text: 'function (' }]
  await expect(Sandbox.start({ ...options, scripts })).rejects.toThrow(SandboxError)
  await expect(Sandbox.start({ ...options, scripts })).rejects.toThrow('lib/broken.js: SyntaxError')
})

it('says that it is busy when its scripts, which were loaded once, cannot be loaded again; then goes on', async () => {
  const scripts: { name: string; text: string }[] = []
  const sandbox = await Sandbox.start({ ...options, scripts })
  onTestFinished(() => sandbox.close())
  const growing = '"x".repeat(3e7).length'
  expect(await evaluate(sandbox, growing, silent, 20_000)).toEqual({ value: '30000000' })
  // A machine that gives no thread cannot be had here: a script that throws stops the next start as well.
  scripts.push({ name: 'lib/broken.js', text: 'throw 1' })
  const refusal = { failed: 'BUSY', message: 'the sandbox did not start again' }
  expect(await evaluate(sandbox, '1')).toEqual(refusal)
  scripts.pop()
  expect(await evaluate(sandbox, '1')).toEqual({ value: '1' })
})
