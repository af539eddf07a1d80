import { findScriptError } from './script.ts'
import { type Findings, type SourceFile, SyntaxFailure, Tokens } from './source.ts'

// The syntax tree of `permissions.acl`. `at` is an offset in the file.

const OPERATIONS = ['CREATE', 'READ', 'UPDATE', 'DELETE'] as const
export type AccessOperation = (typeof OPERATIONS)[number]

/**
 * The participants or resources to which a rule applies: all (`**`, or `ANY` for participants), all types in a
 * namespace (`ns.*`), all types in a namespace and its nested namespaces (`ns.**`), a type and its subtypes
 * (`ns.Type`), or a single resource (`ns.Type#id`).
 */
export type RulePattern =
  | { readonly kind: 'any' }
  | { readonly kind: 'namespace'; readonly namespace: string; readonly deep: boolean }
  | { readonly kind: 'type'; readonly type: string; readonly id: string | null }

/** A pattern, with the name of the variable that contains the matched resource in conditions. */
export interface BoundPattern {
  readonly pattern: RulePattern
  readonly variable: string | null
  readonly at: number
}

export interface RuleNode {
  readonly name: string
  readonly at: number
  readonly description: string
  readonly participant: BoundPattern
  readonly operations: readonly AccessOperation[]
  readonly resource: BoundPattern
  /** If set, the rule applies only while a matching transaction is processed. */
  readonly transaction: BoundPattern | null
  /** The condition as the source of a JavaScript function; see `conditionSource`. */
  readonly condition: string | null
  readonly allows: boolean
}

const ACTION = /action\s*:/y

/** Parses the access rules of a network, at least one, in order, and adds problems to `findings`. */
export function parseRules(file: SourceFile, findings: Findings): RuleNode[] {
  const tokens = new Tokens(file, findings)
  const rules: RuleNode[] = []
  do {
    try {
      const rule = readRule(tokens)
      if (rules.some(({ name }) => name === rule.name)) {
        tokens.failure(rule.at, `duplicate rule ${rule.name}`)
      }
      rules.push(rule)
    } catch (error) {
      if (!(error instanceof SyntaxFailure)) throw error
      do tokens.take()
      while (!tokens.is('rule') && !tokens.ended)
    }
  } while (!tokens.ended)
  return rules
}

interface Parts {
  description?: string
  participant?: BoundPattern
  operations?: AccessOperation[]
  resource?: BoundPattern
  transaction?: BoundPattern
  condition?: { text: string; at: number }
  allows?: boolean
}

function readRule(tokens: Tokens): RuleNode {
  if (!tokens.acceptStart('rule')) throw tokens.unexpected('“rule”')
  const { text: name, start: at } = tokens.expectKind('name', 'the name of the rule')
  tokens.expect('{')
  const parts: Parts = {}
  while (!tokens.accept('}')) readPart(tokens, parts)
  const { description = '', participant, operations, resource, allows } = parts
  if (participant === undefined) throw tokens.failure(at, `rule ${name} has no participant`)
  if (operations === undefined) throw tokens.failure(at, `rule ${name} has no operation`)
  if (resource === undefined) throw tokens.failure(at, `rule ${name} has no resource`)
  if (allows === undefined) throw tokens.failure(at, `rule ${name} has no action`)
  const { transaction = null } = parts
  const bound = { participant, resource, transaction }
  const condition =
    parts.condition === undefined ? null : checkedCondition(parts.condition, bound, tokens)
  return { name, at, description, ...bound, operations, condition, allows }
}

/**
 * Returns the source of the function that evaluates a condition, which is checked here and compiled by the sandbox. Its
 * parameters are the participant, the resource and the transaction. The condition has its own lines, because it can
 * end with a line comment.
 */
function conditionSource(text: string, bounds: readonly (BoundPattern | null)[]): string {
  const parameters = bounds.map((bound, at) => bound?.variable ?? `__unnamed${at}`)
  return `(function (${parameters.join(', ')}) { return (\n${text}\n) })`
}

/** Reports a condition that is not a JavaScript expression, and returns its source. */
function checkedCondition(
  { text, at }: { text: string; at: number },
  {
    participant,
    resource,
    transaction,
  }: Pick<RuleNode, 'participant' | 'resource' | 'transaction'>,
  tokens: Tokens,
): string {
  const source = conditionSource(text, [participant, resource, transaction])
  const wrong = findScriptError(source) ?? findScriptError(`[\n${text}\n]`)
  if (wrong !== null) {
    // The first line of the condition is the second line of the source. An error in the first line concerns a variable.
    const lines = text.split('\n').slice(0, Math.max(0, wrong.line - 2))
    const line = lines.reduce((sum, each) => sum + each.length + 1, 0)
    const column = wrong.line === 1 ? 0 : wrong.column - 1
    const offset = at + Math.min(line + column, text.length)
    tokens.failure(offset, `the condition is not a JavaScript expression: ${wrong.message}`)
  }
  return source
}

function readPart(tokens: Tokens, parts: Parts): void {
  const { text: part, start } = tokens.expectKind('name', 'a part of the rule, or “}”')
  const isKnown = ['description', 'operation', 'condition', 'action', ...BOUND].includes(part)
  if (!isKnown) throw tokens.failure(start, `unknown part ${part} of a rule`)
  const key = { operation: 'operations', action: 'allows' }[part] ?? part
  if (key in parts) throw tokens.failure(start, `duplicate part ${part} of the rule`)
  if (part === 'participant' || part === 'resource' || part === 'transaction') {
    parts[part] = readBound(tokens, part)
    return
  }
  tokens.expect(':')
  if (part === 'description') parts.description = tokens.expectKind('string', 'a text').text
  else if (part === 'operation') parts.operations = readOperations(tokens)
  else if (part === 'condition') parts.condition = readCondition(tokens)
  else parts.allows = readAction(tokens)
}

const BOUND: readonly string[] = ['participant', 'resource', 'transaction']

function readBound(tokens: Tokens, part: string): BoundPattern {
  let variable: string | null = null
  if (tokens.accept('(')) {
    variable = tokens.expectKind('name', 'the name of a variable').text
    tokens.expect(')')
  }
  tokens.expect(':')
  const { start: at, kind } = tokens.current
  // As in Composer, ANY binds no variable.
  if (tokens.accept('ANY')) return { pattern: { kind: 'any' }, variable: null, at }
  if (kind !== 'string') throw tokens.unexpected(`the ${part} in quotes`)
  const { text } = tokens.take()
  const pattern = parsePattern(text, part)
  if (pattern === null) throw tokens.failure(at, `“${text}” is not a valid ${part}`)
  return { pattern, variable: text === 'ANY' ? null : variable, at }
}

const NAMESPACE = /^([\p{L}_][\p{L}\p{Nd}_]*(?:\.[\p{L}_][\p{L}\p{Nd}_]*)*)\.(\*\*?)$/u
const TYPE =
  /^([\p{L}_][\p{L}\p{Nd}_]*(?:\.[\p{L}_][\p{L}\p{Nd}_]*)*)(?:#(?:"([^"]+)"|'([^']+)'|([^"'].*)))?$/u

/** Returns the pattern of a part of a rule, or null. As in Composer, a transaction has no id: it is new in each request. */
function parsePattern(text: string, part: string): RulePattern | null {
  if (text === '**' || (text === 'ANY' && part === 'participant')) return { kind: 'any' }
  const [, namespace, stars] = NAMESPACE.exec(text) ?? []
  if (namespace !== undefined) return { kind: 'namespace', namespace, deep: stars === '**' }
  const [, type, double, single, bare] = TYPE.exec(text) ?? []
  const id = double ?? single ?? bare ?? null
  if (!type?.includes('.') || (id !== null && part === 'transaction')) return null
  return { kind: 'type', type, id }
}

function readOperations(tokens: Tokens): AccessOperation[] {
  if (tokens.acceptStart('ALL')) return [...OPERATIONS]
  const operations: AccessOperation[] = []
  do {
    const operation = OPERATIONS.find((known) => tokens.acceptStart(known))
    if (operation === undefined) throw tokens.unexpected('CREATE, READ, UPDATE, DELETE or ALL')
    operations.push(operation)
  } while (tokens.accept(','))
  return operations
}

function readAction(tokens: Tokens): boolean {
  if (tokens.accept('ALLOW')) return true
  if (tokens.accept('DENY')) return false
  throw tokens.unexpected('ALLOW or DENY')
}

/** Returns the offset of the end of a condition, a closing parenthesis before `action:`, or null if there is none. */
function conditionEnd(tokens: Tokens, start: number): number | null {
  const { text } = tokens.file
  for (let end = text.indexOf(')', start); end !== -1; ) {
    const next = tokens.skipSpace(end + 1)
    ACTION.lastIndex = next
    if (ACTION.test(text)) return end
    end = text.indexOf(')', next)
  }
  return null
}

function readCondition(tokens: Tokens): { text: string; at: number } {
  if (!tokens.is('(')) throw tokens.unexpected('a condition in parentheses')
  const { start } = tokens.current
  const end = conditionEnd(tokens, start)
  if (end === null)
    throw tokens.failure(start, 'the condition does not end with “)” before an action')
  const written = tokens.file.text.slice(start, end + 1)
  // Skips the condition, so that errors in the rest of the rule are reported too.
  tokens.skipTo(end + 1)
  return { text: written.slice(1, -1), at: start + 1 }
}
