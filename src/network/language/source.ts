import { Script } from 'node:vm'

/** A file of a network. */
export interface SourceFile {
  readonly path: string
  readonly text: string
}

/** An error or a warning about one position in a network's files. */
export interface Finding {
  readonly severity: 'error' | 'warning'
  readonly path: string
  /** From 1; 0 for the whole file, or its absence. */
  readonly line: number
  /** From 1, in UTF-16 units; 0 if `line` is. */
  readonly column: number
  readonly message: string
}

/** Findings that one report holds at most. */
const FINDINGS_MAX = 1_000
/** Characters of one message: names that it holds may be of any length. */
const MESSAGE_LENGTH_MAX = 1_000

/** Collects all findings of a network. */
export class Findings {
  readonly #list: Finding[] = []

  /** Adds an error at `offset` of `file`. */
  error(file: SourceFile, offset: number, message: string): void {
    this.#add({ severity: 'error', path: file.path, ...placeOf(file.text, offset), message })
  }

  /** Adds a warning about the file at `path`, or its absence. */
  warning(path: string, message: string): void {
    this.#add({ severity: 'warning', path, line: 0, column: 0, message })
  }

  /** Adds an error about the whole file at `path`, or at a known position. */
  errorIn(path: string, message: string, place = { line: 0, column: 0 }): void {
    this.#add({ severity: 'error', path, ...place, message })
  }

  /** Whether there are no errors. */
  get clean(): boolean {
    return !this.#list.some(({ severity }) => severity === 'error')
  }

  /** All findings, by file and position. */
  sorted(): Finding[] {
    return this.#list.toSorted(
      (a, b) => compare(a.path, b.path) || a.line - b.line || a.column - b.column,
    )
  }

  #add(finding: Finding): void {
    if (this.#list.length >= FINDINGS_MAX) return
    this.#list.push({ ...finding, message: finding.message.slice(0, MESSAGE_LENGTH_MAX) })
  }
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b)
}

function placeOf(text: string, offset: number): { line: number; column: number } {
  const before = text.slice(0, offset)
  const lineStart = before.lastIndexOf('\n') + 1
  return { line: before.split('\n').length, column: offset - lineStart + 1 }
}

/** `file:line:column: message`, as compilers print it. */
export function findingText({ path, line, column, message, severity }: Finding): string {
  const place = line === 0 ? path : `${path}:${line}:${column}`
  return `${place}: ${severity}: ${message}`
}

/** Kinds of tokens; `end` is the last token. */
export type TokenKind = 'name' | 'number' | 'string' | 'symbol' | 'end'

export interface Token {
  readonly kind: TokenKind
  /** The source text; of a string, its value. */
  readonly text: string
  readonly start: number
  readonly end: number
}

/** A syntax error that is reported already; caught where parsing can resume. */
export class SyntaxFailure extends Error {}

const SPACE = /(?:[\s\ufeff]+|\/\/[^\n]*|\/\*[\s\S]*?\*\/)+/y
const NAME = /[\p{L}_$][\p{L}\p{Nd}_$]*/uy
const NUMBER = /[+-]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?/y
const STRING = /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/y
const SYMBOL = /-->|==|!=|>=|<=|\*\*|[{}()[\],:;.=<>*@#/-]/y
const REGEX = /\/((?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+)\/([a-z]*)/y

/**
 * The tokens of one file, read one after the other. The three languages of a network (models, access
 * rules, queries) have the same tokens: names, numbers, strings in either quotes, comments as in
 * JavaScript.
 */
export class Tokens {
  readonly file: SourceFile
  readonly #findings: Findings
  #current: Token
  #previousEnd = 0

  constructor(file: SourceFile, findings: Findings) {
    this.file = file
    this.#findings = findings
    this.#current = this.#read(0)
  }

  /** The current token. */
  get current(): Token {
    return this.#current
  }

  /** Whether there are no more. */
  get ended(): boolean {
    return this.#current.kind === 'end'
  }

  /** End of the token before the current one. */
  get previousEnd(): number {
    return this.#previousEnd
  }

  /** Whether the current token is the name or symbol `text`. */
  is(text: string): boolean {
    const { kind } = this.#current
    return (kind === 'name' || kind === 'symbol') && this.#current.text === text
  }

  /** Takes the current token. */
  take(): Token {
    const token = this.#current
    this.#previousEnd = token.end
    if (token.kind !== 'end') this.#current = this.#read(token.end)
    return token
  }

  /** Takes the current token if it is `text`. */
  accept(text: string): boolean {
    if (!this.is(text)) return false
    this.take()
    return true
  }

  /** Takes `text`. Errors: SyntaxFailure. */
  expect(text: string): Token {
    if (!this.is(text)) throw this.unexpected(`“${text}”`)
    return this.take()
  }

  /** Takes a token of a kind. Errors: SyntaxFailure, which says that `what` is expected. */
  expectKind(kind: TokenKind, what: string): Token {
    if (this.#current.kind !== kind) throw this.unexpected(what)
    return this.take()
  }

  /** A name with dots, with the place where it starts. */
  qualifiedName(what: string): { name: string; at: number } {
    const first = this.expectKind('name', what)
    let name = first.text
    while (this.is('.')) {
      this.take()
      name += `.${this.expectKind('name', what).text}`
    }
    return { name, at: first.start }
  }

  /** A regular expression; the current token is its first slash. */
  regex(): { source: string; flags: string; at: number } {
    const { start } = this.#current
    REGEX.lastIndex = start
    const match = REGEX.exec(this.file.text)
    if (match === null) throw this.unexpected('a regular expression between slashes')
    this.skipTo(REGEX.lastIndex)
    return { source: match[1] ?? '', flags: match[2] ?? '', at: start }
  }

  /** Goes on at `offset`. */
  skipTo(offset: number): void {
    this.#previousEnd = offset
    this.#current = this.#read(offset)
  }

  /** Reports that `what` was expected instead of the current token. */
  unexpected(what: string): SyntaxFailure {
    const { kind, text, start } = this.#current
    const found = kind === 'end' ? 'the end of the file' : `“${text.slice(0, 40)}”`
    return this.failure(start, `expected ${what}, found ${found}`)
  }

  /** Reports `message` at `offset`. */
  failure(offset: number, message: string): SyntaxFailure {
    this.#findings.error(this.file, offset, message)
    return new SyntaxFailure(message)
  }

  #read(from: number): Token {
    const { text } = this.file
    SPACE.lastIndex = from
    const start = SPACE.test(text) ? SPACE.lastIndex : from
    if (start >= text.length) return { kind: 'end', text: '', start, end: start }
    for (const [kind, pattern] of PATTERNS) {
      pattern.lastIndex = start
      const match = pattern.exec(text)
      if (match === null) continue
      const [written] = match
      const shown = kind === 'string' ? unquoted(written) : written
      return { kind, text: shown, start, end: pattern.lastIndex }
    }
    // A character of no language: a symbol that nobody expects.
    const end = start + ((text.codePointAt(start) ?? 0) > 0xffff ? 2 : 1)
    return { kind: 'symbol', text: text.slice(start, end), start, end }
  }
}

const PATTERNS: readonly [TokenKind, RegExp][] = [
  ['name', NAME],
  ['number', NUMBER],
  ['string', STRING],
  ['symbol', SYMBOL],
]

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', b: '\b', f: '\f' }

function unquoted(written: string): string {
  return written
    .slice(1, -1)
    .replace(/\\(?:u([0-9a-fA-F]{4})|(.))/g, (_, hex: string | undefined, one: string) =>
      hex === undefined ? (ESCAPES[one] ?? one) : String.fromCharCode(Number.parseInt(hex, 16)),
    )
}

/** Where and why a text is not JavaScript; line and column from 1, in that text. */
export interface ScriptError {
  readonly message: string
  readonly line: number
  readonly column: number
}

const SCRIPT_NAME = 'script'

/** Why `text` is not JavaScript, or null when it is. It is compiled and never run. */
export function scriptErrorOf(text: string): ScriptError | null {
  try {
    new Script(text, { filename: SCRIPT_NAME })
    return null
  } catch (error) {
    // Brackets in brackets take all of the stack.
    if (error instanceof RangeError) return { message: 'it nests too deeply', line: 1, column: 1 }
    if (!(error instanceof SyntaxError)) throw error
    // V8 tells the place only here: “script:<line>”, the line itself, and carets under the fault.
    const [place = '', , carets = ''] = error.stack?.split('\n') ?? []
    const line = Number(place.slice(SCRIPT_NAME.length + 1)) || 1
    return { message: error.message, line, column: carets.indexOf('^') + 1 || 1 }
  }
}
