import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { tamper } from '../../../test/support/tampered.ts'
import { systemClock } from '../../base/clock.ts'
import { openLedger } from './open.ts'

/** Creates a folder, and returns it with a function that opens a ledger in it. */
function fresh() {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-test-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return { folder, open: () => openLedger({ folder, clock: systemClock }) }
}

it('leaves the store in one file without a write-ahead log after closing', async () => {
  const { folder, open } = fresh()

  const first = await open()
  await first.service.write.createDatabase('fruit')
  expect(await first.service.read.databases()).toEqual(['fruit'])
  await first.close()
  expect(readdirSync(folder).sort()).toEqual([
    'ledger.db',
    'ledger.lock',
    'node.key',
    'signed-head',
    'state.db',
  ])

  const second = await open()
  expect(await second.service.read.databases()).toEqual(['fruit'])
  await second.close()
})

it('rejects a store with STORE_DAMAGED if it has databases but no chain', async () => {
  const { folder, open } = fresh()
  const first = await open()
  await first.service.write.createDatabase('fruit')
  await first.close()
  tamper(folder, 'DELETE FROM blocks; DELETE FROM tree')

  await expect(open()).rejects.toMatchObject({
    code: 'STORE_DAMAGED',
    message: 'the store has databases but no chain',
  })
})

it('with a height, `record` rejects a change of an owned database if a block at or above that height has changed the database', async () => {
  const { service, close } = await openLedger({
    folder: null,
    clock: systemClock,
  })
  const own = service.write.ownDatabase('own')
  const create = (id: string) => [
    { kind: 'create_item', db: 'own', id, text: `{"id":"${id}"}`, assigned: false } as const,
  ]
  await own.record([{ kind: 'create_db', db: 'own' }])
  await service.write.createDatabase('other')
  await expect(own.record(create('a'), 0)).rejects.toMatchObject({ code: 'DATABASE_CHANGED' })
  // Block 1 changed only another database.
  expect((await own.record(create('a'), 1)).height).toBe(2)
  await expect(own.record(create('b'), 2)).rejects.toMatchObject({ code: 'DATABASE_CHANGED' })
  expect((await own.record(create('b'), 3)).height).toBe(3)
  await close()
})
