// `npm run bench` runs every benchmark. `npm run bench -- ledger` runs one benchmark, and
// `npm run bench -- ledger single` runs one part of it.
const BENCHMARKS: Record<string, () => Promise<{ run(parts: readonly string[]): Promise<void> }>> =
  {
    ledger: () => import('./ledger.ts'),
    exchange: () => import('./exchange.ts'),
    postgres: () => import('./postgres.ts'),
    attachments: () => import('./attachments.ts'),
    queries: () => import('./queries.ts'),
    'as-of': () => import('./as-of.ts'),
    rates: () => import('./rates.ts'),
    converter: () => import('./converter.ts'),
    'converter-beside-ledger': () => import('./converter-beside-ledger.ts'),
    changes: () => import('./changes.ts'),
    samples: () => import('./samples.ts'),
    tokens: () => import('./tokens.ts'),
    proofs: () => import('./proofs.ts'),
    state: () => import('./state.ts'),
    gateway: () => import('./gateway.ts'),
    transactions: () => import('./transactions.ts'),
    mesh: () => import('./mesh.ts'),
    witnesses: () => import('./witnesses.ts'),
    start: () => import('./start.ts'),
  }

for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1))

const [name, ...parts] = process.argv.slice(2)
if (name !== undefined && BENCHMARKS[name] === undefined) {
  console.error(`available: ${Object.keys(BENCHMARKS).join(', ')}`)
  process.exit(2)
}
for (const [each, open] of Object.entries(BENCHMARKS)) {
  if (name !== undefined && name !== each) continue
  console.log(`\n== ${each}`)
  const benchmark = await open()
  await benchmark.run(parts)
}
