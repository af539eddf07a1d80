import { itPrintsWhatPagesSay } from './printed.ts'

itPrintsWhatPagesSay([
  ['docs/reference/ledger/attachments.md', 10],
  ['docs/reference/ledger/chain-format.md', 8],
  ['docs/reference/ledger/changes.md', 2],
  ['docs/reference/ledger/export.md', 8],
  ['docs/reference/ledger/history.md', 10],
  ['docs/reference/ledger/items.md', 40],
  ['docs/reference/ledger/proofs.md', 15],
  ['docs/reference/ledger/queries.md', 10],
  ['docs/reference/gateway/transactions.md', 5],
])
