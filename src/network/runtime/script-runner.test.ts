import { expect, it } from 'vitest'
import { watchSandboxThreads } from '../../../test/support/sandbox-threads.ts'
import { defaultNetwork } from '../default-network.ts'
import { ScriptRunner } from './script-runner.ts'

it('a condition that is asked after an upgrade, by whoever began to read before, leaves no thread behind', async () => {
  const threads = watchSandboxThreads()
  const scripts = new ScriptRunner(defaultNetwork(), 5_000)
  const asked = () =>
    scripts.judge(
      {
        condition: 'resource.tradeId === "ann"',
        variables: { participant: null, resource: 'resource', transaction: null },
        participant: { $class: 'org.acme.mynetwork.Trader', tradeId: 'bob' },
        transaction: null,
        resources: ['ann', 'bob'].map((tradeId) => ({
          $class: 'org.acme.mynetwork.Trader',
          tradeId,
        })),
      },
      async () => 'null',
    )
  expect([await asked(), threads.left]).toEqual([[true, false], 1])
  await scripts.close()
  expect([await asked(), threads]).toEqual([[true, false], { begun: 2, left: 0 }])
})
