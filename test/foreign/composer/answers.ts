import type { Case, Request } from './generate.ts'

/** The result of a request, or the class of its error and its message. */
export type Answer =
  | { readonly ok: unknown }
  | { readonly failed: string; readonly message: string }

/** Composer or daicho, with one network at a time. */
export interface Side {
  /** Deploys a network and issues the identities of its people. */
  deploy(network: Case, name: string): Promise<Answer>
  /** Answers a request to `network`, which is deployed. */
  answer(request: Request, network: Case): Promise<Answer>
}

/** Classes of errors by their messages. Clients of Composer match on these messages. */
const CLASSES: readonly [RegExp, string][] = [
  [/^Object with ID '.*' in collection with ID '.*' does not exist/s, 'missing'],
  [/^The current identity|^no identity of this network/, 'identity'],
  [/does not have '\w+' access/, 'denied'],
  [/Could not find any functions to execute/, 'no function'],
  [/already exists/, 'exists'],
  [/^(?:\w+Error: )?own (?:text|type)$/, 'own'],
]

/** Returns the class of an error with this text; `invalid` for all errors whose texts differ between the two. */
export function classify(text: string): string {
  return CLASSES.find(([pattern]) => pattern.test(text))?.[1] ?? 'invalid'
}

export function failure(error: unknown): Answer {
  const message = error instanceof Error ? error.message : String(error)
  return { failed: classify(message), message }
}

/** Returns a copy of `value` with sorted members, without times of events, and with `id`, of a transaction, replaced. */
export function withoutIds(value: unknown, id: string): unknown {
  // Composer's client returns `Date` objects.
  const text = JSON.stringify(sorted(JSON.parse(JSON.stringify(value)))).replaceAll(id, 'TX')
  return JSON.parse(text)
}

/** Returns a copy of `value` whose objects have sorted members. */
export function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  const members = Object.entries(value)
    .filter(([name]) => name !== 'timestamp')
    .sort(([one], [other]) => (one < other ? -1 : 1))
  return Object.fromEntries(members.map(([name, member]) => [name, sorted(member)]))
}

interface HistorianRecord {
  readonly transactionType: string
  readonly transactionInvoked: string
  readonly participantInvoking?: string | null
  readonly eventsEmitted?: readonly { readonly $class: string }[]
}

/** Records of the start of a network and of the first use of an identity, which daicho does not have, or has otherwise. */
const OTHER_RECORDS = /^\S*(?:StartBusinessNetwork|ActivateCurrentIdentity)|nobody$/

/** Returns a line for each record of the historian, without random ids. */
export function historianLines(records: readonly HistorianRecord[]): string[] {
  const lines = records.map((record) => {
    const { transactionType, transactionInvoked, participantInvoking, eventsEmitted = [] } = record
    const isOwn = transactionInvoked.startsWith(`resource:${transactionType}#`)
    const events = eventsEmitted.map(({ $class }) => $class)
    return [transactionType, isOwn, ...events, participantInvoking ?? 'nobody'].join(' ')
  })
  return lines.filter((line) => !OTHER_RECORDS.test(line)).sort()
}
