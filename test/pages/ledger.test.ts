import { itPrintsWhatPagesSay } from './printed.ts'

itPrintsWhatPagesSay([
  ['docs/reference/attachments.md', 10],
  ['docs/reference/chain-format.md', 8],
  ['docs/reference/changes.md', 2],
  ['docs/reference/export.md', 8],
  ['docs/reference/history.md', 10],
  ['docs/reference/ledger.md', 40],
  ['docs/reference/proofs.md', 15],
  ['docs/reference/queries.md', 10],
  ['docs/reference/transactions.md', 5],
])
