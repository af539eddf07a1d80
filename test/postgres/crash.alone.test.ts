// The crash tests, with nodes whose stores are PostgreSQL databases. The file has its own process, so
// that `useDatabases` affects no other test file.
import { describe } from 'vitest'
import { useDatabases } from '../support/engine.ts'
import { sharedPostgres } from './shared.ts'

const postgres = await sharedPostgres()
if (postgres.missing === null) useDatabases(postgres)

describe.skipIf(postgres.missing !== null)(`crashes on databases${postgres.note}`, async () => {
  await import('../crash/ledger.test.ts')
  await import('../crash/idempotency.test.ts')
  await import('../crash/attachments.test.ts')
  await import('../crash/checkpoints.test.ts')
})
