import type { Worker } from 'node:worker_threads'
import { expect, it, onTestFinished } from 'vitest'
import { defaultNetwork } from '../default-network.ts'
import { ScriptRunner } from './script-runner.ts'

it('a condition that is asked after an upgrade, by whoever began to read before, leaves no thread behind', async () => {
  const threads = new Set<Worker>()
  let begun = 0
  const watch = (thread: Worker) => {
    if (thread.threadName !== 'network-sandbox') return
    begun += 1
    threads.add(thread)
    thread.once('exit', () => threads.delete(thread))
  }
  process.on('worker', watch)
  onTestFinished(() => void process.off('worker', watch))
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
  expect([await asked(), threads.size]).toEqual([[true, false], 1])
  await scripts.close()
  expect([await asked(), begun, threads.size]).toEqual([[true, false], 2, 0])
})
