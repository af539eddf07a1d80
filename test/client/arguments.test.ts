// The client refuses arguments that cannot be sent, before it sends a request.
import { describe, expect, it } from 'vitest'
import { LedgerClient } from '../../src/client/index.ts'
import { collected, fakeNode, json, noted } from './fake-node.ts'

const WRITTEN = json(200, { status: true, id: 'x' }, { 'ledger-position': '1/2.0' })

describe('a value in a request', () => {
  const cycle: Record<string, unknown> = {}
  cycle.self = { cycle }
  const holes: unknown[] = []
  holes.length = 2
  let deep: unknown = 1
  for (let depth = 0; depth < 64; depth += 1) deep = [deep]
  it.each([
    ['NaN', { price: Number.NaN }, 'body/price is NaN, which JSON cannot hold'],
    ['Infinity', { a: [1, -1 / 0] }, 'body/a/1 is -Infinity, which JSON cannot hold'],
    ['a BigInt', { price: 3n }, 'body/price is a bigint, which JSON cannot hold'],
    ['a cycle', cycle, 'body/self/cycle contains itself, which JSON cannot hold'],
    ['undefined in a list', { a: [undefined] }, 'body/a/0 is undefined, which JSON cannot hold'],
    ['a hole in a list', { a: holes }, 'body/a/0 is undefined, which JSON cannot hold'],
    ['a function', { f: () => 1 }, 'body/f is a function, which JSON cannot hold'],
    ['a symbol', { s: Symbol('s') }, 'body/s is a symbol, which JSON cannot hold'],
    ['a Map', { m: new Map() }, 'body/m is a Map, which JSON cannot hold'],
    ['a Set', { m: new Set() }, 'body/m is a Set, which JSON cannot hold'],
    ['a Promise', { m: Promise.resolve(1) }, 'body/m is a Promise, which JSON cannot hold'],
    ['a buffer', { b: new ArrayBuffer(2) }, 'body/b is a ArrayBuffer, which JSON cannot hold'],
    ['bytes', { b: new Uint8Array(2) }, 'body/b is a Uint8Array, which JSON cannot hold'],
    [
      'an invalid Date',
      { d: new Date(Number.NaN) },
      'body/d is an invalid Date, which JSON cannot hold',
    ],
    ['too many levels', { deep }, `body/deep${'/0'.repeat(63)} is nested deeper than 64`],
  ])(
    'a value in a request is refused if it contains %s; the error names the path, and no request is sent',
    async (_, item, message) => {
      const node = await fakeNode(WRITTEN)
      const timing = noted()
      const ledger = new LedgerClient(node.url, { timing })
      const fruit = ledger.database<object>('fruit')
      const refused = { name: 'ClientError', code: 'VALUE_INVALID', status: 0, message }
      await expect(fruit.create(item)).rejects.toMatchObject(refused)
      await expect(fruit.replace('x', item)).rejects.toMatchObject(refused)
      await expect(fruit.patch('x', item)).rejects.toMatchObject(refused)
      await expect(fruit.createAll([{}, item])).rejects.toMatchObject({
        ...refused,
        message: message.startsWith('body/deep')
          ? `body/1/deep${'/0'.repeat(62)} is nested deeper than 64`
          : message.replace('body', 'body/1'),
      })
      expect([node.requests, timing.waits]).toEqual([[], []])
    },
  )

  it('a value in a request is refused in a unit of work and in a filter if JSON cannot contain it', async () => {
    const node = await fakeNode(WRITTEN)
    const ledger = new LedgerClient(node.url)
    const change = { method: 'create_item', db: 'fruit', item: { n: Number.NaN } } as const
    await expect(ledger.record([change])).rejects.toMatchObject({
      message: 'body/entries/0/item/n is NaN, which JSON cannot hold',
    })
    const query = (where: Record<string, unknown>) =>
      collected(ledger.database('fruit').query({ filter: { where } }))
    await expect(query({ price: { lt: Number.NaN } })).rejects.toMatchObject({
      message: 'filter/where/price/lt is NaN, which JSON cannot hold',
    })
    await expect(query({ owner: undefined })).rejects.toMatchObject({
      message: 'filter/where/owner is undefined, which JSON cannot hold',
    })
    expect(node.requests).toEqual([])
  })
})

it('sends a date as text, and omits a member that is undefined', async () => {
  const node = await fakeNode(WRITTEN)
  const shared = { n: -0 }
  const item = { at: new Date(0), none: undefined, a: shared, b: shared, text: 'x' }
  await new LedgerClient(node.url).database<object>('fruit').create(item)
  expect(node.requests[0]?.body).toBe(
    '{"at":"1970-01-01T00:00:00.000Z","a":{"n":0},"b":{"n":0},"text":"x"}',
  )
})

it('refuses a token or a precondition that a header cannot contain, and sends no request', async () => {
  const timing = noted()
  const node = await fakeNode(WRITTEN)
  const ledger = new LedgerClient(node.url, { timing, token: 'sec\nret' })
  await expect(ledger.databases()).rejects.toMatchObject({
    code: 'VALUE_INVALID',
    message: 'the value of the header authorization has a character that no header can have',
  })
  const fruit = new LedgerClient(node.url, { timing }).database('fruit')
  await expect(fruit.delete('x', { ifMatch: '"台"' })).rejects.toMatchObject({
    code: 'VALUE_INVALID',
  })
  expect([node.requests, timing.waits]).toEqual([[], []])
})

const EXAMPLE = 'use a URL like http://127.0.0.1:4126, and give a token separately'
const PARTS = 'a user name, a password, a query or a fragment'
it.each([
  ['x', `"x" is not the URL of a server; ${EXAMPLE}`],
  ['', `"" is not the URL of a server; ${EXAMPLE}`],
  ['localhost:4126', `"localhost:4126" is not the URL of a server; ${EXAMPLE}`],
  ['http://u:secret@h', `the URL of a server must not have ${PARTS}; ${EXAMPLE}`],
  ['http://h/?token=secret', `the URL of a server must not have ${PARTS}; ${EXAMPLE}`],
])('the client explains why it refuses the URL %j', (url, message) => {
  expect(() => new LedgerClient(url)).toThrow(new TypeError(message))
})

it('refuses invalid timeouts and numbers of retries, and unknown options', () => {
  for (const options of [
    { timeoutMs: Number.NaN },
    { timeoutMs: 0 },
    { timeoutMs: Number.POSITIVE_INFINITY },
    { retries: Number.NaN },
    { retries: -1 },
    { retries: 1, Verify: {} },
  ]) {
    expect(() => new LedgerClient('http://127.0.0.1:1', options)).toThrow(TypeError)
  }
  const misspelt = { verify: { key: '', checkpoint: { get: () => '', set() {} }, witness: [] } }
  expect(() => new LedgerClient('http://127.0.0.1:1', misspelt)).toThrow(
    new TypeError('there is no option verify.witness'),
  )
})
