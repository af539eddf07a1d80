import { itPrintsWhatPagesSay } from './printed.ts'

itPrintsWhatPagesSay([
  ['docs/reference/gateway/api.md', 5],
  ['docs/reference/gateway/network-life.md', 30],
  ['docs/reference/gateway/networks.md', 5],
  ['docs/reference/ledger/peers.md', 10],
  ['docs/reference/rates.md', 2],
  ['docs/reference/samples.md', 6],
])
