// Commands that use the database of a node, with its URL instead of a folder.
import { copyFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { copyCommand } from '../../src/cli/commands/copy.ts'
import { exportCommand } from '../../src/cli/commands/export.ts'
import { importCommand, restoreCommand } from '../../src/cli/commands/import.ts'
import { verifyCommand } from '../../src/cli/commands/verify.ts'
import { runHere } from '../support/command.ts'
import { runDaicho, serveLedger } from '../support/daicho.ts'
import { startLedgerNode, temporaryFolder } from '../support/ledger-node.ts'
import { sharedPostgres } from './shared.ts'

const postgres = await sharedPostgres()

describe.skipIf(postgres.missing !== null)(`commands${postgres.note}`, () => {
  it('verify, export, dump, index and copy read the database of a running node, and backup refers to the tools of PostgreSQL', async () => {
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
    // `verify` also compares the chain with the signed head in the folder.
    ended.push(await runDaicho(['verify', url, '--json'], settings))
    ended.push(await runDaicho(['export', url, '--out', file, '--json'], settings))
    ended.push(await runDaicho(['verify', file, '--json']))
    ended.push(await runDaicho(['copy', url, copy, '--json']))
    ended.push(await runDaicho(['verify', copy, '--json']))
    expect(ended.map(({ code }) => code)).toEqual([0, 0, 0, 0, 0])
    for (const { stdout } of ended) {
      expect(JSON.parse(stdout)).toMatchObject({ status: true, blocks: 2, entries: 2 })
    }
    const other = await runDaicho(
      ['verify', `${url}${url.includes('?') ? '&' : '?'}application_name=x`],
      settings,
    )
    expect([other.code, other.stderr]).toEqual([
      0,
      expect.stringContaining('not compared with the signed head'),
    ])
    const items = join(temporaryFolder(), 'items.ndjson')
    writeFileSync(items, '{"id":"fig"}\n{"id":"plum","price":80}\n')
    // A running node locks its folder, so `load` needs the address of the node instead.
    const locked = await runDaicho(['load', 'fruit', items], settings)
    expect([locked.code, locked.stderr]).toEqual([78, expect.stringContaining('--url')])
    const dumped = await runDaicho(['dump', 'fruit'], settings)
    expect([dumped.code, dumped.stdout]).toEqual([0, '{"id":"fig"}\n'])
    const listed = await runDaicho(['index', 'list', '--json'], settings)
    expect([listed.code, JSON.parse(listed.stdout)]).toEqual([0, { status: true, indexes: [] }])
    const backup = await runDaicho(['backup', url, temporaryFolder()])
    expect([backup.code, backup.stderr]).toEqual([2, expect.stringContaining('pg_dump')])
    node.child.kill('SIGTERM')
    expect(await node.ended).toMatchObject({ code: 0 })
    const loaded = await runDaicho(
      ['load', 'fruit', items, '--on-conflict', 'skip', '--json'],
      settings,
    )
    expect([loaded.code, JSON.parse(loaded.stdout)]).toMatchObject([0, { created: 1, skipped: 1 }])
    const after = await runDaicho(['dump', 'fruit'], settings)
    expect(after.stdout).toBe('{"id":"fig"}\n{"id":"plum","price":80}\n')
    expect(JSON.stringify([...ended, listed, backup, locked, dumped, loaded, after])).not.toContain(
      new URL(url).password,
    )
  })

  it('verify, export and copy exit with code 2 and a one-line message for an empty database', async () => {
    await using database = await postgres.newDatabase()
    const folder = temporaryFolder()
    const ended = [
      await runHere(verifyCommand(), [database.url]),
      await runHere(exportCommand(), [database.url, '--out', join(folder, 'x')]),
      await runHere(copyCommand(), [database.url, join(folder, 'copy')]),
    ]
    for (const { code, stderr } of ended) {
      expect([code, stderr]).toEqual([2, 'daicho: the database does not contain a store\n'])
    }
  })

  it('import and restore create the store in the database in STORE, and write only the key and the signed head to the folder', async () => {
    const from = temporaryFolder()
    const node = await startLedgerNode({ folder: from })
    await node.send('POST', '/api/fruit')
    await node.send('POST', '/api/fruit', [{ id: 'fig' }, { id: 'plum' }])
    const { serverid } = (await node.send('GET', '/api/serverid')).json
    const file = join(temporaryFolder(), 'export.jsonl')
    expect(await runHere(exportCommand(), [from, '--out', file])).toMatchObject({ code: 0 })
    const bytes = { 'content-type': 'text/plain' }
    await node.send('PUT', '/api/fruit/fig/attachments/label', Buffer.from('ripe'), bytes)
    const commands = [
      { command: importCommand, args: [file], contents: 0 },
      {
        command: restoreCommand,
        args: ['--from', node.url, '--serverid', `${serverid}`],
        contents: 1,
      },
    ] as const
    for (const { command, args, contents } of commands) {
      await using database = await postgres.newDatabase()
      const folder = temporaryFolder()
      copyFileSync(join(from, 'node.key'), join(folder, 'node.key'))
      const settings = { SYSTEM_FOLDER: folder, STORE: database.url, PEERS_ALLOW_PRIVATE: '1' }
      expect(await runHere(command(), [...args], settings)).toMatchObject({ code: 0 })
      expect(readdirSync(folder).sort()).toEqual(['ledger.lock', 'node.key', 'signed-head'])
      const { stdout } = await runHere(verifyCommand(), [database.url, '--json'], settings)
      expect(JSON.parse(stdout)).toMatchObject({ status: true, items: 2, contents })
      // If the command was killed after its last step, it can be repeated.
      expect(await runHere(command(), [...args], settings)).toMatchObject({ code: 0 })
    }
    await node.close()
  })
})
