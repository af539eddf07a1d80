// A node whose database server is down for a while.
import { describe, expect, it, onTestFinished } from 'vitest'
import { serveLedger } from '../support/daicho.ts'
import { temporaryFolder } from '../support/ledger-node.ts'
import { until } from '../support/until.ts'
import { PostgresPrograms } from './programs.ts'
import { PostgresServer } from './server.ts'
import { sharedPostgres } from './shared.ts'

const postgres = await sharedPostgres()
const WAIT_MS = 30_000

describe.skipIf(!postgres.canLaunch)(`an outage${postgres.note}`, () => {
  it('answers 503 with Retry-After while the server is down, and becomes ready again by itself', async () => {
    const programs = await PostgresPrograms.create()
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
    // The test sends no change, as a load balancer sends none to a node that is not ready.
    await until('it is ready', async () => (await readiness()) === 200, WAIT_MS)
    expect((await post()).status).toBe(200)
    node.child.kill('SIGTERM')
    expect(await node.ended).toMatchObject({ code: 0 })
  })
})
