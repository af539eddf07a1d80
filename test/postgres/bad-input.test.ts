// PostgreSQL stores that a command cannot use. The command exits with code 78 and a one-line message that names the
// problem, and changes nothing. `serve` exits with code 1 if the database may be available later.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { copyCommand } from '../../src/cli/commands/copy.ts'
import { exportCommand } from '../../src/cli/commands/export.ts'
import { indexCommand } from '../../src/cli/commands/indexes.ts'
import { networkCommand } from '../../src/cli/commands/network.ts'
import { serveCommand } from '../../src/cli/commands/serve.ts'
import { tokenCommand } from '../../src/cli/commands/token.ts'
import { verifyCommand } from '../../src/cli/commands/verify.ts'
import { openLedger } from '../../src/ledger/core.ts'
import { runHere } from '../support/command.ts'
import { HandClock, temporaryFolder, usedNodeFolder } from '../support/ledger-node.ts'
import { queryOnce } from './server.ts'
import { sharedPostgres } from './shared.ts'

const postgres = await sharedPostgres()

/** Runs a command of the node with this database and folder. */
type Run = (url: string, folder: string) => ReturnType<typeof runHere>

const settings = (STORE: string, SYSTEM_FOLDER: string) => ({ STORE, SYSTEM_FOLDER })
const serve: Run = (url, folder) =>
  runHere(serveCommand(), ['--only', 'ledger', '--port', '0'], settings(url, folder))
const verify: Run = (url, folder) => runHere(verifyCommand(), [url], settings(url, folder))
const exported: Run = (url) =>
  runHere(exportCommand(), [url, '--out', join(temporaryFolder(), 'x')])
const copyFrom: Run = (url) => runHere(copyCommand(), [url, join(temporaryFolder(), 'copy')])
const copyTo: Run = async (url) => runHere(copyCommand(), [await usedNodeFolder(), url])
const indexList: Run = (url, folder) => runHere(indexCommand(), ['list'], settings(url, folder))
const indexAdd: Run = (url, folder) =>
  runHere(indexCommand(), ['add', 'fruit', 'n'], settings(url, folder))
const networks: Run = (url, folder) => runHere(networkCommand(), ['list'], settings(url, folder))
const revoke: Run = (url, folder) => {
  const SECRET = 'x'.repeat(32)
  const token = '00000000-0000-4000-8000-000000000000'
  return runHere(tokenCommand(), ['revoke', token], { ...settings(url, folder), SECRET })
}

const READING = { verify, exported, copyFrom, indexList }
const WRITING = { serve, copyTo, indexAdd, networks }
const ALL = { ...READING, ...WRITING, revoke }

/** Returns a database with a store, and the folder of its node. */
async function usedDatabase(): Promise<{ url: string; folder: string }> {
  const database = await postgres.newDatabase()
  onTestFinished(async () => {
    await database[Symbol.asyncDispose]()
  })
  const folder = temporaryFolder()
  const ledger = await openLedger({
    ...{ folder, store: database.url, clock: new HandClock() },
  })
  await ledger.service.write.createDatabase('fruit')
  await ledger.close()
  return { url: database.url, folder }
}

/**
 * Expects that each command exits with code 78 and one line that matches `reason`, and changes neither the
 * folder nor the database. After exit code 1 of `serve`, systemd starts the node again.
 */
async function expectRefusals(
  commands: Readonly<Record<string, Run>>,
  { url, folder }: { url: string; folder: string },
  reason: RegExp,
  state: () => Promise<unknown> = async () => null,
): Promise<void> {
  const files = () => readdirSync(folder).filter((name) => name !== 'ledger.lock')
  const before = [await state(), files()]
  for (const [name, run] of Object.entries(commands)) {
    const { code, stdout, stderr } = await run(url, folder)
    const isLater =
      name === 'serve' && /cannot be (reached|used)|refuses access/.test(reason.source)
    expect([name, code, stdout]).toEqual([name, isLater ? 1 : 78, ''])
    expect(stderr, name).toMatch(/^daicho: [^\n]+\n$/)
    expect(stderr, name).toMatch(reason)
    expect(stderr, name).not.toContain(new URL(url).password)
  }
  expect([await state(), files()]).toEqual(before)
}

/** Returns the tables with their columns, and the chain. */
async function stateOf(url: string): Promise<unknown> {
  const columns = `SELECT table_name, column_name FROM information_schema.columns
    WHERE table_schema = 'public' ORDER BY 1, 2`
  const rows = []
  for (const table of ['daicho_schema', 'node', 'blocks', 'indexes']) {
    rows.push(await queryOnce(url, `SELECT * FROM ${table}`).catch(() => null))
  }
  return [await queryOnce(url, columns), rows]
}

function withUrl(url: string, change: (changed: URL) => void): string {
  const changed = new URL(url)
  change(changed)
  return changed.href
}

describe.skipIf(postgres.missing !== null)(`commands with a database${postgres.note}`, () => {
  it('commands with a database reject an unreachable server', async () => {
    const url = 'postgres://daicho:brass@127.0.0.1:1/ledger'
    const reason = /the database cannot be reached: connect ECONNREFUSED 127\.0\.0\.1:1/
    await expectRefusals({ serve, verify, revoke }, { url, folder: temporaryFolder() }, reason)
  })

  it('commands with a database reject an unknown host', async () => {
    const url = 'postgres://daicho:brass@nowhere.invalid/ledger'
    const reason = /the database cannot be reached: getaddrinfo \w+ nowhere\.invalid/
    await expectRefusals({ verify }, { url, folder: temporaryFolder() }, reason)
  })

  it('commands with a database reject a wrong password and a missing password', async () => {
    const { url, folder } = await usedDatabase()
    const wrong = withUrl(url, (changed) => {
      changed.password = 'brass'
    })
    const reason = /the database refuses access: password authentication failed for user "daicho"/
    await expectRefusals(ALL, { url: wrong, folder }, reason, () => stateOf(url))
    const none = await verify(
      withUrl(url, (changed) => {
        changed.password = ''
      }),
      folder,
    )
    expect([none.code, none.stderr]).toEqual([78, expect.stringContaining('set PGPASSWORD')])
  })

  it('commands with a database reject a database that does not exist', async () => {
    const { url, folder } = await usedDatabase()
    const missing = withUrl(url, (changed) => {
      changed.pathname = '/missing'
    })
    const reason = /the database refuses access: database "missing" does not exist/
    await expectRefusals(ALL, { url: missing, folder }, reason, () => stateOf(url))
  })

  it('commands with a database reject a read-only server if they must write', async () => {
    const { url, folder } = await usedDatabase()
    const { pathname } = new URL(url)
    await queryOnce(
      url,
      `ALTER DATABASE ${pathname.slice(1)} SET default_transaction_read_only = on`,
    )
    const reason =
      /the database cannot be used now: cannot execute (DELETE|INSERT) in a read-only transaction/
    await expectRefusals({ serve, revoke }, { url, folder }, reason, () => stateOf(url))
    expect(await verify(url, folder)).toMatchObject({ code: 0 })
  })

  it('commands with a database reject another format', async () => {
    const used = await usedDatabase()
    await queryOnce(used.url, 'UPDATE daicho_schema SET version = version + 1')
    const reason = /the database has format 2, but this daicho uses format 1: export the chain/
    await expectRefusals(ALL, used, reason, () => stateOf(used.url))
  })

  it('commands with a database reject the chain of another node', async () => {
    const { url } = await usedDatabase()
    const { folder } = await usedDatabase()
    const reason =
      /STORE: the database belongs to server id \d+, but the key belongs to server id \d+/
    const commands = { serve, indexAdd, networks }
    await expectRefusals(commands, { url, folder }, reason, () => stateOf(url))
  })

  it('commands with a database reject a copy to a database that has a chain', async () => {
    const used = await usedDatabase()
    const reason = /already contains a store: copy to an empty folder or database/
    await expectRefusals({ copyTo }, used, reason, () => stateOf(used.url))
  })

  it('commands with a database reject a folder without the key of the chain', async () => {
    const { url } = await usedDatabase()
    const folder = temporaryFolder()
    const commands = { serve, indexAdd, networks }
    await expectRefusals(commands, { url, folder }, /node\.key/, () => stateOf(url))
  })
})
