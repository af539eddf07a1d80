// Compares daicho with Hyperledger Composer 0.20.9 on generated networks: deploys each network on both, sends the same
// requests to both, and compares all answers. Prints the smallest form of each difference that `explained.ts` does not
// explain. Composer's packages are installed once into the folder `composer` (default: /tmp/composer-oracle).
// Usage: node scripts/run.mjs test/foreign/composer/oracle.ts [networks] [first seed] [composer] [differences to print]
import '../../support/built-threads.ts'
import { compare, print, shrink, summarize } from './compare.ts'
import { ComposerSide } from './composer.ts'
import { DaichoSide } from './daicho.ts'
import { generateCase } from './generate.ts'

const [networks = '100', first = '1', composer = '/tmp/composer-oracle', shown = '5'] =
  process.argv.slice(2)

const one = new ComposerSide(composer)
const other = await DaichoSide.start()
const total = { networks: 0, steps: 0, calls: 0, unexplained: 0 }
const keys = new Map<string, number>()
for (let seed = Number(first); seed < Number(first) + Number(networks); seed += 1) {
  const network = generateCase(seed)
  const { steps, calls, explained, difference } = await compare(network, one, other)
  total.networks += 1
  total.steps += steps
  total.calls += calls
  for (const key of explained) keys.set(key, (keys.get(key) ?? 0) + 1)
  if (difference === null) continue
  total.unexplained += 1
  if (total.unexplained <= Number(shown)) print(await shrink(network, one, other, difference))
  else console.log(seed, summarize(difference))
}
console.log(`\n${JSON.stringify(total)}`)
for (const [key, count] of [...keys].sort(([, a], [, b]) => b - a)) console.log(`${count}  ${key}`)
await other.close()
process.exit(total.unexplained === 0 ? 0 : 1)
