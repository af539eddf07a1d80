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

const THROWING_DENY = 'a condition that throws, in a DENY rule'

const bothFail = ({ composerError, daichoError }: Seen) =>
  composerError !== null && daichoError !== null

/** Whether daicho allows less than Composer: it refuses, or leaves out resources. */
const isStricter = ({ composerError, daichoError, composer, daicho }: Seen) =>
  composerError === null &&
  (daichoError !== null || daicho.length < composer.length || daicho === 'false')

const composerOnlyFails = ({ composerError, daichoError }: Seen) =>
  composerError !== null && daichoError === null
const daichoOnlyFails = ({ composerError, daichoError }: Seen) =>
  composerError === null && daichoError !== null

/** Whether an error of `side` has this text, and the other side succeeded. */
const failsAlone =
  (side: 'composer' | 'daicho', pattern: RegExp) =>
  (seen: Seen): boolean =>
    side === 'composer'
      ? composerOnlyFails(seen) && pattern.test(seen.composerError ?? '')
      : daichoOnlyFails(seen) && pattern.test(seen.daichoError ?? '')

export const EXPLANATIONS: readonly Explanation[] = [
  [
    'a required array that is missing',
    (seen) => {
      const [, field] = /missing required field (\w+)/.exec(seen.composerError ?? '') ?? []
      const isArray = seen.network.models.some((text) => text.includes(`[] ${field}`))
      return composerOnlyFails(seen) && field !== undefined && isArray
    },
  ],
  [
    'a condition that throws, in a DENY rule',
    (seen) => seen.network.features.includes(THROWING_DENY) && isStricter(seen),
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
    (seen) => {
      const { request } = seen
      if (request?.kind !== 'createAll' || !daichoOnlyFails(seen)) return false
      const ids = request.body.map((body) =>
        String(body[seen.network.identifiers[request.type] ?? '']),
      )
      return new Set(ids).size < ids.length
    },
  ],
  [
    'getAssetRegistry of a participant',
    ({ code, network }) => {
      const [, kind, type = ''] = /registry\("(\w+)", "([^"]+)"\)/.exec(code) ?? []
      return network.kinds[type] !== undefined && network.kinds[type] !== kind
    },
  ],
  [
    'a value of another type in a request, such as `"7"` for an `Integer`',
    ({ request, composerError, daichoError }) =>
      request?.kind !== 'ask' &&
      (composerError === null || composerError.startsWith('Could not find any functions')) &&
      /: must be (?:an array|an? [\w.]+(?: \(|$))/.test(daichoError ?? ''),
  ],
  [
    'a resource of another type in a registry, or at the path of another type',
    failsAlone('daicho', /\$class must be|Expected a resource of type/),
  ],
  [
    'several comparisons of one property, of which one is with an empty text',
    ({ request, code, network, composerError, daichoError }) => {
      const name =
        request?.kind === 'query' ? request.name : (/query\("(\w+)"/.exec(code)?.[1] ?? '')
      const query = network.queries.find((text) => text.startsWith(`query ${name} `)) ?? code
      const isEmpty = /''/.test(query)
      return composerError === null && daichoError === null && isEmpty && / AND | OR /.test(query)
    },
  ],
  ['`!=` within `OR`', failsAlone('composer', /userValue\.every/)],
  ['an empty `permissions.acl` in an archive', failsAlone('composer', /AclFile expects/)],
  ['`Infinity` in a `Double`', failsAlone('daicho', /is not a finite number/)],
  ['`"text"` for a `String[]`', failsAlone('daicho', /must be an array/)],
  ['newResource of an enum', failsAlone('daicho', /is an enum$/)],
  [
    '`isRelationship()` of a relationship whose resource was read',
    ({ composer, daicho }) =>
      composer.startsWith('to<') && daicho.startsWith(composer.slice(3, composer.indexOf('#'))),
  ],
  ['toJSON of a concept', failsAlone('composer', /^Use Serializer\.toJSON/)],
  [
    'resolving a resource that is missing, or that the caller may not READ',
    (seen) => seen.kind === 'resolve' && failsAlone('daicho', /does not exist/)(seen),
  ],
  [
    '`PUT` of a body without its id',
    ({ request, composerError, daichoError, network }) =>
      request?.kind === 'update' &&
      composerError !== null &&
      daichoError === null &&
      (request.body[network.identifiers[request.type] ?? ''] ?? null) === null,
  ],
  [
    'getting the own participant without READ',
    (seen) => {
      const { request, network, code } = seen
      const own = `'${request?.caller}' in collection with ID 'Participant:${network.people?.type}'`
      const isOwn = seen.daichoError?.includes(own) === true || seen.kind === 'exists'
      const isGet = ['read', 'exists'].includes(seen.kind) || /\.(?:get|exists)\(/.test(code)
      return request?.caller !== null && isGet && isOwn && isStricter(seen)
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
