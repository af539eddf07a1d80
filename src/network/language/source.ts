export interface SourceFile {
  readonly path: string
  readonly text: string
}

/** An error or a warning about a position in a network's files. */
export interface SourceFinding {
  readonly severity: 'error' | 'warning'
  readonly path: string
  /** Line number from 1; 0 if the finding is about the whole file, or a missing file. */
  readonly line: number
  /** Column from 1, in UTF-16 units; 0 if `line` is 0. */
  readonly column: number
  readonly message: string
}

/** Maximum number of findings in a report. */
const FINDINGS_MAX = 1_000
/** Maximum characters of a message. Longer messages, which contain a long name, are truncated. */
const MESSAGE_LENGTH_MAX = 1_000

/** Collects the findings of a network, up to FINDINGS_MAX. */
export class Findings {
  readonly #list: SourceFinding[] = []
  readonly #lineBreaks = new Map<SourceFile, readonly number[]>()

  error(file: SourceFile, offset: number, message: string): void {
    if (this.full) return
    this.#add({ severity: 'error', path: file.path, ...this.#positionAt(file, offset), message })
  }

  /** Adds a warning about the file at `path`, which need not exist. */
  warning(path: string, message: string): void {
    if (this.#hasRoomForWarnings)
      this.#add({ severity: 'warning', path, line: 0, column: 0, message })
  }

  warningAt(file: SourceFile, offset: number, message: string): void {
    if (!this.#hasRoomForWarnings) return
    this.#add({ severity: 'warning', path: file.path, ...this.#positionAt(file, offset), message })
  }

  /** Adds an error about the file at `path`, by default about the whole file. */
  fileError(path: string, message: string, position = { line: 0, column: 0 }): void {
    this.#add({ severity: 'error', path, ...position, message })
  }

  /** Warnings take at most half of the list, so that they never displace an error. */
  get #hasRoomForWarnings(): boolean {
    return this.#list.length < FINDINGS_MAX / 2
  }

  /** Whether further findings are dropped. */
  get full(): boolean {
    return this.#list.length >= FINDINGS_MAX
  }

  /** Whether there are no errors. */
  get clean(): boolean {
    return !this.#list.some(({ severity }) => severity === 'error')
  }

  /** Returns all findings, sorted by file and position. */
  sorted(): SourceFinding[] {
    return this.#list.toSorted(
      (a, b) => compare(a.path, b.path) || a.line - b.line || a.column - b.column,
    )
  }

  #add(finding: SourceFinding): void {
    if (this.full) return
    this.#list.push({ ...finding, message: finding.message.slice(0, MESSAGE_LENGTH_MAX) })
  }

  #positionAt(file: SourceFile, offset: number): { line: number; column: number } {
    const breaks =
      this.#lineBreaks.get(file) ?? Array.from(file.text.matchAll(/\n/g), ({ index }) => index)
    this.#lineBreaks.set(file, breaks)
    // Binary search for the number of line breaks before `offset`.
    let [line, end] = [0, breaks.length]
    while (line < end) {
      const middle = (line + end) >>> 1
      if ((breaks[middle] ?? offset) < offset) line = middle + 1
      else end = middle
    }
    return { line: line + 1, column: offset - (breaks[line - 1] ?? -1) }
  }
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b)
}

/** Returns `file:line:column: severity: message`, like a compiler. */
export function formatFinding({ path, line, column, message, severity }: SourceFinding): string {
  const location = line === 0 ? path : `${path}:${line}:${column}`
  return `${location}: ${severity}: ${message}`
}

/** Kinds of tokens. `end` marks the end of the file. */
export type TokenKind = 'name' | 'number' | 'string' | 'symbol' | 'end'

export interface Token {
  readonly kind: TokenKind
  /** The source text, or the value of a string. */
  readonly text: string
  readonly start: number
  readonly end: number
}

/** Thrown after a syntax error was added to the findings, and caught where parsing can resume. */
export class SyntaxFailure extends Error {}

const SPACE = /[\s\ufeff]+|\/\/[^\n]*/y
const NAME = /[\p{L}_$][\p{L}\p{Nd}_$]*/uy
const NUMBER = /[+-]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?/y
const STRING = /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/y
const UNENDED_STRING = /"(?:[^"\\\n]|\\.)*|'(?:[^'\\\n]|\\.)*/y
const SYMBOL = /-->|==|!=|>=|<=|\*\*|[{}()[\],:;.=<>*@#/-]/y
const REGEX = /\/((?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+)\/([a-z]*)/y

/**
 * Tokenizes a file. The three languages of a network (models, access rules, queries) have the same tokens: names,
 * numbers, strings in single or double quotes, and JavaScript comments.
 */
export class Tokens {
  readonly file: SourceFile
  readonly #findings: Findings
  /** Offset of the last end of a comment. No later `/*` starts a comment. */
  readonly #lastCommentEnd: number
  /** For each quote, the offset before which it starts no string: the end of a string without a closing quote. */
  readonly #noStringBefore = new Map<string, number>()
  #current: Token
  #previousEnd = 0

  constructor(file: SourceFile, findings: Findings) {
    this.file = file
    this.#findings = findings
    this.#lastCommentEnd = file.text.lastIndexOf('*/')
    this.#current = this.#read(0)
  }

  get current(): Token {
    return this.#current
  }

  get ended(): boolean {
    return this.#current.kind === 'end'
  }

  /** Offset of the end of the token before the current token. */
  get previousEnd(): number {
    return this.#previousEnd
  }

  /** Whether the current token is the name or symbol `text`. */
  is(text: string): boolean {
    const { kind } = this.#current
    return (kind === 'name' || kind === 'symbol') && this.#current.text === text
  }

  /** Returns the current token and moves to the next token. */
  take(): Token {
    const token = this.#current
    this.#previousEnd = token.end
    if (token.kind !== 'end') this.#current = this.#read(token.end)
    return token
  }

  /** Moves to the next token if the current token is `text`. */
  accept(text: string): boolean {
    if (!this.is(text)) return false
    this.take()
    return true
  }

  /**
   * Moves behind `word` if the current token is a name that starts with `word`. Composer's grammar of rules needs no
   * space after its words, so `ruleAll` is the rule `All`.
   */
  acceptStart(word: string): boolean {
    const { kind, text, start } = this.#current
    if (kind !== 'name' || !text.startsWith(word)) return false
    this.skipTo(start + word.length)
    return true
  }

  /** Returns the current token, which must be `text`, and moves to the next token. Errors: SyntaxFailure. */
  expect(text: string): Token {
    if (!this.is(text)) throw this.unexpected(`“${text}”`)
    return this.take()
  }

  /** Like `expect`, for any token of `kind`. The error message says that `expected` was expected. */
  expectKind(kind: TokenKind, expected: string): Token {
    if (this.#current.kind !== kind) throw this.unexpected(expected)
    return this.take()
  }

  /** Reads names separated by dots. `at` is the offset of the first name. */
  qualifiedName(expected: string): { name: string; at: number } {
    const first = this.expectKind('name', expected)
    let name = first.text
    while (this.is('.')) {
      this.take()
      name += `.${this.expectKind('name', expected).text}`
    }
    return { name, at: first.start }
  }

  /** Reads a regular expression. The current token must be its first slash. */
  regex(): { source: string; flags: string; at: number } {
    const { start } = this.#current
    REGEX.lastIndex = start
    const match = REGEX.exec(this.file.text)
    if (match === null) throw this.unexpected('a regular expression between slashes')
    this.skipTo(REGEX.lastIndex)
    return { source: match[1] ?? '', flags: match[2] ?? '', at: start }
  }

  /** Continues to read tokens at `offset`. */
  skipTo(offset: number): void {
    this.#previousEnd = offset
    this.#current = this.#read(offset)
  }

  /** Reports that `expected` was expected instead of the current token, and returns the error to throw. */
  unexpected(expected: string): SyntaxFailure {
    const { kind, text, start } = this.#current
    const found = kind === 'end' ? 'the end of the file' : `“${text.slice(0, 40)}”`
    return this.failure(start, `expected ${expected}, found ${found}`)
  }

  /** Reports `message` at `offset`, and returns the error to throw. */
  failure(offset: number, message: string): SyntaxFailure {
    this.#findings.error(this.file, offset, message)
    return new SyntaxFailure(message)
  }

  /** Returns the offset of the first character at or after `from` that is neither space nor in a comment. */
  skipSpace(from: number): number {
    const { text } = this.file
    for (let at = from; ; ) {
      SPACE.lastIndex = at
      if (SPACE.test(text)) at = SPACE.lastIndex
      else if (text.startsWith('/*', at) && at + 2 <= this.#lastCommentEnd) {
        at = text.indexOf('*/', at + 2) + 2
      } else return at
    }
  }

  /** Remembers a quote that starts no string, so that the text after it is not searched again for each further quote. */
  #noteNoString(start: number): void {
    UNENDED_STRING.lastIndex = start
    const { text } = this.file
    if (UNENDED_STRING.test(text)) {
      this.#noStringBefore.set(text.charAt(start), UNENDED_STRING.lastIndex)
    }
  }

  #read(from: number): Token {
    const { text } = this.file
    const start = this.skipSpace(from)
    if (start >= text.length || this.#findings.full)
      return { kind: 'end', text: '', start, end: start }
    for (const [kind, pattern] of PATTERNS) {
      if (kind === 'string' && start < (this.#noStringBefore.get(text.charAt(start)) ?? 0)) continue
      pattern.lastIndex = start
      const match = pattern.exec(text)
      if (match === null) {
        if (kind === 'string') this.#noteNoString(start)
        continue
      }
      const [source] = match
      const value = kind === 'string' ? unquote(source) : source
      return { kind, text: value, start, end: pattern.lastIndex }
    }
    // Any other character becomes a symbol, which the parsers report as unexpected.
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

function unquote(source: string): string {
  return source
    .slice(1, -1)
    .replace(/\\(?:u([0-9a-fA-F]{4})|(.))/g, (_, hex: string | undefined, char: string) =>
      hex === undefined ? (ESCAPES[char] ?? char) : String.fromCharCode(Number.parseInt(hex, 16)),
    )
}
