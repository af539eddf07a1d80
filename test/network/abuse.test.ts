// Malicious scripts, tested over HTTP. Each script fails with a documented error, and does not affect other networks
// or later transactions.
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type GatewayNode, networkOf, startGateway } from '../support/gateway.ts'

const MODEL = `namespace org.test
asset Thing identified by id { o String id o Double value default=0 }
transaction Run { o String code }
@returns(String)
transaction Ask { o String code }`
const LIB = `var left = 0
/** @param {org.test.Run} tx the transaction
 *  @transaction */
async function run(tx) { await (0, eval)('(async () => {' + tx.code + '})')() }
/** @param {org.test.Ask} tx the transaction
 *  @transaction */
async function ask(tx) { return String(await (0, eval)('(async () => {' + tx.code + '})')()) }`

let node: GatewayNode
beforeAll(async () => {
  const other = networkOf(MODEL, { 'lib/run.js': LIB }, { name: 'other' })
  const deploy = [networkOf(MODEL, { 'lib/run.js': LIB }), other]
  node = await startGateway({ deploy, deadlineMs: 1_000 })
  await node.send('POST', '/api/Thing', { id: 'a' })
})
afterAll(() => node.close())

const run = (code: string) => node.send('POST', '/api/Run', { code })
const ask = async (code: string) => (await node.send('POST', '/api/Ask', { code })).json

const DEADLINE = [504, 'PROCESSOR_DEADLINE']
// Tests of the memory limit also accept DEADLINE, because a script may reach its deadline first on a slow computer.
const MEMORY = [500, 'PROCESSOR_MEMORY']
const FAILED = [422, 'TRANSACTION_FAILED']

it.each([
  ['an endless loop', 'for (;;);', [DEADLINE]],
  ['an endless loop of awaits', 'for (;;) await null', [DEADLINE]],
  ['a promise that never settles', 'await new Promise(() => {})', [DEADLINE]],
  [
    'an endless sequence of registry calls',
    'const r = await getAssetRegistry("org.test.Thing"); for (;;) await r.exists("a")',
    [DEADLINE],
  ],
  [
    'an endless number of arrays',
    'const a = []; for (;;) a.push(new Array(100000).fill(1))',
    [MEMORY, DEADLINE],
  ],
  [
    'an endless number of buffers',
    'const a = []; for (;;) a.push(new ArrayBuffer(1 << 20))',
    [MEMORY, DEADLINE],
  ],
  ['a giant string', 'let s = "x"; for (;;) s += s', [MEMORY, DEADLINE]],
  ['a log line that is too long', 'console.log("x".repeat(2 ** 26))', [MEMORY, FAILED, DEADLINE]],
  ['endless recursion', 'const f = () => f() + 1; f()', [MEMORY, FAILED]],
  [
    'a regular expression with catastrophic backtracking',
    '/^(a+)+$/.test("a".repeat(50) + "b")',
    [DEADLINE],
  ],
  ['an error with an endless message getter', 'throw { get message() { for (;;); } }', [DEADLINE]],
  ['an undefined error', 'throw undefined', [FAILED]],
  [
    'too many changes',
    `const f = getFactory(), r = await getAssetRegistry("org.test.Thing")
    await r.addAll(Array.from({ length: 3000 }, (_, n) => f.newResource("org.test", "Thing", "t" + n)))`,
    [FAILED, DEADLINE],
  ],
  [
    'an escape through the constructor',
    'this.constructor.constructor("return process")().exit()',
    [FAILED],
  ],
  ['a result that is not JSON', 'JSON.stringify = () => "{"; return 1', [FAILED]],
  [
    'registry calls that are not JSON',
    'JSON.stringify = () => "{"; (await getAssetRegistry("org.test.Thing")).getAll()',
    [FAILED],
  ],
  ['an import of a module', 'await import("node:fs")', [FAILED]],
  ['fetch', 'await fetch("http://127.0.0.1")', [FAILED]],
  ['a timer', 'await new Promise((done) => setTimeout(done, 1))', [FAILED]],
  ['the function `host` of the sandbox', 'host("{}")', [FAILED]],
  [
    'shared memory',
    'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)',
    [FAILED, MEMORY],
  ],
])(
  'a transaction that uses %s fails, and no other network is affected',
  async (_name, code, allowed) => {
    const otherNetwork = node.send('POST', '/other/api/Ask', { code: 'return left += 1' })
    const reply = await run(code)
    const { statusCode, code: errorCode } = reply.json.error
    expect(allowed).toContainEqual([statusCode, errorCode])
    expect(reply.text).not.toMatch(/\bat .*\.ts|node_modules/)
    expect((await otherNetwork).json).toBe('1')
    expect(await ask('return left += 1')).toBe('1')
    expect((await node.send('GET', '/api/Thing')).json).toHaveLength(1)
  },
)

it('starts each transaction without the script state that earlier transactions left', async () => {
  const spoil = `left = 9; Object.prototype.own = 1; Array.prototype.map = null; JSON.parse = () => 7
    Promise.prototype.then = null; globalThis.run = globalThis.ask = null; Map.prototype.get = null
    Math.random = () => 4; getAssetRegistry = null; Object.defineProperty(globalThis, "x", { value: 1 })`
  await run(spoil)
  const look = 'return [left, ({}).own, typeof [].map, typeof x, typeof getAssetRegistry].join()'
  expect(await ask(look)).toBe('0,,function,undefined,function')
})

it('gives a sandbox no access to the host', async () => {
  const names = 'process require fetch setTimeout WebAssembly XMLHttpRequest host MODEL ask_ STATE'
  const look = `return "${names}".split(" ").map((name) => typeof globalThis[name]).join()`
  expect(await ask(look)).toBe(
    names
      .split(' ')
      .map(() => 'undefined')
      .join(),
  )
})

it('rejects registry calls with an empty id, an id that is too long, or an undeclared type', async () => {
  const code = `const f = getFactory(), r = await getAssetRegistry("org.test.Thing"), said = []
    for (const id of ["", "x".repeat(300), "a/../b", "#", "\\u0000"]) {
      try { await r.add(f.newResource("org.test", "Thing", id)); said.push("ok") } catch (e) { said.push("no") }
    }
    try { await getAssetRegistry("constructor") } catch (e) { said.push(e.message) }
    return said.join()`
  const missing =
    "Object with ID 'Asset:constructor' in collection with ID '$sysregistries' does not exist"
  expect(await ask(code)).toBe(`no,no,ok,ok,ok,${missing}`)
})
