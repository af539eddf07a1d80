import { expect, it, onTestFinished } from 'vitest'
import type { GuestAnswer } from './guest.ts'
import { Sandbox, SandboxError, type SandboxHost } from './sandbox.ts'

const script = {
  name: 'evaluate.js',
  text: `var count = 0
    function evaluate(code) { return String((0, eval)(code)) }
    async function later(code) { return String(await (0, eval)(code)) }`,
}
const deadlineMs = 250
const silent: SandboxHost = { answer: async () => 'nothing' }

async function started(): Promise<Sandbox> {
  const scripts = { processors: [script], conditions: [script] }
  const sandbox = await Sandbox.start({ scripts, memoryBytes: 64 * 1024 * 1024, bootMs: 2_000 })
  onTestFinished(() => sandbox.close())
  return sandbox
}
const evaluate = (sandbox: Sandbox, request: string, host = silent): Promise<GuestAnswer> =>
  sandbox.call({ role: 'processors', name: 'evaluate', request, deadlineMs }, host)

it('gives back what the script returns, or a promise of it', async () => {
  const sandbox = await started()
  expect(await evaluate(sandbox, '6 * 7')).toEqual({ value: '42' })
  const call = { role: 'processors', name: 'later', deadlineMs } as const
  const request = '(async () => { await null; return "later" })()'
  expect(await sandbox.call({ ...call, request }, silent)).toEqual({ value: 'later' })
})

it('forgets everything that a call leaves behind', async () => {
  const sandbox = await started()
  const leave = `count += 1; Object.prototype.own = 1; Array.prototype.map = null
    globalThis.left = 1; JSON.parse = () => 7; count`
  expect(await evaluate(sandbox, leave)).toEqual({ value: '1' })
  const look = '[count, ({}).own, typeof [].map, typeof left, JSON.parse("1")].join()'
  expect(await evaluate(sandbox, look)).toEqual({ value: '0,,function,undefined,1' })
})

it('answers what the script asks, while the script waits', async () => {
  const sandbox = await started()
  const asked: string[] = []
  const host: SandboxHost = {
    async answer(request) {
      asked.push(request)
      if (request === 'no') throw new Error('that is refused')
      return request.toUpperCase()
    },
  }
  const value = `(() => { let text = host('a') + host('b')
    try { host('no') } catch (error) { text += error.message }
    return text })()`
  expect(await evaluate(sandbox, value, host)).toEqual({ value: 'ABthat is refused' })
  expect(asked).toEqual(['a', 'b', 'no'])
})

it('evaluates a condition while a processor waits for what it protects', async () => {
  const sandbox = await started()
  const host: SandboxHost = {
    async answer(request, evaluateCondition) {
      const answer = await evaluateCondition({ name: 'evaluate', request, deadlineMs })
      return JSON.stringify(answer)
    },
  }
  const code = `count = 5; host('count + 1')`
  expect(await evaluate(sandbox, code, host)).toEqual({ value: '{"value":"1"}' })
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
  expect(await evaluate(sandbox, code)).toMatchObject({ failed })
  expect(await evaluate(sandbox, 'count += 1')).toEqual({ value: '1' })
})

it('ends a script that waits for ever', async () => {
  const sandbox = await started()
  const call = { role: 'processors', name: 'later', deadlineMs } as const
  for (const request of ['new Promise(() => {})', '(async () => { for (;;) await null })()']) {
    expect(await sandbox.call({ ...call, request }, silent)).toMatchObject({ failed: 'DEADLINE' })
  }
})

it('reaches nothing of the machine', async () => {
  const sandbox = await started()
  const names = ['process', 'require', 'fetch', 'setTimeout', 'Deno', 'WebAssembly', 'console']
  const look = `${JSON.stringify(names)}.map((name) => typeof globalThis[name]).join()`
  expect(await evaluate(sandbox, look)).toEqual({ value: names.map(() => 'undefined').join() })
  const wayOut = 'this.constructor.constructor("return typeof process")()'
  expect(await evaluate(sandbox, wayOut)).toEqual({ value: 'undefined' })
  expect(await evaluate(sandbox, 'import("node:fs")')).not.toMatchObject({ failed: 'LOST' })
})

it('tells which script cannot be loaded, and why', async () => {
  const broken = { name: 'lib/broken.js', text: 'function (' }
  const scripts = { processors: [script, broken], conditions: [script] }
  const options = { scripts, memoryBytes: 64 * 1024 * 1024, bootMs: 2_000 }
  await expect(Sandbox.start(options)).rejects.toThrow(SandboxError)
  await expect(Sandbox.start(options)).rejects.toThrow('lib/broken.js: SyntaxError')
})
