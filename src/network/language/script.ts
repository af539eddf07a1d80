import { Script } from 'node:vm'

/** A syntax error in a script; line and column start at 1. */
export interface ScriptError {
  readonly message: string
  readonly line: number
  readonly column: number
}

const SCRIPT_NAME = 'script'

/** Returns the syntax error in a script, or null. The script is compiled but never run. */
export function findScriptError(text: string): ScriptError | null {
  try {
    new Script(text, { filename: SCRIPT_NAME })
    return null
  } catch (error) {
    // V8's parser throws a RangeError if deeply nested brackets exceed its stack.
    if (error instanceof RangeError) return { message: 'nested too deeply', line: 1, column: 1 }
    if (!(error instanceof SyntaxError)) throw error
    // Only the stack has the position: “script:<line>”, then the source line, then carets below the error.
    const [location = '', , carets = ''] = error.stack?.split('\n') ?? []
    const line = Number(location.slice(SCRIPT_NAME.length + 1)) || 1
    return { message: error.message, line, column: carets.indexOf('^') + 1 || 1 }
  }
}

/** A comment of a script, without its delimiters. */
export interface ScriptComment {
  readonly text: string
  readonly at: number
  /** Whether the comment has the form `/* … *\/`. */
  readonly isBlock: boolean
}

/** A function declared at the top level of a script. */
export interface ScriptFunction {
  readonly name: string
  readonly at: number
  readonly isGenerator: boolean
  /** The last comment between the token before the function and the function. */
  readonly comment: ScriptComment | null
}

/** Groups: space, line comment, name, number, string. No group: a sign. */
const TOKEN =
  /([\s\ufeff]+)|(\/\/[^\n\r\u2028\u2029]*)|((?:[\p{ID_Start}$_#]|\\u)(?:[\p{ID_Continue}$_\u200c\u200d]|\\u|(?<=\\u)\{[\da-fA-F]+\})*)|(\.?\d(?:[eE][+-]|[\w.])*)|("(?:[^"\\\n]+|\\[\s\S])*"?|'(?:[^'\\\n]+|\\[\s\S])*'?)|=>|\+\+|--|[\s\S]/uy
// As in strings, the end is optional, so that each character of an incomplete token is read only once.
const TEMPLATE = /(?:[^`\\$]+|\\[\s\S]|\$(?!\{))*(?:`|\$\{)?/y
const REGEX = /\/(?:[^/\\[\n]+|\\.|\[(?:[^\]\\\n]+|\\.)*\]?)+\/?[\w$]*/y

/** Words after which an expression continues, so that a slash starts a regular expression. */
const OPERATORS = new Set(
  'await case delete do else in instanceof new of return throw typeof void yield'.split(' '),
)
/** Words whose parentheses a statement follows. */
const HEADS = new Set(['if', 'while', 'for', 'with'])

interface ScriptToken {
  readonly kind: 'name' | 'value' | 'sign'
  readonly text: string
  readonly at: number
}

/** The comments, the top-level functions and all names of a script. */
export interface ScriptOutline {
  readonly comments: readonly ScriptComment[]
  readonly functions: readonly ScriptFunction[]
  /** How often each name occurs, as the name of anything. */
  readonly names: ReadonlyMap<string, number>
}

/**
 * Returns the outline of a script without syntax errors. Takes linear time, because an untrusted script may be 10 MB
 * long.
 */
export function outlineScript(text: string): ScriptOutline {
  const names = new Map<string, number>()
  const comments: ScriptComment[] = []
  const functions: ScriptFunction[] = []
  let comment: ScriptComment | null = null
  let before: ScriptToken | null = null
  /** The start of a function whose name has not been read yet. */
  let start: Pick<ScriptFunction, 'at' | 'comment'> | null = null
  /** Whether the word `function` has been read after `start`, and the star after it. */
  let isDeclared = false
  let isGenerator = false
  for (const { token, isTopLevel, isNewLine } of scriptTokens(text, comments)) {
    if (token === null) {
      comment = comments.at(-1) ?? null
      continue
    }
    const { kind, text: word, at } = token
    if (kind === 'name') names.set(word, (names.get(word) ?? 0) + 1)
    const isStart = isTopLevel && canFollow(before, isNewLine)
    if (isDeclared && word === '*') isGenerator = true
    else if (isDeclared) {
      if (kind === 'name' && start !== null) functions.push({ name: word, isGenerator, ...start })
      start = null
      isDeclared = false
    } else {
      if (isStart) start = { at, comment }
      isDeclared = word === 'function' && start !== null
      isGenerator = false
      if (word !== 'async' && !isDeclared) start = null
    }
    comment = null
    before = token
  }
  return { comments, functions, names }
}

/** Whether a declaration can follow `token`: `token` ends a statement. */
function canFollow(token: ScriptToken | null, isNewLine: boolean): boolean {
  if (token === null || token.text === ';' || token.text === '}') return true
  if (!isNewLine || OPERATORS.has(token.text)) return false
  return token.kind !== 'sign' || /^(?:\)|\]|\+\+|--)$/.test(token.text)
}

interface ReadToken {
  /** Null for a comment. */
  readonly token: ScriptToken | null
  /** Whether the token is outside of all brackets. */
  readonly isTopLevel: boolean
  /** Whether a line ends before the token. */
  readonly isNewLine: boolean
}

/** Yields the tokens of a script. Adds its comments to `comments`. */
function* scriptTokens(text: string, comments: ScriptComment[]): Generator<ReadToken> {
  /** The open brackets, each with the word before it. */
  const open: { bracket: string; word: string }[] = []
  const lastCommentEnd = text.lastIndexOf('*/')
  let before: ScriptToken | null = null
  let isValueBefore = false
  let isNewLine = false
  for (let at = 0; at < text.length; ) {
    const isTopLevel = open.length === 0
    const character = text.charAt(at)
    const isBlock = character === '/' && text.startsWith('/*', at) && at + 2 <= lastCommentEnd
    TOKEN.lastIndex = at
    const [word = '', space, line, name, number, string] = isBlock ? [] : (TOKEN.exec(text) ?? [])
    const isTemplate = word === '`' || (word === '}' && open.at(-1)?.bracket === '${')
    if (space !== undefined) {
      isNewLine ||= /[\n\r\u2028\u2029]/.test(space)
      at += space.length
    } else if (isBlock || line !== undefined) {
      const end = isBlock ? text.indexOf('*/', at + 2) + 2 : at + word.length
      comments.push({ text: text.slice(at + 2, isBlock ? end - 2 : end), at, isBlock })
      at = end
      yield { token: null, isTopLevel, isNewLine }
    } else {
      let token: ScriptToken
      if (isTemplate) {
        if (word === '}') open.pop()
        const part = matchAt(TEMPLATE, text, at + 1)
        const isOpen = part.endsWith('${')
        if (isOpen) open.push({ bracket: '${', word: '' })
        token = { kind: isOpen ? 'sign' : 'value', text: word + part, at }
        isValueBefore = !isOpen
      } else {
        const regex = word === '/' && !isValueBefore ? matchAt(REGEX, text, at) : ''
        const isValue = number !== undefined || string !== undefined || regex !== ''
        const kind = name !== undefined ? 'name' : isValue ? 'value' : 'sign'
        token = { kind, text: regex === '' ? word : regex, at }
        if (kind === 'sign' && /^[([{]$/.test(word)) {
          open.push({ bracket: word, word: before?.text ?? '' })
        }
        const closed = kind === 'sign' && /^[)\]}]$/.test(word) ? open.pop() : undefined
        isValueBefore = endsValue(token, before, closed?.word ?? '')
      }
      at += token.text.length
      yield { token, isTopLevel, isNewLine }
      before = token
      isNewLine = false
    }
  }
}

/** Returns the match of the sticky `pattern` at `at`; empty if there is none. */
function matchAt(pattern: RegExp, text: string, at: number): string {
  pattern.lastIndex = at
  return pattern.exec(text)?.[0] ?? ''
}

/** Whether `token` ends a value, so that a slash after it is a division. `head` is the word before its parenthesis. */
function endsValue({ kind, text }: ScriptToken, before: ScriptToken | null, head: string): boolean {
  if (kind === 'value') return true
  if (kind === 'name') return before?.text === '.' || !OPERATORS.has(text)
  if (text === ')') return !HEADS.has(head)
  return text === ']' || text === '++' || text === '--'
}
