// A node whose database server is temporarily down.
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { serveLedger } from '../support/daicho.ts'
import { temporaryFolder } from '../support/ledger-node.ts'
import { until } from '../support/until.ts'
import { PostgresServer, queryOnce } from './server.ts'
import { sharedPostgres } from './shared.ts'

const postgres = await sharedPostgres()
const WAIT_MS = 30_000

describe.skipIf(!postgres.canLaunch)(`a node with a database${postgres.note}`, () => {
  it('answers requests with 503 and Retry-After while the server is down, and becomes ready again without a restart', async () => {
    const programs = await postgres.newPrograms()
    onTestFinished(() => programs.remove())
    const server = await PostgresServer.create(programs, 'outage')
    await server.start()
    onTestFinished(() => server.stop('immediate'))
    const node = await serveLedger(temporaryFolder(), { STORE: server.url() })
    const post = () => fetch(`${node.url}/api/d${performance.now()}`, { method: 'POST' })
    const readiness = async () => (await fetch(`${node.url}/readyz`)).status
    expect([(await post()).status, await readiness()]).toEqual([200, 200])

    await server.stop('immediate')
    const refused = await post()
    const { code } = JSON.parse(await refused.text())
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1'])
    expect(['STORE_UNAVAILABLE', 'OUTCOME_UNKNOWN']).toContain(code)
    expect([await readiness(), (await fetch(`${node.url}/healthz`)).status]).toEqual([503, 200])

    await server.start()
    // Like a load balancer, the test sends no change until the node is ready.
    await until('the node is ready', async () => (await readiness()) === 200, WAIT_MS)
    expect((await post()).status).toBe(200)
    node.child.kill('SIGTERM')
    expect(await node.ended).toMatchObject({ code: 0 })
  })

  it('reports lost blocks at /readyz, in the metrics and in the log, even if the node gets no changes', async () => {
    await using database = await postgres.newDatabase()
    const node = await serveLedger(temporaryFolder(), { STORE: database.url })
    const readiness = async () => (await fetch(`${node.url}/readyz`)).text()
    for (const db of ['fruit', 'tools']) {
      expect((await fetch(`${node.url}/api/${db}`, { method: 'POST' })).status).toBe(200)
    }
    await queryOnce(database.url, 'DELETE FROM blocks WHERE height = 1')
    await until('the node notices', async () => (await readiness()).includes('ROLLED_BACK'))
    expect(await readiness()).toContain('block 1 was stored, but is missing in the database')
    const refused = await fetch(`${node.url}/api/more`, { method: 'POST' })
    expect([refused.status, JSON.parse(await refused.text()).code]).toEqual([
      503,
      'STORE_ROLLED_BACK',
    ])
    expect((await fetch(`${node.url}/api/dbs`)).status).toBe(200)
    expect(await (await fetch(`${node.url}/metrics`)).text()).toContain('daicho_writer_stopped 1\n')
    node.child.kill('SIGTERM')
    const { stderr } = await node.ended
    expect(stderr.match(/STORE_ROLLED_BACK/g)).toHaveLength(1)
  })

  it('acknowledges no change after the database has lost a block that the process only signed', async () => {
    await using database = await postgres.newDatabase()
    const folders = [temporaryFolder(), temporaryFolder()]
    const [first = '', second = ''] = folders
    const other = await serveLedger(first, { STORE: database.url })
    copyFileSync(join(first, 'node.key'), join(second, 'node.key'))
    const node = await serveLedger(second, { STORE: database.url })
    const post = ({ url }: { url: string }, db: string) =>
      fetch(`${url}/api/${db}`, { method: 'POST' })
    expect((await post(node, 'own')).status).toBe(200)
    expect((await post(other, 'lost')).status).toBe(200)
    const { serverid } = JSON.parse(await (await fetch(`${node.url}/api/serverid`)).text())
    const note = await fetch(`${node.url}/api/ledgers/${serverid}/checkpoint`)
    expect((await note.text()).split('\n')[1]).toBe('2')
    other.child.kill('SIGKILL')
    await other.ended
    for (const lost of ['blocks', 'tree']) {
      await queryOnce(database.url, `DELETE FROM ${lost} WHERE height = 1`)
    }
    await queryOnce(database.url, "DELETE FROM databases WHERE name = 'lost'")
    const terminate = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid()`
    await queryOnce(database.url, terminate)
    for (let n = 0; n < 5; n += 1) {
      const refused = await post(node, `fork${n}`)
      const { code } = JSON.parse(await refused.text())
      expect([refused.status, code]).toEqual([503, 'STORE_UNAVAILABLE'])
    }
    expect(await queryOnce(database.url, 'SELECT height FROM blocks')).toHaveLength(1)
    node.child.kill('SIGTERM')
    await node.ended
  })
})
