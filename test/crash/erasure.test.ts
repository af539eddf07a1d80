// Kills a real `daicho serve` at random moments while attachments are replaced and erased. After the restart, no file
// contains the bytes of an acknowledged erasure, and each unacknowledged erasure is complete or has no effect.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { serveLedger } from '../support/daicho.ts'
import { bytesBelow, compacted } from '../support/erased.ts'
import { Dice } from '../support/ledger-load.ts'
import { temporaryFolder, verifyFolder } from '../support/ledger-node.ts'
import { roundsOf } from '../support/rounds.ts'

const KILLS = roundsOf(6)
const CLIENTS = 3
/** Maximum delay from the first reply to the kill, milliseconds. */
const WHILE_MS = 120

const seed = Number(process.env.CRASH_SEED ?? Date.now() % 1_000_000_000)
console.log(`CRASH_SEED=${seed} repeats this run`)

function contentsIn(folder: string): string[] {
  return readdirSync(join(folder, 'attachments'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => entry.parentPath.slice(-2) + entry.name)
    .toSorted()
}

it(`erased content does not return after any of ${KILLS} kills during erasures`, async () => {
  const dice = new Dice(seed)
  const folder = temporaryFolder()
  let server = await serveLedger(folder)
  const json = { 'content-type': 'application/json' }
  await fetch(`${server.url}/api/f`, { method: 'POST' })
  for (let client = 0; client < CLIENTS; client += 1) {
    const body = JSON.stringify({ id: `c${client}` })
    await fetch(`${server.url}/api/f`, { method: 'POST', headers: json, body })
  }
  /** `replaced`: each client's texts whose erasure is not acknowledged. `erased`: all texts whose erasure is. */
  const replaced = Array.from({ length: CLIENTS }, (): string[] => [])
  const erased: string[] = []
  let made = 0
  let unanswered = 0
  for (let round = 0; round < KILLS; round += 1) {
    let isKilled = false
    const answered = Promise.withResolvers<void>()
    // Deletes attachments whose state after the last kill is unknown.
    for (const [client, texts] of replaced.entries()) {
      for (const secret of texts) {
        await fetch(`${server.url}/api/f/c${client}/attachments/${secret}`, { method: 'DELETE' })
      }
    }
    const working = replaced.map(async (texts, client) => {
      const path = `${server.url}/api/f/c${client}`
      const nameOf = (secret: string) => `${path}/attachments/${secret}`
      while (!isKilled) {
        try {
          for (let n = 1 + dice.below(3); n > 0; n -= 1) {
            made += 1
            const secret = `SECRET-${made}-of-${seed}`
            texts.push(secret)
            const body = `${secret} ${'.'.repeat(dice.below(200_000))}`
            expect((await fetch(nameOf(secret), { method: 'PUT', body })).status).toBe(200)
            expect((await fetch(nameOf(secret), { method: 'DELETE' })).status).toBe(200)
          }
          unanswered += 1
          const reply = await fetch(`${path}/erase`, { method: 'POST' })
          const { status, positions } = JSON.parse(await reply.text())
          unanswered -= 1
          expect([status, positions.length % 2]).toEqual([true, 0])
          erased.push(...texts.splice(0))
          answered.resolve()
        } catch (error) {
          if (error instanceof Error && error.name === 'AssertionError') throw error
          return
        }
      }
    })
    await answered.promise
    await new Promise((resolve) => setTimeout(resolve, dice.next() * WHILE_MS))
    server.child.kill('SIGKILL')
    isKilled = true
    await Promise.all(working)
    expect((await server.ended).stderr).toBe('')
    expect((await verifyFolder(folder)).finding).toBeNull()

    server = await serveLedger(folder)
    await compacted(folder)
    const filesWith = bytesBelow(folder)
    for (const secret of erased) expect([secret, filesWith(secret)]).toEqual([secret, []])
    const { serverid } = JSON.parse(await (await fetch(`${server.url}/api/serverid`)).text())
    const ledgers = await (await fetch(`${server.url}/api/ledgers?serverid=${serverid}`)).text()
    const named = ledgers.matchAll(/"sha256":"([0-9a-f]{64})"/g)
    expect(contentsIn(folder)).toEqual([...new Set([...named].map(([, sha]) => sha))].toSorted())
    // If the erasure of a replaced attachment was not acknowledged, its name in the ledger and its bytes on disk are
    // both present or both absent.
    for (const secret of replaced.flat()) {
      const isNamed = ledgers.includes(`"name":"${secret}"`)
      expect([secret, filesWith(secret).length > 0]).toEqual([secret, isNamed])
    }
  }
  server.child.kill('SIGTERM')
  expect((await server.ended).code).toBe(0)
  expect((await verifyFolder(folder)).finding).toBeNull()
  console.log(
    `${KILLS} kills: ${made} contents, ${erased.length} erased; ${unanswered} not answered`,
  )
})
