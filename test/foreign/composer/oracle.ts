// Compares daicho with Hyperledger Composer 0.20.9 on generated networks: deploys each network on both, sends the same
// requests to both, and compares all answers. Prints the smallest form of each difference that `explained.ts` does not
// explain. Composer's packages are installed once into the folder `composer` (default: /tmp/composer-oracle).
// Usage: node scripts/run.mjs test/foreign/composer/oracle.ts [networks] [first seed] [composer] [differences to print]
import '../../support/built-threads.ts'
import { type Answer, classify, type Side, sorted } from './answers.ts'
import { ComposerSide } from './composer.ts'
import { DaichoSide } from './daicho.ts'
import { explain } from './explained.ts'
import { type Case, formatFiles, generateCase, type Request } from './generate.ts'

const [networks = '100', first = '1', composer = '/tmp/composer-oracle', shown = '5'] =
  process.argv.slice(2)

/** A request that the two answered in different ways; null: the deployment. */
export interface Difference {
  readonly request: Request | null
  /** The index of the call, for a request with calls. */
  readonly call: number | null
  readonly composer: Answer
  readonly daicho: Answer
}

interface Compared {
  readonly steps: number
  readonly calls: number
  readonly explained: readonly string[]
  readonly difference: Difference | null
}

/** The number of deployments: each has its own name. */
let deployments = 0

async function compare(network: Case, one: Side, other: Side): Promise<Compared> {
  const explained: string[] = []
  let calls = 0
  deployments += 1
  const name = `oracle-${deployments}`
  const deployed = {
    composer: await one.deploy(network, name),
    daicho: await other.deploy(network, name),
  }
  for (const found of differences(null, deployed.composer, deployed.daicho)) {
    const key = explain(found, network)
    return {
      steps: 1,
      calls,
      explained: key === null ? [] : [key],
      difference: key === null ? found : null,
    }
  }
  if ('failed' in deployed.composer) return { steps: 1, calls, explained, difference: null }
  for (const [at, request] of network.requests.entries()) {
    const [composed, answered] = await Promise.all([one.answer(request), other.answer(request)])
    calls += request.kind === 'ask' ? request.calls.length : 1
    let isEnd = false
    for (const found of differences(request, composed, answered)) {
      const key = explain(found, network)
      if (key === null) return { steps: at + 2, calls, explained, difference: found }
      explained.push(key)
      // After a difference, the two may have different resources.
      isEnd =
        request.kind !== 'read' &&
        request.kind !== 'list' &&
        request.kind !== 'resolve' &&
        request.kind !== 'exists' &&
        request.kind !== 'query'
    }
    if (isEnd) return { steps: at + 2, calls, explained, difference: null }
  }
  return { steps: network.requests.length + 1, calls, explained, difference: null }
}

function differences(request: Request | null, composer: Answer, daicho: Answer): Difference[] {
  if (isEqual(composer, daicho)) return []
  const calls = request?.kind === 'ask' ? [askedCalls(composer), askedCalls(daicho)] : []
  const [left, right] = calls
  if (left === undefined || right === undefined || left === null || right === null) {
    return [{ request, call: null, composer, daicho }]
  }
  const found = left.flatMap((answer, at) => {
    const answered = right[at] ?? ''
    if (comparable(answer) === comparable(answered)) return []
    return [{ request, call: at, composer: { ok: answer }, daicho: { ok: answered } }]
  })
  if (found.length > 0 || left.length !== right.length) return found
  return isEqual(withoutReturned(composer), withoutReturned(daicho))
    ? []
    : [{ request, call: null, composer, daicho }]
}

function withoutReturned(answer: Answer): Answer {
  return 'ok' in answer ? { ok: { ...(answer.ok as object), returned: null } } : answer
}

/** Returns an answer to a call without times and random ids. An error, which starts with “!”, becomes its class. */
function comparable(answer: string): string {
  if (answer.startsWith('!')) return `!${classify(answer.slice(1))}`
  return answer
    .replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, 'UUID')
    .replaceAll(/timestamp:(?:Date\([^)]*\)|"[^"]*")/g, 'timestamp')
}

function askedCalls(answer: Answer): string[] | null {
  if (!('ok' in answer) || typeof answer.ok !== 'object' || answer.ok === null) return null
  const { returned } = answer.ok as { returned: unknown }
  return Array.isArray(returned) ? returned.map(String) : null
}

function isEqual(composer: Answer, daicho: Answer): boolean {
  if ('failed' in composer || 'failed' in daicho) {
    return 'failed' in composer && 'failed' in daicho && composer.failed === daicho.failed
  }
  return JSON.stringify(sorted(composer.ok)) === JSON.stringify(sorted(daicho.ok))
}

/** Returns the smallest case found that still has a difference that is not explained. */
async function shrink(
  network: Case,
  one: Side,
  other: Side,
): Promise<{ network: Case; difference: Difference }> {
  let best = network
  let difference = (await compare(network, one, other)).difference
  if (difference === null) throw new Error(`the difference of ${network.seed} has gone`)
  for (let attempts = 0; attempts < 60; ) {
    const next = smaller(best, difference)
    let isSmaller = false
    for (const candidate of next) {
      attempts += 1
      if (attempts > 60) break
      const compared = await compare(candidate, one, other)
      if (compared.difference === null || kind(compared.difference) !== kind(difference)) continue
      best = candidate
      difference = compared.difference
      isSmaller = true
      break
    }
    if (!isSmaller) break
  }
  return { network: best, difference }
}

/** Returns what a smaller case must keep of a difference. */
function kind({ request, composer, daicho }: Difference): string {
  const shown = (answer: Answer) => ('failed' in answer ? answer.failed : 'ok')
  return [request?.kind, shown(composer), shown(daicho)].join()
}

function* smaller(network: Case, { request, call }: Difference): Generator<Case> {
  const { requests, rules, queries, scripts } = network
  const at = request === null ? -1 : requests.indexOf(request)
  if (at !== -1 && at < requests.length - 1)
    yield { ...network, requests: requests.slice(0, at + 1) }
  if (request?.kind === 'ask' && call !== null && request.calls.length > 1) {
    const calls = request.calls.filter((_, index) => index === call)
    yield { ...network, requests: [...requests.slice(0, at), { ...request, calls }] }
  }
  for (const size of [8, 4, 2, 1]) {
    for (let from = 0; from < requests.length - 1; from += size) {
      if (requests.length > size)
        yield {
          ...network,
          requests: requests.toSpliced(from, Math.min(size, requests.length - 1 - from)),
        }
    }
  }
  if (rules !== null) yield { ...network, rules: null }
  if (rules !== null && rules.length > 1)
    for (const index of rules.keys()) yield { ...network, rules: rules.toSpliced(index, 1) }
  for (const index of scripts.keys())
    if (index > 0) yield { ...network, scripts: scripts.toSpliced(index, 1) }
  if (queries.length > 0) yield { ...network, queries: [] }
}

/** Returns the difference in one line. */
function summarize({ request, call, composer, daicho }: Difference): string {
  const asked = request?.kind === 'ask' ? request.calls[call ?? 0]?.code : JSON.stringify(request)
  return `${request?.caller ?? 'admin'}: ${asked}\n  composer ${JSON.stringify(composer)}\n  daicho   ${JSON.stringify(daicho)}`
}

function print({ network, difference }: { network: Case; difference: Difference }): void {
  console.log(`\n--- seed ${network.seed}`)
  for (const [path, text] of formatFiles(network, 'oracle')) {
    if (path === 'package.json' || text.includes('async function askEach')) continue
    console.log(`# ${path}\n${text}`)
  }
  for (const request of network.requests) {
    const { request: last, call } = difference
    if (request.kind !== 'ask') console.log(JSON.stringify(request))
    else if (request === last && call !== null)
      console.log('ask', request.caller, request.calls[call]?.code)
    else
      console.log(
        'ask',
        request.caller,
        request.calls.map(({ code }) => code),
      )
  }
  console.log('composer', JSON.stringify(difference.composer))
  console.log('daicho  ', JSON.stringify(difference.daicho))
}

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
  if (total.unexplained <= Number(shown)) print(await shrink(network, one, other))
  else console.log(seed, summarize(difference))
}
console.log(`\n${JSON.stringify(total)}`)
for (const [key, count] of [...keys].sort(([, a], [, b]) => b - a)) console.log(`${count}  ${key}`)
await other.close()
process.exit(total.unexplained === 0 ? 0 : 1)
