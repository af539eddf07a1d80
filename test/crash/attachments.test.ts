// Kills a real `daicho serve` at random moments during uploads. Afterwards, acknowledged attachments are complete,
// and unacknowledged attachments are complete or absent, also on disk.
import { hash } from 'node:crypto'
import { expect, it } from 'vitest'
import { runDaicho, serveLedger } from '../support/daicho.ts'
import { isOnDatabases, locationOf, storedBlobs } from '../support/engine.ts'
import { Dice } from '../support/ledger-load.ts'
import { temporaryFolder, verifyFolder } from '../support/ledger-node.ts'
import { roundsOf } from '../support/rounds.ts'

const KILLS = roundsOf(6)
const UPLOADERS = 4
/** Maximum size of one upload, bytes. So large that kills hit every phase of an upload. */
const BYTES_MAX = 6 * 1024 * 1024
/** Maximum random part of the delay before a kill, milliseconds. */
const WHILE_MS = 160

const seed = Number(process.env.CRASH_SEED ?? Date.now() % 1_000_000_000)
console.log(`CRASH_SEED=${seed} repeats this run`)

async function read(url: string) {
  return JSON.parse(await (await fetch(url)).text())
}

it(`every attachment is complete or absent after each of ${KILLS} kills during uploads`, async () => {
  const dice = new Dice(seed)
  const folder = temporaryFolder()
  let server = await serveLedger(folder)
  const json = { 'content-type': 'application/json' }
  await fetch(`${server.url}/api/f`, { method: 'POST' })
  await fetch(`${server.url}/api/f`, { method: 'POST', headers: json, body: '{"id":"a"}' })

  // By attachment name, the SHA-256 of the last text that was sent, and of the last text that was acknowledged.
  const sent = new Map<string, string>()
  const answered = new Map<string, string>()
  const named = new Set<string>()
  const counted = { there: 0, not: 0 }
  for (let round = 0; round < KILLS; round += 1) {
    let isKilled = false
    const uploading = Array.from({ length: UPLOADERS }, async (_, uploader) => {
      while (!isKilled) {
        const name = `n${uploader}`
        const body = Buffer.alloc(1 + dice.below(BYTES_MAX), `${dice.below(1_000)}.`)
        const sha256 = hash('sha256', body, 'hex')
        sent.set(name, sha256)
        try {
          const reply = await fetch(`${server.url}/api/f/a/attachments/${name}`, {
            method: 'PUT',
            body,
          })
          expect(JSON.parse(await reply.text()).attachment.sha256).toBe(sha256)
          answered.set(name, sha256)
        } catch (error) {
          if (error instanceof Error && error.name === 'AssertionError') throw error
          return
        }
      }
    })
    await new Promise((resolve) => setTimeout(resolve, 20 + dice.next() * WHILE_MS))
    server.child.kill('SIGKILL')
    isKilled = true
    await Promise.all(uploading)
    expect((await server.ended).stderr).toBe('')
    expect((await verifyFolder(folder)).finding).toBeNull()

    server = await serveLedger(folder)
    const { attachments } = await read(`${server.url}/api/f/a/attachments`)
    for (const [name, last] of sent) {
      const there = attachments.find((one: { name: string }) => one.name === name)?.sha256 ?? null
      expect([answered.get(name) ?? null, last]).toContain(there)
      if (last !== answered.get(name)) counted[there === last ? 'there' : 'not'] += 1
      if (there === null) continue
      answered.set(name, there)
      const bytes = await (await fetch(`${server.url}/api/f/a/attachments/${name}`)).arrayBuffer()
      expect(hash('sha256', Buffer.from(bytes), 'hex')).toBe(there)
    }
    // The store has every blob that an entry refers to. With PostgreSQL, it also has the blobs of unfinished uploads
    // until these expire.
    const { serverid } = await read(`${server.url}/api/serverid`)
    const ledgers = await (await fetch(`${server.url}/api/ledgers?serverid=${serverid}`)).text()
    named.clear()
    for (const [, sha256 = ''] of ledgers.matchAll(/"sha256":"([0-9a-f]{64})"/g)) named.add(sha256)
    const stored = await storedBlobs(folder)
    const expected = isOnDatabases() ? stored.filter((sha256) => named.has(sha256)) : stored
    expect(expected).toEqual([...named].toSorted())
  }
  server.child.kill('SIGTERM')
  expect((await server.ended).code).toBe(0)
  const { code, stdout } = await runDaicho(['verify', await locationOf(folder), '--json'])
  expect([code, JSON.parse(stdout)]).toMatchObject([0, { finding: null, contents: named.size }])
  console.log(`${KILLS} kills: ${named.size} blobs; in flight ${JSON.stringify(counted)}`)
})
