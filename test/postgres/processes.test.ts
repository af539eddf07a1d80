// Two real processes of one node with one database behave like one process.
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { verifierKeyText } from '../../src/chain/index.ts'
import { storeOwnEvidence } from '../../src/ledger/peers/evidence.ts'
import { openStoreReader, verifyStore } from '../../src/storage/index.ts'
import { runDaicho, type ServedLedger, serveLedger } from '../support/daicho.ts'
import { FeedClient } from '../support/feed-client.ts'
import { temporaryFolder } from '../support/ledger-node.ts'
import { TestLog } from '../support/test-log.ts'
import { until } from '../support/until.ts'
import { queryOnce } from './server.ts'
import { sharedPostgres, type TestDatabase } from './shared.ts'

const postgres = await sharedPostgres()
const log = new TestLog(20, 'leaf')
const JSON_TYPE = { 'content-type': 'application/json' }

describe.skipIf(postgres.missing !== null)(`two processes${postgres.note}`, () => {
  let database: TestDatabase
  let one: ServedLedger
  let two: ServedLedger
  let folders: string[]

  beforeAll(async () => {
    database = await postgres.newDatabase()
    folders = [temporaryFolder(afterAll), temporaryFolder(afterAll)]
    const [first = '', second = ''] = folders
    const variables = { STORE: database.url, WITNESS_OF: verifierKeyText(log.key.verifier) }
    one = await serveLedger(first, variables)
    copyFileSync(join(first, 'node.key'), join(second, 'node.key'))
    two = await serveLedger(second, variables)
    await fetch(`${one.url}/api/fruit`, { method: 'POST' })
  })

  afterAll(async () => {
    for (const { child, ended } of [one, two]) {
      child.kill('SIGTERM')
      await ended
    }
    await database[Symbol.asyncDispose]()
  })

  const send = (to: ServedLedger, path: string, body: unknown = {}, headers = {}) =>
    fetch(to.url + path, {
      method: 'POST',
      headers: { ...JSON_TYPE, ...headers },
      body: JSON.stringify(body),
    })
  const serverIdOf = async ({ url }: ServedLedger): Promise<number> => {
    const reply = await (await fetch(`${url}/api/serverid`)).text()
    return JSON.parse(reply).serverid
  }

  it('two processes write one chain, and each process immediately reads the acknowledged writes of the other', async () => {
    const writes = Array.from({ length: 200 }, async (_, n) => {
      const [to, other] = n % 2 === 0 ? [one, two] : [two, one]
      expect((await send(to, '/api/fruit', { id: `f${n}` })).status).toBe(200)
      expect((await fetch(`${other.url}/api/fruit/f${n}`)).status).toBe(200)
    })
    await Promise.all(writes)
    const store = await openStoreReader(database.url, { frozen: true })
    const { finding, items } = await verifyStore(store)
    await store.close()
    expect([finding, items]).toEqual([null, 200])
  })

  it('two processes return the original result for a request that is repeated at the other process', async () => {
    const key = { 'idempotency-key': '"once"' }
    const replies = await Promise.all(
      [one, two, one, two].map((to) => send(to, '/api/fruit', { n: 1 }, key)),
    )
    const texts = await Promise.all(replies.map((reply) => reply.text()))
    expect(new Set(texts).size).toBe(1)
    expect(replies.map(({ status }) => status)).toEqual([200, 200, 200, 200])
  })

  it('two processes accept exactly one of the concurrent changes of one revision at both processes', async () => {
    const created = await send(one, '/api/fruit', { id: 'counted', n: 0 })
    const tag = { 'if-match': created.headers.get('etag') ?? '' }
    const replies = await Promise.all(
      [one, two, one, two].map((to, n) => send(to, '/api/fruit/counted', { n }, tag)),
    )
    expect(replies.map(({ status }) => status).sort()).toEqual([200, 412, 412, 412])
  })

  it('two processes send the entries of both processes, in order, in the change feed of each process', async () => {
    const path = `/api/ledgers/${await serverIdOf(one)}/changes?since=now`
    const feeds = [one, two].map(({ url }) => new FeedClient(url, path))
    for (const feed of feeds) await feed.until(({ head }) => head !== '')
    for (let n = 0; n < 20; n += 1)
      await send(n % 2 === 0 ? one : two, '/api/fruit', { id: `c${n}` })
    for (const feed of feeds) {
      await feed.until(({ entries }) => entries.length === 20)
      const ids = feed.entries.map(({ entry }) => entry.item.id)
      expect(ids).toEqual(Array.from({ length: 20 }, (_, n) => `c${n}`))
      feed.leave()
    }
  })

  it('two processes sign the blocks that the other process wrote', async () => {
    const { position } = await send(one, '/api/fruit', { id: 'signed' }).then((reply) => ({
      position: reply.headers.get('ledger-position') ?? '',
    }))
    const height = Number(position.split('/')[1]?.split('.')[0])
    const serverId = await serverIdOf(two)
    await until(
      'the head covers the block',
      async () => {
        const note = await (await fetch(`${two.url}/api/ledgers/${serverId}/checkpoint`)).text()
        return Number(note.split('\n')[1]) > height
      },
      20_000,
    )
  })

  it('two processes have one key as a witness, and cosign one root of each size', async () => {
    const keys = [one, two].map(async ({ url }) =>
      (await fetch(`${url}/api/ledgers/witness/vkey`)).text(),
    )
    expect(new Set(await Promise.all(keys)).size).toBe(1)
    const add = async ({ url }: ServedLedger, body: string) => {
      const path = `${url}/api/ledgers/witness/add-checkpoint`
      const reply = await fetch(path, { method: 'POST', body })
      return [reply.status, await reply.text()]
    }
    const fork = new TestLog(20, 'fork', log.key)
    const [own, other] = [await log.request(0, 8), await fork.request(0, 8)]
    expect(await add(one, own)).toEqual([200, expect.any(String)])
    expect(await add(two, other)).toEqual([409, '8\n'])
    expect(await add(two, await log.request(8, 12))).toEqual([200, expect.any(String)])
    const answers = await Promise.all([
      add(one, await log.request(12, 14)),
      add(two, await fork.request(12, 15)),
    ])
    expect(answers.filter(([status]) => status === 200)).toHaveLength(1)
  })

  it('two processes continue after a kill of the other process, which rejoins after a restart', async () => {
    one.child.kill('SIGKILL')
    await one.ended
    expect((await send(two, '/api/fruit', { id: 'meanwhile' })).status).toBe(200)
    one = await serveLedger(folders[0] ?? '', { STORE: database.url })
    expect((await fetch(`${one.url}/api/fruit/meanwhile`)).status).toBe(200)
    expect((await send(one, '/api/fruit', { id: 'again' })).status).toBe(200)
  })

  it('two processes reject a token that the other process revoked', async () => {
    const [first = ''] = folders
    const settings = { STORE: database.url, SECRET: 'x'.repeat(32) }
    const third = temporaryFolder()
    copyFileSync(join(first, 'node.key'), join(third, 'node.key'))
    const guarded = await serveLedger(third, { ...settings, TOKENS: 'required' })
    const command = (...args: string[]) =>
      runDaicho(['token', ...args], { ...settings, SYSTEM_FOLDER: first })
    const minted = await command('mint', '--scope', 'db:*:read', '--json')
    const { token, jti } = JSON.parse(minted.stdout)
    const status = async () => {
      const headers = { authorization: `Bearer ${token}` }
      return (await fetch(`${guarded.url}/api/fruit/signed`, { headers })).status
    }
    expect(await status()).toBe(200)
    expect(await command('revoke', 'nothing')).toMatchObject({ code: 2 })
    expect(await command('revoke', jti)).toMatchObject({ code: 0, stdout: `revoked ${jti}\n` })
    await until('the token is refused', async () => (await status()) === 401, 20_000)
    guarded.child.kill('SIGTERM')
    expect(await guarded.ended).toMatchObject({ code: 0 })
  })

  it('do not let a third process with a different key start', async () => {
    const starting = serveLedger(temporaryFolder(), { STORE: database.url })
    await expect(starting).rejects.toThrow(/FOLDER_KEY|node\.key|server id/)
  })

  it('two processes both reject changes as soon as one of them has evidence of two histories, also after a restart', async () => {
    const evidence = { what: 'two histories', notes: ['one', 'two'] as const, proof: null }
    const location = database.url
    await storeOwnEvidence({ location, folder: '' }, evidence)
    await storeOwnEvidence({ location, folder: '' }, { ...evidence, what: 'later' })
    const code = async (to: ServedLedger) =>
      JSON.parse(await (await send(to, '/api/fruit')).text()).code
    for (const process of [one, two]) {
      await until('changes are rejected', async () => (await code(process)) === 'CHAIN_DOUBTED')
      const metrics = await (await fetch(`${process.url}/metrics`)).text()
      expect(metrics).toMatch(/^daicho_own_evidence 1$/m)
    }
    two.child.kill('SIGTERM')
    await two.ended
    two = await serveLedger(folders[1] ?? '', { STORE: location })
    expect(await code(two)).toBe('CHAIN_DOUBTED')
    await queryOnce(location, "DELETE FROM shared_texts WHERE name = 'own-evidence'")
    two.child.kill('SIGTERM')
    await two.ended
    two = await serveLedger(folders[1] ?? '', { STORE: location })
    expect((await send(two, '/api/fruit')).status).toBe(200)
  })
})
