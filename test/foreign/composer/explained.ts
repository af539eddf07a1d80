// The differences between Composer and daicho that stay. Each key is the first cell of a row in
// docs/reference/gateway/composer.md, which a test checks.
import { canonicalJson } from '../../../src/base/canonical-json.ts'
import { type Answer, classify } from './answers.ts'
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
/** `compare.ts` confirms on the other side that a request with one of these two has the error that only one reported. */
export const SEVERAL_ERRORS = 'a request with several errors'
export const DENIED_CHANGE = 'a denied change of a resource that the caller may not READ'

const bothFail = ({ composerError, daichoError }: Seen) =>
  composerError !== null && daichoError !== null

/** Whether daicho allows less than Composer: it refuses, or leaves out resources, or counts fewer. */
const isStricter = ({ composerError, daichoError, composer, daicho }: Seen) =>
  composerError === null &&
  (daichoError !== null ||
    daicho.length < composer.length ||
    (daicho.length === composer.length && daicho < composer) ||
    daicho === 'false')

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

/** Returns the text of the query in a request or a call, and its parameters. */
function queryParts({ request, code, network }: Seen): readonly [string, Record<string, unknown>] {
  const [, built] = /buildQuery\((".*")\)/.exec(code) ?? []
  if (built !== undefined) return [String(JSON.parse(built)), {}]
  const [, called = '', given = '{}'] = /query\("(\w+)", (\{.*\})\)/.exec(code) ?? []
  const name = request?.kind === 'query' ? request.name : called
  const text = network.queries.find((each) => each.startsWith(`query ${name} `)) ?? ''
  return [text, request?.kind === 'query' ? request.parameters : JSON.parse(given)]
}

interface Comparison {
  readonly name: string
  readonly operator: string
  /** The text with which the property is compared, or null. */
  readonly value: unknown
}

const MIRRORED: Readonly<Record<string, string>> = { '<': '>', '>': '<', '<=': '>=', '>=': '<=' }

/** Returns the comparisons of a query. */
function comparisons(statement: string, given: Record<string, unknown>): Comparison[] {
  const found = statement.matchAll(/\(([^()\s]+|'[^']*') ([<>]=?|[!=]=) ([^()\s]+|'[^']*')\)/g)
  return [...found].map(([, left = '', operator = '', right = '']) => {
    const isForward = /^[a-zA-Z][\w.]*$/.test(left) && !/^(?:true|false)$/.test(left)
    const [name, value] = isForward ? [left, right] : [right, left]
    const compared = value.startsWith('_$')
      ? given[value.slice(2)]
      : (/^['"](.*)['"]$/.exec(value)?.[1] ?? null)
    return {
      name,
      operator: isForward ? operator : (MIRRORED[operator] ?? operator),
      value: compared,
    }
  })
}

/** Whether two comparisons of a query are of the same property, and `test` holds for one of them and the other. */
function isTwice(seen: Seen, test: (one: Comparison, other: Comparison) => boolean): boolean {
  if (seen.composerError !== null || seen.daichoError !== null) return false
  const [statement, given] = queryParts(seen)
  const compared = comparisons(statement, given)
  return compared.some((one) =>
    compared.some((other) => one !== other && one.name === other.name && test(one, other)),
  )
}

/** Returns resources, as JSON, without the content of nested resources, whose ids are `n1`, `n2` and so on. */
function withoutNested(text: string): string {
  const isNested = (value: unknown) =>
    typeof value === 'object' &&
    Object.entries(value ?? {}).some(
      ([key, id]) => /^id\d+$/.test(key) && /^n\d+$/.test(String(id)),
    )
  return canonicalJson(JSON.parse(text, (_, value) => (isNested(value) ? 'nested' : value)))
}

/** Whether a query orders by a property that a resource may lack. */
function ordersByOptional(seen: Seen): boolean {
  const [, order = ''] = / ORDER BY \[?([^\]}]*)/.exec(queryParts(seen)[0]) ?? []
  const names = order.split(',').flatMap((each) => /^\s*(\w+)/.exec(each)?.[1] ?? [])
  return names.some((name) =>
    seen.network.models.some((text) => new RegExp(`\\b${name}\\b.* optional$`, 'm').test(text)),
  )
}

/**
 * What only daicho accepts in a file: the key, the end of the file's path, and a pattern for the text up to the place
 * of Composer's error, a newline sign `¶`, and the text after it.
 */
const ACCEPTED: readonly (readonly [key: string, path: string, pattern: RegExp])[] = [
  [
    '`optional`, `default`, `regex`, `range` in any order; spaces, line breaks and comments anywhere between words',
    '.cto',
    /import [\w.]+\.¶\/|\boptional\s+¶?(?:optional|default|regex|range)\b|\boptional\s+o\b[^\n]*\n\s*o\s+\S*¶|@¶\s|@\w+ ¶\(/,
  ],
  [
    'words of JavaScript as names (`default`, `class`, `import`)',
    '.cto',
    /¶\.?(?:class|default|enum|import|this|null|true|false)\b/,
  ],
  [
    'qualified names, such as `o org.other.Size size`',
    '.cto',
    /(?:\bo|-->|extends) [\p{L}\p{N}_.]+¶\./u,
  ],
  [
    '`default=1`, `default=1e3`, `default=.5` and `range=[0,10]` of a `Double`, `1.0` of an `Integer`',
    '.cto',
    /default=[^\n]*¶[.e]|o Double[^\n]* range=\[[^\n\]]*¶[,\]]/,
  ],
  [
    "a rule's parts in another order or without a description; single quotes; `ANY` without quotes; spaces before a colon",
    '.acl',
    /¶(?:ANY\b|\w+ :)|\{\s+¶participant|description: ¶'/,
  ],
  [
    'a word of JavaScript as the name of a rule or of a variable of `ANY`',
    '.acl',
    /(?:rule |\()¶(?:class|default|enum|import|this|null|true|false)\b/,
  ],
  [
    'a condition in newer JavaScript, such as an arrow function, `f(a, )` or `a ** b`',
    '.acl',
    /condition: \([^\n]*(?:=¶>|=>|, *¶\)|\*¶\*)/,
  ],
  [
    'a `//` comment in a condition, on the line of the `)` after it',
    '.acl',
    /condition: \([^\n]*\/\/[^\n]*\)[^\n]*\n\s*¶/,
  ],
  [
    'a query without description, with a description in single quotes, or with a word of JavaScript as its name',
    '.qry',
    /description: ¶'|\{\s*¶statement|query ¶(?:class|default|enum|import|this|null|true|false)\b/,
  ],
  [
    'a reserved word of JavaScript, such as `this`, as the name of a property',
    '.qry',
    /\(¶(?:class|default|enum)\b/,
  ],
  ['a registry in quotes', '.qry', /FROM ¶"/],
  [
    'an array compared with a literal; `null`; `-1`; nested `CONTAINS`; `ORDER BY` in two directions',
    '.qry',
    /¶-\d/,
  ],
]

/** Returns the changed file with the sign `¶` where Composer found an error; an empty text without a place. */
function markedFile({ request, composerError }: Seen): string {
  const [, line, column] = /line (\d+) column (\d+)/.exec(composerError ?? '') ?? []
  if (request?.kind !== 'check' || line === undefined) return ''
  const lines = request.text.split('\n')
  const [at, from] = [Number(line) - 1, Number(column) - 1]
  const own = lines[at] ?? ''
  lines[at] = `${own.slice(0, from)}¶${own.slice(from)}`
  return lines.join('\n')
}

export const EXPLANATIONS: readonly Explanation[] = [
  ...ACCEPTED.map(
    ([key, path, pattern]): Explanation => [
      key,
      (seen) =>
        seen.request?.kind === 'check' &&
        seen.request.path.endsWith(path) &&
        composerOnlyFails(seen) &&
        pattern.test(markedFile(seen)),
    ],
  ),
  [
    'a required array that is missing',
    (seen) => {
      const [, field] = /missing required field (\w+)/.exec(seen.composerError ?? '') ?? []
      const isArray = seen.network.models.some((text) => text.includes(`[] ${field}`))
      const daichoRuns = seen.daichoError === null || classify(seen.daichoError) === 'no function'
      return daichoRuns && field !== undefined && isArray
    },
  ],
  [
    THROWING_DENY,
    (seen) => {
      const { composerError, daichoError, network } = seen
      // Composer allows it, and then finds another error.
      const isLater =
        composerError !== null &&
        classify(composerError) !== 'denied' &&
        ['denied', 'missing'].includes(classify(daichoError ?? ''))
      return network.features.includes(THROWING_DENY) && (isStricter(seen) || isLater)
    },
  ],
  [
    DENIED_CHANGE,
    ({ composerError, daichoError }) =>
      classify(composerError ?? '') === 'denied' && classify(daichoError ?? '') === 'missing',
  ],
  [
    SEVERAL_ERRORS,
    (seen) =>
      bothFail(seen) &&
      // Composer's client checks a request before it sends the request with an identity.
      classify(seen.composerError ?? '') !== 'identity' &&
      ![seen.composerError, seen.daichoError].some((error) =>
        ['own', 'no function'].includes(classify(error ?? '')),
      ),
  ],
  [
    'an array that contains a resource twice',
    (seen) => {
      const { request, code } = seen
      const [, first, second] = /addAll\(\[made\((.*)\), made\((.*)\)\]\)/.exec(code) ?? []
      if (first !== undefined && first === second) return daichoOnlyFails(seen)
      if (request?.kind !== 'createAll' || !daichoOnlyFails(seen)) return false
      const ids = request.body.map((body) =>
        String(body[seen.network.identifiers[request.type] ?? '']),
      )
      return new Set(ids).size < ids.length
    },
  ],
  [
    'nested resources of the same type and id',
    ({ composerError, daichoError, composer, daicho }) =>
      composerError === null &&
      daichoError === null &&
      /"id\d+":"n\d+"/.test(composer) &&
      withoutNested(composer) === withoutNested(daicho),
  ],
  [
    'an enum with a value that is no text, with `validate: false`',
    (seen) =>
      seen.code.includes('validate: false') &&
      failsAlone('daicho', /has value .* expected type/)(seen),
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
      /: must be (?:an array|a date and time|an? [\p{L}\w.$]+(?: \(|$))/u.test(daichoError ?? ''),
  ],
  [
    'a resource of another type in a registry, or at the path of another type',
    failsAlone('daicho', /\$class must be|Expected a resource of type/),
  ],
  [
    '`LIMIT` and `SKIP`, if the caller may not READ some of the resources',
    (seen) => {
      const { request, composerError, daichoError, composer, daicho } = seen
      const [statement] = queryParts(seen)
      if (!request?.caller || composerError !== null || daichoError !== null) return false
      return composer.length < daicho.length
        ? statement.includes(' LIMIT ')
        : statement.includes(' SKIP ')
    },
  ],
  [
    'several comparisons of one property, of which one is with an empty text',
    (seen) => isTwice(seen, ({ value }) => value === ''),
  ],
  [
    'one operator twice for one property',
    (seen) =>
      / AND /.test(queryParts(seen)[0]) &&
      isTwice(seen, (one, other) => one.operator === other.operator),
  ],
  [
    '`ORDER BY` a property that a resource lacks',
    (seen) => seen.composerError === null && seen.daichoError === null && ordersByOptional(seen),
  ],
  [
    'two `OR` joined by `AND`',
    (seen) =>
      seen.daichoError === null &&
      / OR \([^()]*\)\) AND \(\([^()]*\) OR /.test(queryParts(seen)[0]),
  ],
  [
    'relationships to transactions and events',
    ({ request, network, composerError, daichoError }) => {
      const text = /must be to an asset or participant, but is to (\S+)/.exec(composerError ?? '')
      const target = text?.[1] ?? ''
      const isSystem = /\.(?:Transaction|Event|Ask|Ran)$/.test(target)
      const isOther = isSystem || /transaction|event/.test(network.kinds[target] ?? '')
      return request?.kind === 'check' && daichoError === null && isOther
    },
  ],
  [
    'an operation named twice in a rule',
    failsAlone('composer', /^The verb '\w+' has been specified more than once/),
  ],
  [
    "an import of all types of the file's own namespace",
    (seen) => {
      const text = seen.request?.kind === 'check' ? seen.request.text : ''
      return composerOnlyFails(seen) && /^namespace (\S+)\s[\s\S]*?^import \1\.\*$/m.test(text)
    },
  ],
  [
    'two `CONTAINS` of one property joined by `AND`',
    failsAlone('composer', /^Cannot delete property 'length'/),
  ],
  [
    'an array compared with a literal; `null`; `-1`; nested `CONTAINS`; `ORDER BY` in two directions',
    failsAlone(
      'composer',
      /cannot be compared with (?:null|a literal value)|only supports a single direction|nested within another CONTAINS/,
    ),
  ],
  [
    'a parameter with `CONTAINS` and an unknown property',
    (seen) =>
      failsAlone('daicho', /has no property [\w$]+ \(query/)(seen) &&
      seen.request?.kind === 'check' &&
      /CONTAINS _\$|_\$\w+ CONTAINS/.test([seen.request.text, ...seen.network.queries].join()),
  ],
  [
    '`CONTAINS` between two names of properties',
    (seen) => seen.kind === 'check' && failsAlone('daicho', /CONTAINS needs a value, a/)(seen),
  ],
  [
    'a default that does not fit the property; a default of an array or a concept',
    failsAlone('daicho', /\d (?:the default of |\S+ cannot have a default)/),
  ],
  ['an identifying `String[]`', failsAlone('daicho', /identifies \S+, so it must be a String/)],
  [
    '`$name` as the name of a property',
    failsAlone('daicho', /\$x is not a valid name of a property/),
  ],
  [
    '`oString x` without a space, `\\u0061` in a name, `0x1F` in a decorator',
    failsAlone('daicho', /expected “o”, found “optional”/),
  ],
  [
    '`ns.Type#` without an id',
    failsAlone('daicho', /#” is not a valid (?:resource|participant|transaction)/),
  ],
  [
    '`CONTAINS` with a condition within `OR`',
    failsAlone('composer', /^unknown operator "\w+" - should be one of/),
  ],
  [
    'a reserved word of JavaScript, such as `this`, as the name of a property',
    failsAlone('composer', /Unsupported type: object, value: \{"type":"ThisExpression"\}/),
  ],
  ['`!=` within `OR`', failsAlone('composer', /userValue\.every/)],
  ['an empty `permissions.acl` in an archive', failsAlone('composer', /AclFile expects/)],
  ['`Infinity` in a `Double`', failsAlone('daicho', /is not a finite number/)],
  ['`"text"` for a `String[]`', failsAlone('daicho', /must be an array/)],
  ['newResource of an enum', failsAlone('daicho', /is an enum$/)],
  [
    '`isRelationship()` of a relationship whose resource was read',
    ({ code, composer, daicho, composerError, daichoError }) =>
      (composer.startsWith('to<') && daicho.startsWith(composer.slice(3, composer.indexOf('#')))) ||
      composer.replace('Relationship', 'Resource') === daicho ||
      (code.includes('newRelationship') &&
        daichoError === null &&
        (/\.is(?:Relationship|Resource)\(\)/.test(code) ||
          /expected a Resource or a Concept/.test(composerError ?? ''))),
  ],
  [
    'a plain object, or an object from JSON, as the result of a transaction with `@returns`',
    failsAlone('composer', /but a non-typed value was returned$/),
  ],
  [
    '`toJSON` and `validate` of a resource whose relationships are resolved',
    failsAlone('composer', /has value Resource \{id=.*\} expected a Relationship\.$/s),
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
      const isOwnExists =
        code.includes(`registry("participant", "${network.people?.type}")`) &&
        code.includes(`r.exists("${request?.caller}")`)
      const isOwn =
        seen.daichoError?.includes(own) === true || seen.kind === 'exists' || isOwnExists
      const isGet =
        ['read', 'exists', 'remove'].includes(seen.kind) || /\.(?:get|exists)\(/.test(code)
      return request?.caller !== null && isGet && isOwn && (isOwnExists || isStricter(seen))
    },
  ],
  [
    'the option `deduplicateResources` of `toJSON`',
    ({ code, composer }) => code.includes('deduplicateResources') && composer.includes('$id'),
  ],
  [
    '`newTransaction` of the factory; `getTransactionRegistry`; `resolve`, `resolveAll`, `id`, `type` and `name` of a registry, in a script',
    ({ code, composer, composerError }) => {
      if (/(?:F\.newTransaction|r\.resolve(?:All)?) is not a function/.test(composerError ?? '')) {
        return true
      }
      return code.includes('return [r.id, r.type, r.name]') && composer.includes('undefined')
    },
  ],
  [
    '`process`, `setTimeout`, `Buffer`, `URL` and `Intl` in a script',
    ({ code }) => code.includes('typeof process'),
  ],
  [
    'the identity of the administrator',
    ({ code, daicho }) => code.includes('getCurrentIdentity') && daicho === 'null',
  ],
  [
    'reads after a write in the same transaction',
    ({ request, code }) =>
      request?.kind === 'ask' && request.rereads && /registry\(|query\(/.test(code),
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

export function errorText(answer: Answer, call: number | null): string | null {
  if ('failed' in answer) return answer.message
  const isError = call !== null && typeof answer.ok === 'string' && answer.ok.startsWith('!')
  return isError ? String(answer.ok).slice(1) : null
}

function resultText(answer: Answer): string {
  if ('failed' in answer) return answer.message
  return typeof answer.ok === 'string' ? answer.ok : JSON.stringify(answer.ok)
}
