import { describe } from 'vitest'
import { sharedPostgres, type TestDatabase } from '../../../test/postgres/shared.ts'
import { describeRecords } from '../records-contract.ts'
import { describeSearch } from '../search-contract.ts'
import { describeStore } from '../store-contract.ts'
import { CONTRACT_SERVER_ID, type StoreUnderTest } from '../test-store.ts'
import { openPostgresReader } from './reader.ts'
import { openPostgresStore } from './store.ts'

const serverId = CONTRACT_SERVER_ID
const postgres = await sharedPostgres()

function makeStore(): StoreUnderTest {
  let database: TestDatabase | null = null
  const url = async () => {
    database ??= await postgres.newDatabase()
    return database.url
  }
  return {
    open: async () => openPostgresStore({ url: await url(), serverId, durable: true }),
    read: async () => openPostgresReader({ url: await url(), frozen: false }),
    remove: async () => {
      await database?.[Symbol.asyncDispose]()
    },
  }
}

describe.skipIf(postgres.missing !== null)(`the engine${postgres.note}`, () => {
  describeStore('PostgreSQL', makeStore)
  describeRecords('PostgreSQL', makeStore)
  describeSearch('PostgreSQL', makeStore)
})
