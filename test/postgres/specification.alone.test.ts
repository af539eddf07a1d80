// The tests of the specification, the model test and the tests of the state and of authors, with nodes whose stores are PostgreSQL databases. The file has
// its own process, so that `useDatabases` affects no other test file.
import { describe } from 'vitest'
import { useDatabases } from '../support/engine.ts'
import { sharedPostgres } from './shared.ts'

const postgres = await sharedPostgres()
if (postgres.missing === null) useDatabases(postgres)

describe.skipIf(postgres.missing !== null)(`nodes on databases${postgres.note}`, async () => {
  await import('../specification/ledger.test.ts')
  await import('../specification/ledger-endpoints.test.ts')
  await import('../model.test.ts')
  await import('../proofs/state-roots.test.ts')
  await import('../authors.test.ts')
})
