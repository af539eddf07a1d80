import { describe, expect, it } from 'vitest'
import { sharedPostgres } from '../../../test/postgres/shared.ts'
import { CONTRACT_SERVER_ID } from '../contract/test-store.ts'
import { openStore } from '../open.ts'
import { schemaDifference } from './catalog.ts'
import { Connection } from './connection.ts'

const postgres = await sharedPostgres()

const CHANGES: readonly (readonly [name: string, change: string, what: string])[] = [
  [
    'an index',
    'CREATE INDEX more ON items (id)',
    'has an unexpected index more on items btree (id)',
  ],
  [
    'a missing index',
    'DROP INDEX items_in_order',
    'lacks index items_in_order on items btree (db, created)',
  ],
  [
    'a column',
    'ALTER TABLE items ADD COLUMN more text',
    'has an unexpected column items.more text default',
  ],
  [
    'a missing column',
    'ALTER TABLE blocks DROP COLUMN root',
    'lacks column blocks.root text C not null',
  ],
  [
    'another type',
    'ALTER TABLE items ALTER COLUMN id TYPE varchar COLLATE "C"',
    'has an unexpected column items.id character varying C not null',
  ],
  [
    'another collation',
    'ALTER TABLE items ALTER COLUMN id TYPE text COLLATE "POSIX"',
    'has an unexpected column items.id text POSIX not null',
  ],
  [
    'a default',
    `ALTER TABLE items ALTER COLUMN item SET DEFAULT ''`,
    'has an unexpected column items.item text C not null with a default',
  ],
  [
    'a missing constraint',
    'ALTER TABLE items ALTER COLUMN item DROP NOT NULL',
    'has an unexpected column items.item text C',
  ],
  [
    'a constraint',
    'ALTER TABLE items ADD CONSTRAINT short CHECK (length(item) < 9)',
    'has an unexpected constraint short on items',
  ],
  [
    'a trigger',
    `CREATE TRIGGER quiet BEFORE UPDATE ON items FOR EACH ROW
        EXECUTE FUNCTION suppress_redundant_updates_trigger()`,
    'has an unexpected trigger quiet on items',
  ],
  [
    'a rule',
    'CREATE RULE quiet AS ON DELETE TO erasures DO INSTEAD NOTHING',
    'has an unexpected rule quiet on erasures',
  ],
  [
    'row security',
    'ALTER TABLE items ENABLE ROW LEVEL SECURITY',
    'has an unexpected table items with row security',
  ],
  [
    'a table without a log',
    'ALTER TABLE tree SET UNLOGGED',
    'has an unexpected table tree without a log',
  ],
  [
    'a part of a table',
    'CREATE TABLE hidden () INHERITS (uncompacted)',
    'has an unexpected table hidden as a part of uncompacted',
  ],
  [
    'a view in place of a table',
    'ALTER TABLE dropped RENAME TO moved; CREATE VIEW dropped AS SELECT * FROM moved',
    'has an unexpected column dropped.db bigint',
  ],
  ['a missing table', 'DROP TABLE tree', 'lacks table tree'],
]

describe.skipIf(postgres.missing !== null)(`the schema of a database${postgres.note}`, () => {
  it('the schema of a database is compared with the schema of a new store; the first difference is reported, and other tables are ignored', async () => {
    await using database = await postgres.newDatabase()
    const { url } = database
    const options = { location: url, serverId: CONTRACT_SERVER_ID, durable: true }
    await (await openStore(options)).close()
    const connection = await Connection.open({ url, durable: true })
    await connection.execute('CREATE TABLE other (n int)')
    expect(await schemaDifference(connection)).toBeNull()
    for (const [name, change, what] of CHANGES) {
      await connection.execute(`BEGIN; ${change}`)
      const difference = await schemaDifference(connection)
      expect([name, difference]).toEqual([
        name,
        `the schema of the database was changed: it ${what}`,
      ])
      await connection.execute('ROLLBACK')
    }
    await connection.close()
  })
})
