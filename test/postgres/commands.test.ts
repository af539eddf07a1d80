// Commands with the URL of a database where they take a folder.
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { runDaicho, serveLedger } from '../support/daicho.ts'
import { temporaryFolder } from '../support/ledger-node.ts'
import { sharedPostgres } from './shared.ts'

const postgres = await sharedPostgres()

describe.skipIf(postgres.missing !== null)(`commands${postgres.note}`, () => {
  it('verify, export, index and copy read the database of a running node; backup refers to PostgreSQL tools', async () => {
    await using database = await postgres.newDatabase()
    const { url } = database
    const folder = temporaryFolder()
    const settings = { SYSTEM_FOLDER: folder, STORE: url }
    const node = await serveLedger(folder, { STORE: url })
    await fetch(`${node.url}/api/fruit`, { method: 'POST' })
    const headers = { 'content-type': 'application/json' }
    await fetch(`${node.url}/api/fruit`, { method: 'POST', headers, body: '{"id":"fig"}' })

    const file = join(temporaryFolder(), 'export.jsonl')
    const copy = join(temporaryFolder(), 'copy')
    const ended = []
    // The signed head in the folder is compared too.
    ended.push(await runDaicho(['verify', url, '--json'], settings))
    ended.push(await runDaicho(['export', url, '--out', file, '--json'], settings))
    ended.push(await runDaicho(['verify', file, '--json']))
    ended.push(await runDaicho(['copy', url, copy, '--json']))
    ended.push(await runDaicho(['verify', copy, '--json']))
    expect(ended.map(({ code }) => code)).toEqual([0, 0, 0, 0, 0])
    for (const { stdout } of ended) {
      expect(JSON.parse(stdout)).toMatchObject({ status: true, blocks: 2, entries: 2 })
    }
    const listed = await runDaicho(['index', 'list', '--json'], settings)
    expect([listed.code, JSON.parse(listed.stdout)]).toEqual([0, { status: true, indexes: [] }])
    const backup = await runDaicho(['backup', url, temporaryFolder()])
    expect([backup.code, backup.stderr]).toEqual([2, expect.stringContaining('pg_dump')])
    node.child.kill('SIGTERM')
    expect(await node.ended).toMatchObject({ code: 0 })
    expect(JSON.stringify([...ended, listed, backup])).not.toContain(new URL(url).password)
  })

  it('an empty or unreachable database is an error with one line, without the password', async () => {
    await using database = await postgres.newDatabase()
    const nowhere = 'postgres://u:brass@127.0.0.1:1/ledger'
    const folder = temporaryFolder()
    const ended = await Promise.all([
      runDaicho(['verify', database.url]),
      runDaicho(['export', database.url, '--out', join(folder, 'x')]),
      runDaicho(['copy', database.url, join(folder, 'copy')]),
      runDaicho(['verify', nowhere]),
      runDaicho(['serve', '--port', '0'], { SYSTEM_FOLDER: folder, STORE: nowhere }),
    ])
    expect(ended.map(({ code }) => code)).toEqual([2, 2, 2, 1, 78])
    for (const { stderr } of ended) expect(stderr).toMatch(/^daicho: [^\n]+\n$/)
    expect(JSON.stringify(ended)).not.toContain('brass')
  })
})
