// Kills a node that is a witness, while it receives requests to cosign contradicting logs under one key.
import { setTimeout as delay } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { serveLedger } from '../support/daicho.ts'
import { temporaryFolder } from '../support/ledger-node.ts'
import { roundsOf } from '../support/rounds.ts'
import { TestLog } from '../support/test-log.ts'

/** Number of runs that end with a kill. One more run ends normally. */
const RUNS = roundsOf(8)
const CLIENTS = 16
const SIZES = 400

it(`a witness that is killed ${RUNS} times at random moments cosigns only one chain`, async () => {
  const folder = temporaryFolder()
  const one = new TestLog(SIZES, 'one')
  const logs = [one, new TestLog(SIZES, 'two', one.key)]
  const cosigned: { log: number; size: number }[] = []
  const keys = new Set<string>()
  let size = 0
  for (let run = 0; run <= RUNS; run += 1) {
    const node = await serveLedger(folder, { WITNESS_OF: one.vkey })
    const url = `${node.url}/api/ledgers/witness`
    keys.add(await (await fetch(`${url}/vkey`)).text())
    let onCosigned: () => void = () => {}
    const firstCosigned = new Promise<void>((resolve) => {
      onCosigned = resolve
    })
    const client = async (n: number) => {
      while (size < SIZES - 2) {
        const [old, log] = [size, n % logs.length]
        const next = old + 1 + (n % 2)
        const body = (await logs[log]?.request(old, next)) ?? ''
        const reply = await fetch(`${url}/add-checkpoint`, { method: 'POST', body })
        const text = await reply.text()
        if (reply.status === 200) {
          cosigned.push({ log, size: next })
          onCosigned()
          size = Math.max(size, next)
        } else if (reply.status === 409) size = Math.max(size, Number(text))
        else expect(reply.status).toBe(422)
        if (run === RUNS && cosigned.length > 0) return
      }
    }
    // A client ends when its connection breaks.
    const clients = Array.from({ length: CLIENTS }, (_, n) => client(n).catch(() => {}))
    if (run < RUNS) {
      await Promise.race([firstCosigned, Promise.all(clients)])
      await delay(Math.random() * 250)
      node.child.kill('SIGKILL')
    }
    await Promise.all(clients)
    if (run === RUNS) node.child.kill('SIGTERM')
    await node.ended
  }
  expect(cosigned.length).toBeGreaterThan(RUNS)
  expect(new Set(cosigned.map(({ log }) => log)).size).toBe(1)
  expect(keys.size).toBe(1)
})
