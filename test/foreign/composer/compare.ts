// Compares the answers of Composer and daicho to the requests of a case, and makes a case with a difference smaller.
import { type Answer, classify, type Side, sorted } from './answers.ts'
import { DENIED_CHANGE, errorText, explain, SEVERAL_ERRORS } from './explained.ts'
import { type Case, formatFiles, type Request } from './generate.ts'

/** A request that the two answered in different ways; null: the deployment. */
export interface Difference {
  readonly request: Request | null
  /** The index of the call, for a request with calls. */
  readonly call: number | null
  readonly composer: Answer
  readonly daicho: Answer
}

export interface Compared {
  readonly steps: number
  readonly calls: number
  /** How many transactions both ran, and how many both rejected. */
  readonly ran: number
  readonly rejected: number
  readonly explained: readonly string[]
  /** The first difference that is not explained. */
  readonly difference: Difference | null
  /** The request at which the comparison ended early; null if it did not, or at the deployment. */
  readonly end: Request | null
}

/** The number of deployments: each has its own name. */
let deployments = 0

export async function compare(network: Case, one: Side, other: Side): Promise<Compared> {
  const explained: string[] = []
  const counts = { steps: 1, calls: 0, ran: 0, rejected: 0 }
  deployments += 1
  const name = `oracle-${deployments}`
  const deployed = {
    composer: await one.deploy(network, name),
    daicho: await other.deploy(network, name),
  }
  for (const found of differences(null, deployed.composer, deployed.daicho)) {
    const key = explain(found, network)
    if (key !== null) explained.push(key)
    return { ...counts, explained, difference: key === null ? found : null, end: null }
  }
  if ('failed' in deployed.composer) return { ...counts, explained, difference: null, end: null }
  for (const request of network.requests) {
    const compared = await compareRequest(request, network, one, other)
    counts.steps += 1
    counts.calls += request.kind === 'ask' ? request.calls.length : 1
    explained.push(...compared.explained)
    const { difference, isDifferent, composed } = compared
    if (difference !== null) return { ...counts, explained, difference, end: request }
    // The two may have different resources.
    if (isDifferent && !isRead(request)) {
      return { ...counts, explained, difference, end: request }
    }
    if (request.kind === 'submit') counts['ok' in composed ? 'ran' : 'rejected'] += 1
  }
  return { ...counts, explained, difference: null, end: null }
}

interface ComparedRequest extends Pick<Compared, 'explained' | 'difference'> {
  readonly composed: Answer
  /** Whether one of the two succeeded where the other failed, or with another result. */
  readonly isDifferent: boolean
}

async function compareRequest(
  request: Request,
  network: Case,
  one: Side,
  other: Side,
): Promise<ComparedRequest> {
  const [composed, answered] = await Promise.all([
    one.answer(request, network),
    other.answer(request, network),
  ])
  const explained: string[] = []
  let isDifferent = false
  for (const found of differences(request, composed, answered)) {
    const key = explain(found, network)
    const hasTwo = key === SEVERAL_ERRORS || key === DENIED_CHANGE
    const confirmed = hasTwo ? await confirmBoth(found, request, network, one, other) : null
    if (key === null || (hasTwo && confirmed === null)) {
      return { composed, explained, difference: found, isDifferent }
    }
    explained.push(key, ...(confirmed?.explained ?? []))
    const { composer, daicho, call } = found
    const isError = errorText(composer, call) !== null && errorText(daicho, call) !== null
    const differs = !isError || confirmed?.isDifferent === true
    isDifferent ||= differs
    // Later calls read the writes of this call, and later events have other numbers.
    if (differs && request.kind === 'ask' && call !== null) {
      const { writes = false, kind } = request.calls[call] ?? {}
      if (writes || kind === 'event') break
    }
  }
  return { composed, explained, difference: null, isDifferent }
}

const CONFIRMED = { explained: [], isDifferent: false }

/**
 * Returns null unless a request with two errors has both: the side that reported one of them agrees with the other one.
 * If one of them is the refusal of an access rule or of an identity, the same request of the administrator has only the
 * other one.
 */
async function confirmBoth(
  { call, composer, daicho }: Difference,
  request: Request,
  network: Case,
  one: Side,
  other: Side,
): Promise<Pick<ComparedRequest, 'explained' | 'isDifferent'> | null> {
  for (const [side, answer] of [
    [one, daicho],
    [other, composer],
  ] as const) {
    const error = errorText(answer, call) ?? ''
    const [, id = '', own] =
      /with ID '(.*?)'(?: in collection with ID '\w+:(.*?)')?/s.exec(error) ?? []
    const code = request.kind === 'ask' ? (request.calls[call ?? 0]?.code ?? '') : ''
    const [, used = ''] = /registry\("\w+", "([^"]+)"\)/.exec(code) ?? []
    const type = own ?? ('type' in request ? request.type : used)
    const isListed = (by: string | null) => isFound(side, type, id, network, by)
    const reported = classify(error)
    if (reported === 'missing') {
      // A rule with a transaction can deny a read that is allowed outside of the transaction.
      const isDenied = errorText(composer, call)?.includes(
        `'READ' access to resource '${type}#${id}'`,
      )
      return isDenied !== true && (await isListed(request.caller)) ? null : CONFIRMED
    }
    if (reported === 'exists') return (await isListed(null)) ? CONFIRMED : null
  }
  if (request.caller === null) return null
  const reported = [composer, daicho].map((answer) => classify(errorText(answer, call) ?? ''))
  if (!reported.some((error) => error === 'denied' || error === 'identity')) return null
  const calls = request.kind === 'ask' ? request.calls.filter((_, at) => at === call) : []
  const asked = request.kind === 'ask' ? { ...request, calls } : request
  const compared = await compareRequest({ ...asked, caller: null }, network, one, other)
  return compared.difference === null ? compared : null
}

/** Whether a resource is in the list that `caller` receives. */
async function isFound(
  side: Side,
  type: string,
  id: string,
  network: Case,
  caller: string | null,
): Promise<boolean> {
  const { kinds, identifiers } = network
  if (kinds[type] === undefined) return false
  const answer = await side.answer({ kind: 'list', caller, type }, network)
  const found = 'ok' in answer && Array.isArray(answer.ok) ? answer.ok : []
  return found.some((each) => each[identifiers[type] ?? ''] === id)
}

const READS: readonly Request['kind'][] = [
  ...(['read', 'list', 'resolve', 'exists', 'query', 'check', 'historian'] as const),
]

function isRead(request: Request): boolean {
  if (request.kind === 'ask') {
    // The historian lists the events of a transaction.
    return !request.calls.some(({ writes, kind }) => writes || kind === 'event')
  }
  return READS.includes(request.kind)
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
  return shown(withoutOrder(composer.ok)) === shown(withoutOrder(daicho.ok))
}

/** Sorts a list of transactions, because their ids are random. */
function withoutOrder(value: unknown): unknown {
  if (!Array.isArray(value)) return value
  const isRandom = value.some((each) => Object.hasOwn(Object(each), 'transactionId'))
  return isRandom ? value.map(shown).sort() : value
}

/** Returns a value as JSON without present times and random ids. Generated values have earlier times. */
function shown(value: unknown): string {
  return JSON.stringify(sorted(value) ?? null)
    .replaceAll(/"20[2-9][1-9]-\d\d-\d\dT[\d:.]+Z"/g, '"NOW"')
    .replaceAll(/\d+\/\d+\/20[2-9][1-9]|\d+:\d\d:\d\d [AP]M|\b1[6-9]\d{11}\b/g, 'NOW')
    .replaceAll(/[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d 20[2-9][1-9] [\d:]{8}/g, 'NOW')
    .replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, 'UUID')
}

/** Returns the smallest case found that still has a difference like `found`, which is not explained. */
export async function shrink(
  network: Case,
  one: Side,
  other: Side,
  found: Difference,
): Promise<{ network: Case; difference: Difference }> {
  let best = network
  let difference = found
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

/** Returns the part of a difference that a smaller case must keep. */
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
export function summarize({ request, call, composer, daicho }: Difference): string {
  const asked = request?.kind === 'ask' ? request.calls[call ?? 0]?.code : JSON.stringify(request)
  return `${request?.caller ?? 'admin'}: ${asked}\n  composer ${JSON.stringify(composer)}\n  daicho   ${JSON.stringify(daicho)}`
}

export function print({ network, difference }: { network: Case; difference: Difference }): void {
  console.log(`\n--- seed ${network.seed}`)
  for (const [path, text] of formatFiles(network, 'oracle')) {
    if (path === 'package.json' || /async function (?:askEach|doReturn)/.test(text)) continue
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
