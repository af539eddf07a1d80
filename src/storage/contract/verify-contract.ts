import { randomBytes } from 'node:crypto'
import { describe, expect, it, onTestFinished } from 'vitest'
import { canonicalJson } from '../../base/canonical-json.ts'
import { type Entry, sealBlock } from '../../chain/index.ts'
import { openStore, openStoreReader } from '../open.ts'
import { verifyStore } from '../verify/verify.ts'
import { ERASING, findingIn } from './test-filled.ts'
import { appendEntries, CONTRACT_SERVER_ID, entry } from './test-store.ts'

/** A store with every kind of entry (`fillStore`), and a function that changes its tables directly. */
export interface FilledStore {
  readonly location: string
  /** Runs SQL that both engines understand. */
  tamper(sql: string): void | Promise<void>
}

/** Tests the findings of a verification in the tables of every engine. */
export function describeVerify(
  name: string,
  filled: (also?: readonly Entry[]) => Promise<FilledStore>,
): void {
  describe(`a verification on ${name}`, () => {
    it('finds nothing in an intact store, and counts its contents', async () => {
      const { location } = await filled(ERASING)
      const store = await openStoreReader(location, { frozen: true })
      const progressCalls: number[] = []
      const verification = await verifyStore(store, {
        progress: ({ blocks }) => progressCalls.push(blocks),
      })
      await store.close()
      expect(verification).toEqual({
        serverId: CONTRACT_SERVER_ID,
        blocks: 6,
        entries: 20,
        erased: 1,
        databases: 2,
        items: 4,
        headId: expect.stringMatching(/^[0-9a-f]{128}$/),
        finding: null,
      })
      expect(progressCalls).toEqual([6])
    })

    it('does not report a missing idempotency record, because no entry proves such records', async () => {
      const { location, tamper } = await filled()
      await tamper('DELETE FROM answers')
      expect(await findingIn(location)).toBeNull()
    })

    it('reports no difference if the chain ends with items that were created and deleted', async () => {
      const { location } = await filled()
      const store = await openStore({ location, serverId: CONTRACT_SERVER_ID, durable: false })
      for (const id of ['e', 'f', 'g']) {
        await appendEntries(store, [entry.create('veg', id), entry.remove('veg', id)], 5_000)
      }
      await store.close()
      // Fixed defect: after the last row, verification continued with the first row.
      expect(await findingIn(location)).toBeNull()
    })

    it.each([
      [
        'a removed row',
        "DELETE FROM items WHERE id = 'a'",
        'item a of fruit is neither stored nor recorded as deleted',
      ],
      [
        'an added row',
        `INSERT INTO items SELECT 77, db, 'new', 77, '{"id":"new"}' FROM items WHERE id = 'a'`,
        'but the chain does not create it there',
      ],
      [
        'a row replaced by an invented one',
        `DELETE FROM items WHERE id = 'c'; INSERT INTO items
      SELECT 77, db, 'new', 77, '{"id":"new"}' FROM items WHERE id = 'a'`,
        'but the chain does not create it there',
      ],
      [
        'a row with the text before its last change',
        `UPDATE items SET item = '{"id":"a","n":0}', revision = created WHERE id = 'a'`,
        'but is changed here',
      ],
      [
        'a restored deleted row',
        `INSERT INTO items SELECT 16386, db, 'zz', 16386, '{"id":"zz"}' FROM items WHERE id = 'a'`,
        'is stored as created here',
      ],
      [
        'a removed last block',
        'DELETE FROM blocks WHERE height = 5',
        'the log has leaves after the last block',
      ],
      [
        'a removed last block and leaf',
        'DELETE FROM blocks WHERE height = 5; DELETE FROM tree WHERE height = 5',
        'but the chain has none there',
      ],
      ['a removed leaf of the log', 'DELETE FROM tree WHERE height = 3', 'the nodes of the log'],
      [
        'a removed block in the middle',
        'DELETE FROM blocks WHERE height = 2',
        'height 2 is expected here',
      ],
      [
        'a revision removed from a history',
        "DELETE FROM superseded WHERE id = 'a'",
        'neither item a of fruit nor its history',
      ],
      [
        'a deletion that is not recorded',
        'DELETE FROM deleted_items',
        'item b of fruit is neither stored nor recorded as deleted',
      ],
      [
        'an added deletion',
        "INSERT INTO deleted_items SELECT db, 'a', 77, 76 FROM items WHERE id = 'a'",
        'the chain does not delete them',
      ],
      [
        'a deletion with another creation',
        'UPDATE deleted_items SET created = created + 1',
        'neither stored nor recorded as deleted',
      ],
      [
        'a deleted database with another deletion',
        'UPDATE deleted_databases SET deleted = deleted + 1',
        'but the chain does not delete it there',
      ],
      [
        'an added revision',
        "INSERT INTO superseded SELECT db, id, revision FROM items WHERE id = 'c'",
        'revisions that are not in the chain',
      ],
      [
        'an idempotency record without entries',
        `INSERT INTO answers SELECT 99999, 'other', fingerprint, entries, timestamp, digest
      FROM answers LIMIT 1`,
        'which is not in the chain',
      ],
      [
        'an idempotency record moved to another entry of its block',
        'UPDATE answers SET position = position - 1',
        'the idempotency record of 2.0 was changed',
      ],
      [
        'an idempotency record moved to another block',
        'UPDATE answers SET position = 0',
        'the idempotency record of 0.0 was changed',
      ],
      ['a removed database', "DELETE FROM databases WHERE name = 'veg'", 'is missing'],
      [
        'a renamed database',
        "UPDATE databases SET name = 'vex' WHERE name = 'veg'",
        'but the chain does not create it there',
      ],
      [
        'a removed attachment',
        "DELETE FROM attachments WHERE name = 'kept'",
        'attachment kept of item a of fruit is missing',
      ],
      [
        'an added attachment',
        "INSERT INTO attachments SELECT 99999, 'x', '', 0, 'y', db, id, NULL FROM attachments WHERE name = 'kept'".replace(
          'attachments SELECT',
          'attachments (position, name, content_type, length, sha256, db, id, ended) SELECT',
        ),
        'but the chain has none there',
      ],
      [
        'a replaced attachment restored in place of the current one',
        `UPDATE attachments SET sha256 = (SELECT sha256 FROM attachments WHERE name = 'kept')
      WHERE name = 'replaced' AND ended IS NULL`,
        'differs from the chain',
      ],
      [
        'a current attachment stored as deleted',
        "UPDATE attachments SET ended = 90000 WHERE name = 'kept'",
        'attachments are stored as replaced or deleted; the chain has',
      ],
    ])('finds %s', async (_, sql, what) => {
      const { location, tamper } = await filled()
      await tamper(sql)
      const finding = await findingIn(location)
      expect(finding?.what).toContain(what)
    })

    it.each<[string, string, string]>([
      ['JSON that is not an entry', '{}', 'it is not an entry'],
      ['text that is not JSON', 'entry', 'it is not an entry'],
      [
        'an entry of another node',
        '{"db":"new","method":"create_db","serverid":5}',
        'the entry has another server id',
      ],
      [
        'members out of order',
        `{"method":"create_db","db":"new","serverid":${CONTRACT_SERVER_ID}}`,
        'it is not in canonical form',
      ],
      [
        'a lone surrogate',
        `{"db":"fruit","item":{"id":"z","n":"\\ud800"},"method":"create_item","serverid":${CONTRACT_SERVER_ID}}`,
        'it is not in canonical form',
      ],
      [
        'a number out of range',
        `{"db":"fruit","item":{"id":"z","n":1e999},"method":"create_item","serverid":${CONTRACT_SERVER_ID}}`,
        'it is not in canonical form',
      ],
      [
        'an attachment without metadata that was never erased',
        `{"attachment":{},"db":"fruit","id":"a","method":"create_attachment","serverid":${CONTRACT_SERVER_ID}}`,
        'it has no attachment metadata',
      ],
      [
        'a second creation of a database',
        canonicalJson(entry.createDb('fruit')),
        'database fruit exists already',
      ],
      [
        'the deletion of a missing database',
        canonicalJson(entry.deleteDb('gone')),
        'there is no database gone at this height',
      ],
      [
        'an item of a missing database',
        canonicalJson(entry.create('gone', 'z')),
        'there is no database gone at this height',
      ],
      [
        'the change of an item of a missing database',
        canonicalJson(entry.update('gone', 'z')),
        'there is no database gone at this height',
      ],
      [
        'an item that is not stored',
        canonicalJson(entry.create('fruit', 'z')),
        'neither item z of fruit nor its history has this revision',
      ],
    ])('finds this error in a correctly sealed block: %s', async (_, text, what) => {
      const { location } = await filled()
      const store = await openStore({ location, serverId: CONTRACT_SERVER_ID, durable: false })
      const block = sealBlock(await store.head(CONTRACT_SERVER_ID), {
        serverId: CONTRACT_SERVER_ID,
        entries: [canonicalJson(entry.createDb('before')), text],
        timestamps: [9_000, 9_000],
        blinds: randomBytes(64),
      })
      const position = 6 * 16_384
      // The second entry is stored without its effect, because a forger need not apply it.
      await store.append(block, [{ kind: 'create_db', position, db: 'before' }])
      await store.close()
      expect(await findingIn(location)).toEqual({ height: 6, index: 1, what })
    })

    const strays: readonly [string, string, number, number][] = [
      ['table blocks has a row whose height is -1', 'blocks', 0, -1],
      ['table tree has a row whose height is -3', 'tree', 0, -3],
      ['table items has a row whose created is -2', 'items', -5, -2],
      ['table attachments has a row whose position is -2', 'attachments', 0, -2],
      ['table answers has a row whose position is -1', 'answers', 0, -1],
      ['table items has rows of a database that does not exist: -5', 'items', -5, 16_384],
      ['table items has rows of a database that does not exist: 99999', 'items', 99_999, 16_384],
      ['table superseded has rows of a database that does not exist: 7', 'superseded', 7, 9],
    ]
    it.each(strays)('finds that %s', async (what, table, db, at) => {
      const { location, tamper } = await filled()
      const values = {
        items: `(created, db, id, revision, item) VALUES (${at}, ${db}, 'x', ${at}, '{"id":"x"}')`,
        superseded: `(db, id, position) VALUES (${db}, 'x', ${at})`,
        blocks: `(height, id, nonce, root, body, timestamps, blinds, commitments)
        SELECT ${at}, 'x', 0, 'x', body, timestamps, blinds, commitments FROM blocks WHERE height = 0`,
        tree: `(height, hashes) SELECT ${at}, hashes FROM tree WHERE height = 0`,
        attachments: `(position, db, id, name, content_type, length, sha256)
        VALUES (${at}, ${db}, 'x', 'x', 'x', 1, 'x')`,
        answers: `(position, key, fingerprint, entries, timestamp, digest) VALUES (${at}, 'x', 'x', 1, 1, 'x')`,
      }
      await tamper(`INSERT INTO ${table} ${Object(values)[table]}`)
      expect((await findingIn(location))?.what).toContain(what)
    })

    it('finds a database that is stored as deleted, although no entry deletes it', async () => {
      const { location, tamper } = await filled()
      await tamper('INSERT INTO dropped SELECT 77 FROM node')
      expect((await findingIn(location))?.what).toBe(
        '0.77 is listed as a deleted database, but the chain does not delete it',
      )
    })

    it('finds content that was stored in the place of an erased entry', async () => {
      const { location, tamper } = await filled(ERASING)
      await tamper(`UPDATE blocks SET body = replace(body, '{"id":"a"}', '{"id":"a","n":5}')
      WHERE height = 1`)
      expect((await findingIn(location))?.what).toBe(
        '1.1 is not an erased entry of item a of fruit',
      )
    })

    it('an index reports its progress in blocks since its database was created', async () => {
      const { location } = await filled()
      const store = await openStore({ location, serverId: CONTRACT_SERVER_ID, durable: false })
      onTestFinished(() => store.close())
      const progress = async (db: string) =>
        (await store.indexes())
          .filter((one) => one.db === db)
          .map(({ done, total }) => [done, total])
      // The databases were created at heights 1 and 3 of a chain of 6 blocks, so they have 5 and 3 blocks to index.
      expect(await progress('fruit')).toEqual([[5, 5]])
      expect(await progress('veg')).toEqual([[0, 3]])
      while (await store.maintain());
      expect(await progress('veg')).toEqual([[3, 3]])
    })
  })
}
