// The differences between Composer and daicho that stay. Each key is the first cell of a row in
// docs/reference/gateway/composer.md, which a test checks.
import type { Answer } from './answers.ts'
import type { Case, Request } from './generate.ts'

/** An answer, or the answer to one call, in which Composer and daicho differ. */
export interface Found {
  readonly request: Request | null
  readonly call: number | null
  readonly composer: Answer
  readonly daicho: Answer
}

/** A difference as the explanations see it: the code of a call, and the texts of errors, or of results. */
interface Seen {
  readonly kind: Request['kind'] | 'deploy'
  readonly code: string
  readonly request: Request | null
  readonly network: Case
  /** The message of an error; null if the request or the call succeeded. */
  readonly composerError: string | null
  readonly daichoError: string | null
  readonly composer: string
  readonly daicho: string
}

type Explanation = readonly [key: string, explains: (seen: Seen) => boolean]

const bothFail = ({ composerError, daichoError }: Seen) =>
  composerError !== null && daichoError !== null

/** Whether daicho allows less than Composer: it refuses, or leaves out resources. */
const isStricter = ({ composerError, daichoError, composer, daicho }: Seen) =>
  composerError === null &&
  (daichoError !== null || daicho.length < composer.length || daicho === 'false')

export const EXPLANATIONS: readonly Explanation[] = [
  [
    'a required array that is missing',
    ({ composerError, network }) => {
      const [, field] = /missing required field (\w+)/.exec(composerError ?? '') ?? []
      return field !== undefined && network.models.some((text) => text.includes(`[] ${field}`))
    },
  ],
  [
    'a condition that throws, in a DENY rule',
    (seen) =>
      seen.network.features.includes('a condition that throws, in a DENY rule') && isStricter(seen),
  ],
  [
    'reads after a write in the same transaction',
    ({ request }) => request?.kind === 'ask' && request.rereads,
  ],
  [
    'a request with several errors',
    (seen) => bothFail(seen) && !/^(?:own|Could not)/.test(seen.composerError ?? ''),
  ],
  [
    'an array that contains a resource twice',
    ({ request, composerError, daichoError }) => {
      if (request?.kind !== 'createAll' || composerError !== null || daichoError === null)
        return false
      const ids = request.body.map((body) =>
        JSON.stringify(Object.entries(body).find(([name]) => name.startsWith('id'))),
      )
      return new Set(ids).size < ids.length
    },
  ],
  [
    'getAssetRegistry of a participant',
    ({ code, network }) => {
      const [, kind, type] = /registry\("(\w+)", "([^"]+)"\)/.exec(code) ?? []
      return (
        kind !== undefined &&
        network.kinds[type ?? ''] !== undefined &&
        network.kinds[type ?? ''] !== kind
      )
    },
  ],
  [
    'the identity of the administrator',
    ({ code, daicho }) => code.includes('getCurrentIdentity') && daicho === 'null',
  ],
]

export function explain(found: Found, network: Case): string | null {
  const seen = toSeen(found, network)
  return EXPLANATIONS.find(([, explains]) => explains(seen))?.[0] ?? null
}

function toSeen({ request, call, composer, daicho }: Found, network: Case): Seen {
  const code = request?.kind === 'ask' && call !== null ? (request.calls[call]?.code ?? '') : ''
  return {
    ...{ kind: request?.kind ?? 'deploy', code, request, network },
    ...{ composerError: errorText(composer, call), daichoError: errorText(daicho, call) },
    ...{ composer: resultText(composer), daicho: resultText(daicho) },
  }
}

function errorText(answer: Answer, call: number | null): string | null {
  if ('failed' in answer) return answer.message
  const isError = call !== null && typeof answer.ok === 'string' && answer.ok.startsWith('!')
  return isError ? String(answer.ok).slice(1) : null
}

function resultText(answer: Answer): string {
  if ('failed' in answer) return answer.message
  return typeof answer.ok === 'string' ? answer.ok : JSON.stringify(answer.ok)
}
