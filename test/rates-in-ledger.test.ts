import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished, vi } from 'vitest'
import { temporaryFolder } from './support/ledger-node.ts'
import { MAIN } from './support/program.ts'

/** Units of each currency per EUR. */
const perEur = {
  ...{
    USD: 1.1269,
    JPY: 178.15,
    GBP: 0.8488,
    SEK: 11.2425,
    CHF: 0.9359,
    NOK: 10.778,
    TRY: 55.4196,
  },
  ...{ AUD: 1.614, CAD: 1.6058, CNH: 7.5554, HKD: 8.8438, MXN: 20.2217, NZD: 2.0061, ZAR: 18.5829 },
}

const read = async (url: string) => JSON.parse(await (await fetch(url)).text())

it('returns a recorded rate with the path of its block in the ledger, and the block contains the rate', async () => {
  const folder = temporaryFolder()
  const asOf = new Date().toISOString().slice(0, 10)
  const vector = join(folder, 'vector.json')
  writeFileSync(vector, JSON.stringify({ source: 'desk', asOf, perEur }))
  const ports = ['--port', '0', '--rates-port', '0']
  const child = spawn(
    process.execPath,
    [MAIN, 'serve', '--only', 'ledger,rates', ...ports, '--json'],
    {
      stdio: ['ignore', 'pipe', 'ignore'],
      env: {
        PATH: process.env.PATH,
        SYSTEM_FOLDER: join(folder, 'data'),
        RATES_SOURCES: `file:${vector}`,
        RATES_RECORD: '1',
      },
    },
  )
  onTestFinished(() => void child.kill('SIGKILL'))
  const [line] = await once(child.stdout, 'data')
  const { ledger, rates } = JSON.parse(String(line))

  const history = await vi.waitUntil(
    async () => {
      const reply = await read(`${rates}/history?pair=USDJPY`)
      return reply.rows?.length === 1 && reply
    },
    { timeout: 100_000, interval: 50 },
  )
  const [row] = history.rows
  expect(history).toMatchObject({ status: true, pair: 'USDJPY', limit: 100, offset: 0 })
  expect(row).toMatchObject({ asOf, rate: 158.089 })

  const shown = await read(ledger + row.proof)
  const [block] = shown.ledgers
  const index = Number(row.position.split('.')[1])
  expect(shown.ledgers).toHaveLength(1)
  expect(row.position).toBe(`${block.body[0].serverid}/${block.proof.height}.${index}`)
  expect(block.body[index]).toMatchObject({
    db: 'rates',
    item: { id: row.id, rate: { USDJPY: row.rate } },
  })
})
