import { itPrintsWhatPagesSay } from './printed.ts'

itPrintsWhatPagesSay([
  ['docs/reference/gateway.md', 5],
  ['docs/reference/network-life.md', 30],
  ['docs/reference/networks.md', 5],
  ['docs/reference/peers.md', 10],
  ['docs/reference/rates.md', 2],
  ['docs/reference/samples.md', 6],
])
