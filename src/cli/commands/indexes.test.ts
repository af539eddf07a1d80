import { describe, expect, it } from 'vitest'
import { answering } from '../../../test/support/answering.ts'
import { runHere } from '../../../test/support/command.ts'
import { runDaicho, serveLedger } from '../../../test/support/daicho.ts'
import { temporaryFolder } from '../../../test/support/ledger-node.ts'
import { stallDetector } from '../actions/indexes.ts'
import { indexCommand } from './indexes.ts'

async function withFruit(folder: string) {
  const server = await serveLedger(folder)
  const post = (path: string, body?: unknown) =>
    fetch(server.url + path, {
      method: 'POST',
      ...(body === undefined
        ? {}
        : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    })
  await post('/api/fruit')
  await post('/api/fruit', [{ n: 1 }, { n: 2 }])
  return server
}

describe('daicho index', () => {
  it('adds, lists and removes indexes of a running node and of a stopped node', async () => {
    const folder = temporaryFolder()
    const server = await withFruit(folder)
    const at = ['--url', server.url]
    const added = await runDaicho(['index', 'add', 'fruit', 'n', ...at])
    expect([added.code, added.stdout]).toEqual([0, 'index on n of fruit: ready\n'])
    expect(added.stderr).toContain('indexing 100 %')
    const twice = await runDaicho(['index', 'add', 'fruit', 'n', ...at])
    expect([twice.code, twice.stdout]).toEqual([1, ''])
    expect(twice.stderr).toBe(
      'daicho: the node rejected the request: there is already an index on n of fruit\n',
    )
    const ready = { db: 'fruit', path: 'n', state: 'ready', done: 2, total: 2 }
    const beside = await runDaicho(['index', 'list', '--json'], { SYSTEM_FOLDER: folder })
    expect(JSON.parse(beside.stdout)).toEqual({ status: true, indexes: [ready] })
    const refused = await runDaicho(['index', 'add', 'fruit', 'm'], { SYSTEM_FOLDER: folder })
    expect([refused.code, refused.stderr]).toEqual([78, expect.stringContaining('--url')])

    server.child.kill('SIGTERM')
    expect((await server.ended).code).toBe(0)
    const variables = { SYSTEM_FOLDER: folder }
    const resting = await runDaicho(['index', 'add', 'fruit', 'm.x', '--json'], variables)
    expect([resting.code, resting.stdout]).toEqual([
      0,
      '{"status":true,"db":"fruit","path":"m.x","index":"ready"}\n',
    ])
    expect((await runDaicho(['index', 'remove', 'fruit', 'n'], variables)).stdout).toBe(
      'index on n of fruit: removed\n',
    )
    expect((await runDaicho(['index', 'list'], variables)).stdout).toBe('fruit  m.x  ready\n')
    const gone = await runDaicho(['index', 'remove', 'fruit', 'n'], variables)
    expect([gone.code, gone.stderr]).toEqual([1, 'daicho: there is no index on n of fruit\n'])
  })

  it('gives up a build only if no index has grown for five minutes', () => {
    const isStalled = stallDetector()
    const times = [0, 300_000, 300_001, 600_001, 600_002]
    const progress = ['a 0, b 0', 'a 0, b 0', 'a 1, b 0', 'a 1, b 0', 'a 1, b 0']
    const stalled = times.map((ms, at) => isStalled(progress[at] ?? '', ms))
    expect(stalled).toEqual([false, false, false, false, true])
  })

  it('reports the progress of an index build, and waits for the build unless --no-wait is set', async () => {
    const building = { db: 'fruit', path: 'n', state: 'building', done: 3, total: 9 }
    const busy = await answering(200, JSON.stringify({ status: true, indexes: [building] }))
    const run = (url: string, ...args: string[]) => runHere(indexCommand(), [...args, '--url', url])
    expect((await run(busy.url, 'list')).stdout).toBe('fruit  n  building, 3 of 9 blocks\n')
    expect(await run(busy.url, 'add', 'fruit', 'n', '--no-wait')).toEqual({
      ...{ code: 0, stdout: 'index on n of fruit: declared\n', stderr: '' },
    })
    const idle = await answering(200, '{"status":true,"indexes":[]}')
    expect((await run(idle.url, 'list')).stdout).toBe('there are no indexes\n')
    expect(await run(idle.url, 'add', 'fruit', 'n')).toEqual({
      ...{
        code: 1,
        stdout: '',
        stderr: 'daicho: the index was removed while it was being built\n',
      },
    })
    const empty = { ...building, state: 'ready', done: 0, total: 0 }
    const fresh = await answering(200, JSON.stringify({ status: true, indexes: [empty] }))
    expect(await run(fresh.url, 'add', 'fruit', 'n', '--json')).toEqual({
      code: 0,
      stdout: '{"status":true,"db":"fruit","path":"n","index":"ready"}\n',
      stderr: 'indexing 100 %  0 of 0 blocks\n',
    })
  })

  it('exits with the documented code and a one-line message for each error', async () => {
    const [nowhere, address, path, missing] = await Promise.all([
      runDaicho(['index', 'list']),
      runDaicho(['index', 'list', '--url', 'nothing']),
      runDaicho(['index', 'add', 'fruit']),
      runDaicho(['index', 'list', '--url', 'http://127.0.0.1:9']),
    ])
    expect([nowhere.code, nowhere.stderr.split('\n').length]).toEqual([78, 2])
    expect([address.code, address.stderr]).toEqual([
      2,
      expect.stringContaining('is not the URL of a'),
    ])
    expect([path.code, path.stderr]).toEqual([2, expect.stringContaining("'path'")])
    expect([missing.code, missing.stderr]).toEqual([
      1,
      'daicho: no node answers at http://127.0.0.1:9: bad port\n',
    ])
  })
})

it.each([
  ['null', 'is not a node of daicho'],
  ['{}', 'is not a node of daicho'],
  ['[]', 'is not a node of daicho'],
  ['<html>', 'is not a node of daicho: it replied 200'],
  ['{"status":false,"code":"FORBIDDEN"}', 'the node rejected the request: FORBIDDEN'],
  ['{"status":false,"code":"X","message":"not you"}', 'the node rejected the request: not you'],
])('prints one line that explains the reply %s', async (body, message) => {
  const { url } = await answering(body.includes('false') ? 403 : 200, body)
  const ended = await runHere(indexCommand(), ['list', '--url', url])
  expect([ended.code, ended.stdout]).toEqual([1, ''])
  expect(ended.stderr).toMatch(/^daicho: [^\n]+\n$/)
  expect(ended.stderr).toContain(message)
})
