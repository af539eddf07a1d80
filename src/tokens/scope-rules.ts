import { isJsonObject, type Json, type JsonObject } from '../base/json.ts'
import { parseForeignJson } from '../base/strict-json.ts'
import { TokenError } from './errors.ts'
import { scopeClaim } from './scopes.ts'

/** Grants scopes to the tokens whose claim has a value. */
export interface ScopeRule {
  /** Null for all issuers. */
  readonly issuer: string | null
  readonly claim: string
  readonly value: string
  readonly scope: string
}

const RULES_MAX = 1_000
/** Claims whose text is a list of words. Source: RFC 8693 section 4.2; Entra ID. */
const SCOPE_CLAIMS = ['scope', 'scp']
const MEMBERS = ['issuer', 'claim', 'value', 'scopes']

/**
 * Parses a list such as `[{"claim":"groups","value":"auditors","scopes":["ledger:read"]}]`. Errors:
 * SCOPE_RULES_INVALID, with the number of the rule.
 */
export function parseScopeRules(text: string): readonly ScopeRule[] {
  let rules: Json
  try {
    rules = parseForeignJson(text)
  } catch (error) {
    throw new TokenError('SCOPE_RULES_INVALID', 'is not JSON', { cause: error })
  }
  if (!Array.isArray(rules) || rules.length > RULES_MAX)
    throw new TokenError('SCOPE_RULES_INVALID', `is not a list of at most ${RULES_MAX} rules`)
  return rules.map((rule, index) => {
    try {
      return parseRule(rule)
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      const message = `rule ${index + 1}: ${reason}`
      throw new TokenError('SCOPE_RULES_INVALID', message, { cause: error })
    }
  })
}

function parseRule(rule: Json): ScopeRule {
  if (!isJsonObject(rule)) throw new Error('it is not an object')
  const unknown = Object.keys(rule).find((name) => !MEMBERS.includes(name))
  if (unknown !== undefined)
    throw new Error(
      `unknown member ${JSON.stringify(unknown.slice(0, 64))}; use ${MEMBERS.join(', ')}`,
    )
  const { issuer = null, claim, value, scopes } = rule
  if (typeof claim !== 'string' || typeof value !== 'string')
    throw new Error('claim and value must be texts')
  if (issuer !== null && typeof issuer !== 'string') throw new Error('issuer must be a text')
  const isTexts = Array.isArray(scopes) && scopes.every((scope) => typeof scope === 'string')
  if (!isTexts) throw new Error('scopes must be a list of texts')
  return { issuer, claim, value, scope: scopeClaim(scopes.map(String)) }
}

/** Returns the `scope` claim for a token of `issuer`: the values of `claim` and the scopes of the rules that match. */
export function grantedScope(
  claims: JsonObject,
  { issuer, claim, rules }: { issuer: string; claim: string; rules: readonly ScopeRule[] },
): string {
  const matching = rules.filter(
    (rule) =>
      (rule.issuer === null || rule.issuer === issuer) &&
      claimValues(claims, rule.claim).includes(rule.value),
  )
  const given = findClaim(claims, claim)
  const scopes = typeof given === 'string' ? given.split(' ') : claimValues(claims, claim)
  // An element with a space is one name, not several scopes.
  const own = scopes.filter((scope) => !scope.includes(' '))
  return [...own, ...matching.map(({ scope }) => scope)].join(' ')
}

/** Returns the claim `name`; unless there is one, the member at the path `name`, such as `realm_access.roles`. */
export function findClaim(claims: JsonObject, name: string): Json | undefined {
  if (Object.hasOwn(claims, name)) return claims[name]
  return name.split('.').reduce<Json | undefined>((value, member) => {
    return isJsonObject(value) && Object.hasOwn(value, member) ? value[member] : undefined
  }, claims)
}

/**
 * Returns the values of a claim: itself, or the elements of a list. Only scopes are words: a group may have a space in
 * its name.
 */
function claimValues(claims: JsonObject, name: string): readonly string[] {
  const claim = findClaim(claims, name)
  if (typeof claim === 'string') return SCOPE_CLAIMS.includes(name) ? claim.split(' ') : [claim]
  return Array.isArray(claim) ? claim.filter((text) => typeof text === 'string') : []
}
