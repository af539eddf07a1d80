// The tests of past states and of erasures of many items, with nodes whose stores are PostgreSQL databases. The file has
// its own process, so that `useDatabases` affects no other test file.
import { describe } from 'vitest'
import { useDatabases } from '../support/engine.ts'
import { sharedPostgres } from './shared.ts'

const postgres = await sharedPostgres()
if (postgres.missing === null) useDatabases(postgres)

describe.skipIf(postgres.missing !== null)(`nodes on databases${postgres.note}`, async () => {
  await import('../../src/ledger/read/as-of.test.ts')
  await import('../../src/ledger/write/erasures.test.ts')
})
