import { hash } from 'node:crypto'
import { expect, it } from 'vitest'
import { runDaicho } from '../support/daicho.ts'
import { temporaryFolder } from '../support/ledger-node.ts'

const ADMIN = 'org.hyperledger.composer.system.NetworkAdmin#admin'
const NETWORK = 'trade-network'
const CERTIFICATE = 'ab'.repeat(32)

it('issues, binds, lists and revokes identities of a stopped node, and prints one line for an error', async () => {
  const node = { SYSTEM_FOLDER: temporaryFolder() }
  const identity = (...args: string[]) => runDaicho(['network', 'identity', ...args], node)
  const deployed = await runDaicho(['network', 'deploy', 'test/networks/trade'], node)
  expect([deployed.code, deployed.stderr]).toEqual([0, ''])
  expect(await identity('list', NETWORK)).toEqual({ code: 0, stdout: '', stderr: '' })

  const issued = await identity('issue', NETWORK, ADMIN, 'ann')
  expect(issued.stdout).toMatch(/^[\w-]{43}\n$/)
  const annId = hash('sha256', issued.stdout.trimEnd())
  const bound = await identity('bind', NETWORK, ADMIN, `sha256:${CERTIFICATE}`)
  expect(bound.stdout).toBe(`bound to ${ADMIN}\n`)
  expect((await identity('list', NETWORK)).stdout.trimEnd().split('\n').sort()).toEqual(
    [
      `${annId}  ISSUED  ann  resource:${ADMIN}`,
      `${CERTIFICATE}  BOUND  admin  resource:${ADMIN}`,
    ].sort(),
  )
  expect(await identity('revoke', NETWORK, annId)).toEqual({
    ...{ code: 0, stderr: '', stdout: `revoked ${annId}\n` },
  })
  const { identities } = JSON.parse((await identity('list', NETWORK, '--json')).stdout)
  const states = identities.map((one: Record<string, string>) => [one.name, one.state])
  expect(Object.fromEntries(states)).toEqual({ ann: 'REVOKED', admin: 'BOUND' })

  for (const [args, stderr] of [
    [['list', 'none'], 'daicho: there is no network none\n'],
    [['revoke', NETWORK, 'x'], "daicho: Object with ID 'x' does not exist\n"],
  ] as const) {
    expect(await identity(...args)).toEqual({ code: 1, stdout: '', stderr })
  }
  const here = await runDaicho(['network', 'list'], { SYSTEM_FOLDER: '/none/of/it' })
  expect([here.code, here.stderr]).toEqual([
    78,
    'daicho: SYSTEM_FOLDER: there is no folder /none/of/it\n',
  ])
})

it('grants the issuer right with `issue --issuer`, and shows it in `list`', async () => {
  const node = { SYSTEM_FOLDER: temporaryFolder() }
  const identity = (...args: string[]) => runDaicho(['network', 'identity', ...args], node)
  await runDaicho(['network', 'deploy', 'test/networks/trade'], node)
  const issued = await identity('issue', NETWORK, ADMIN, 'ann', '--issuer')
  const id = hash('sha256', issued.stdout.trimEnd())
  const { stdout } = await identity('list', NETWORK)
  expect(stdout).toBe(`${id}  ISSUED  ann  resource:${ADMIN}  issuer\n`)
  const { identities } = JSON.parse((await identity('list', NETWORK, '--json')).stdout)
  expect(identities).toEqual([
    {
      identityId: id,
      name: 'ann',
      state: 'ISSUED',
      participant: `resource:${ADMIN}`,
      canIssue: true,
    },
  ])
})
