import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { queryOnce } from '../../../test/postgres/server.ts'
import { sharedPostgres } from '../../../test/postgres/shared.ts'
import { type BlobsUnderTest, describeBlobs } from '../contract/blob-contract.ts'
import { chunksOf, RECORDED, sha256OfText } from '../contract/test-blobs.ts'
import { appendEntries, CONTRACT_SERVER_ID, entry } from '../contract/test-store.ts'
import { openBlobStore, openStore, openStoreReader } from '../open.ts'

const postgres = await sharedPostgres()

async function blobsUnderTest(): Promise<BlobsUnderTest> {
  const database = await postgres.newDatabase()
  const run = (text: string, values: readonly unknown[] = []) =>
    queryOnce(database.url, text, values)
  return {
    location: database.url,
    damage: async (sha256, bytes) => {
      if (bytes === null) await run('DELETE FROM blobs WHERE sha256 = $1', [sha256])
      const chunks = 'blob_chunks AS c SET bytes = $2 FROM blobs AS b'
      const where = 'b.upload = c.upload AND b.sha256 = $1'
      if (bytes !== null) await run(`UPDATE ${chunks} WHERE ${where}`, [sha256, bytes])
    },
    eraseRows: async (positions) => {
      await run('DELETE FROM attachments WHERE position = ANY($1)', [positions])
    },
    unfinished: async () => (await run('SELECT 1 FROM blob_uploads')).length,
    abandon: async () => {
      await run("UPDATE blob_uploads SET expires = now() - interval '1 second'")
    },
    remove: () => Promise.resolve(database[Symbol.asyncDispose]()),
  }
}

describe.skipIf(postgres.missing !== null)(`blobs in a database${postgres.note}`, () => {
  describeBlobs('PostgreSQL', blobsUnderTest)

  it('blobs in a database are kept if they are added before the first block', async () => {
    await using database = await postgres.newDatabase()
    const { url } = database
    const store = await openStore({ location: url, serverId: CONTRACT_SERVER_ID, durable: true })
    const blobs = await openBlobStore(url, store, true)
    for (const text of ['named', 'unnamed']) {
      await blobs.add(chunksOf(text), async () => {}, RECORDED)
    }
    await blobs.recover()
    expect(await queryOnce(url, 'SELECT 1 FROM blobs')).toHaveLength(2)
    const attached = entry.attach('fruit', 'a', 'n', 'named')
    await appendEntries(store, [entry.createDb('fruit'), entry.create('fruit', 'a'), attached])
    await blobs.recover()
    const left = [{ sha256: sha256OfText('named') }]
    expect(await queryOnce(url, 'SELECT sha256 FROM blobs')).toEqual(left)
    await blobs.close()
    await store.close()
  })

  it('blobs in a database are exactly those to which entries refer, after any concurrent uploads and erasures of two processes', async () => {
    await using database = await postgres.newDatabase()
    const { url } = database
    const store = await openStore({ location: url, serverId: CONTRACT_SERVER_ID, durable: true })
    // Before the first block, every blob counts as named.
    await appendEntries(store, [entry.createDb('fruit')])
    const reader = await openStoreReader(url, { frozen: false })
    const processes = await Promise.all([1, 2].map(() => openBlobStore(url, reader, true)))
    let position = 0
    const record = async (sha256: string) => {
      position += 1
      const values = [position, sha256]
      await queryOnce(
        url,
        "INSERT INTO attachments VALUES ($1, 1, 'a', 'n', 't', 1, $2, 1)",
        values,
      )
    }
    const run = async (byte: number) => {
      const text = byte & 1 ? 'a' : 'b'
      const sha256 = sha256OfText(text)
      const process = processes[(byte >> 1) & 1]
      if ((byte >> 2) % 3 === 0) {
        return process?.eraseRows(async () => {
          await queryOnce(url, 'DELETE FROM attachments WHERE sha256 = $1', [sha256])
          return { result: undefined, freed: [sha256] }
        }, RECORDED.mayBeRecorded)
      }
      const isRefused = (byte >> 2) % 3 === 1
      const refuse = () => Promise.reject(new Error('refused'))
      return process?.add(chunksOf(text), isRefused ? refuse : () => record(sha256), RECORDED)
    }
    // Erasures end before uploads that began with them, so they meet the blobs of earlier rounds.
    for (let round = 0; round < 8; round += 1) {
      const tasks = [...randomBytes(8)].map(run)
      const failures = (await Promise.allSettled(tasks)).flatMap((task) =>
        task.status === 'rejected' && task.reason.message !== 'refused' ? [task.reason] : [],
      )
      expect(failures).toEqual([])
      const named = await queryOnce(url, 'SELECT DISTINCT sha256 FROM attachments ORDER BY sha256')
      expect(await queryOnce(url, 'SELECT sha256 FROM blobs ORDER BY sha256')).toEqual(named)
      const chunks = await queryOnce(url, 'SELECT upload FROM blob_chunks ORDER BY upload')
      expect(chunks).toEqual(await queryOnce(url, 'SELECT upload FROM blobs ORDER BY upload'))
      expect(await queryOnce(url, 'SELECT * FROM blob_uploads')).toEqual([])
    }
    for (const blobs of processes) await blobs.close()
    await reader.close()
    await store.close()
  })
})
