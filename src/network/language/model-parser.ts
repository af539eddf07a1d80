import { type Findings, type SourceFile, SyntaxFailure, Tokens } from './source.ts'

// The syntax tree of a model file. `at` is an offset in the file.

export type DeclarationKind = 'asset' | 'participant' | 'transaction' | 'event' | 'concept' | 'enum'

export const PRIMITIVES = ['Boolean', 'DateTime', 'Double', 'Integer', 'Long', 'String'] as const
export type Primitive = (typeof PRIMITIVES)[number]

/** `@name(a, "b", 3)` before a declaration or a property. */
export interface Decorator {
  readonly name: string
  readonly at: number
  /** A name is stored as a string: `@returns(Quote)` has the argument `'Quote'`. */
  readonly arguments: readonly (string | number | boolean)[]
}

/** The options after the name of a property. */
export interface PropertyMeta {
  readonly optional: boolean
  readonly default: { readonly value: string | number | boolean; readonly at: number } | null
  readonly regex: { readonly source: string; readonly flags: string; readonly at: number } | null
  readonly range: {
    readonly lower: number | null
    readonly upper: number | null
    readonly at: number
  } | null
}

/** A field (`o`) or a relationship (`-->`). */
export interface PropertyNode extends PropertyMeta {
  readonly name: string
  readonly at: number
  readonly relationship: boolean
  /** The type as written: a built-in type, a type of this namespace, an imported type, or a qualified name. */
  readonly type: string
  readonly typeAt: number
  readonly array: boolean
  readonly decorators: readonly Decorator[]
}

export interface DeclarationNode {
  readonly kind: DeclarationKind
  readonly name: string
  readonly at: number
  readonly abstract: boolean
  readonly superType: { readonly name: string; readonly at: number } | null
  readonly identifiedBy: { readonly name: string; readonly at: number } | null
  readonly properties: readonly PropertyNode[]
  /** The values of an enum; empty for other kinds. */
  readonly values: readonly { readonly name: string; readonly at: number }[]
  readonly decorators: readonly Decorator[]
}

/** `import a.b.C`, or `import a.b.*`, for which `type` is null. */
export interface ImportNode {
  readonly namespace: string
  readonly type: string | null
  readonly at: number
}

export interface ModelFile {
  readonly file: SourceFile
  readonly namespace: string
  readonly namespaceAt: number
  readonly imports: readonly ImportNode[]
  readonly declarations: readonly DeclarationNode[]
}

const KINDS: readonly DeclarationKind[] = [
  'asset',
  'participant',
  'transaction',
  'event',
  'concept',
  'enum',
]
/** Tokens that can start a declaration. After an error, parsing resumes at the next such token. */
const STARTS = new Set<string>([...KINDS, 'abstract', '@'])

/**
 * Parses one model file; returns null if the file has no namespace. Adds all errors to `findings`: after each error,
 * parsing resumes at the next declaration or member.
 * Source: the modelling language of Hyperledger Composer 0.20; docs/decisions/0027-networks-in-the-ledger.md.
 */
export function parseModelFile(file: SourceFile, findings: Findings): ModelFile | null {
  const parser = new ModelParser(new Tokens(file, findings))
  try {
    return parser.file()
  } catch (error) {
    if (error instanceof SyntaxFailure) return null
    throw error
  }
}

class ModelParser {
  readonly #tokens: Tokens

  constructor(tokens: Tokens) {
    this.#tokens = tokens
  }

  file(): ModelFile {
    const tokens = this.#tokens
    tokens.expect('namespace')
    const { name: namespace, at: namespaceAt } = tokens.qualifiedName('the name of the namespace')
    const imports: ImportNode[] = []
    const declarations: DeclarationNode[] = []
    while (!tokens.ended) {
      this.#recovering(
        () => {
          if (tokens.is('import')) imports.push(this.#import())
          else declarations.push(this.#declaration())
        },
        () => this.#skipToDeclaration(),
      )
    }
    return { file: tokens.file, namespace, namespaceAt, imports, declarations }
  }

  /** Runs `read`. After an error, `skip` moves to a token where parsing can resume. */
  #recovering(read: () => void, skip: () => void): void {
    const { start } = this.#tokens.current
    try {
      read()
    } catch (error) {
      if (!(error instanceof SyntaxFailure)) throw error
      if (this.#tokens.current.start === start) this.#tokens.take()
      skip()
    }
  }

  #skipToDeclaration(): void {
    const tokens = this.#tokens
    while (!tokens.ended && !STARTS.has(tokens.current.text)) tokens.take()
  }

  #import(): ImportNode {
    const tokens = this.#tokens
    const at = tokens.take().start
    let namespace = tokens.expectKind('name', 'a namespace to import from').text
    for (;;) {
      tokens.expect('.')
      if (tokens.accept('*')) return this.#from({ namespace, type: null, at })
      const { text } = tokens.expectKind('name', 'a type to import, or “*”')
      if (!tokens.is('.')) return this.#from({ namespace, type: text, at })
      namespace += `.${text}`
    }
  }

  /** Skips `from <address>`. Composer can fetch a model from an address; daicho needs it as a file of the network. */
  #from(node: ImportNode): ImportNode {
    const tokens = this.#tokens
    if (!tokens.is('from')) return node
    const line = tokens.file.text.indexOf('\n', tokens.current.start)
    tokens.skipTo(line === -1 ? tokens.file.text.length : line)
    return node
  }

  #declaration(): DeclarationNode {
    const tokens = this.#tokens
    const decorators = this.#decorators()
    const abstract = tokens.accept('abstract')
    const kind = KINDS.find((known) => tokens.is(known))
    if (kind === undefined || (kind === 'enum' && abstract)) {
      throw tokens.unexpected(
        'a declaration (asset, participant, transaction, event, concept, enum)',
      )
    }
    tokens.take()
    const { text: name, start: at } = tokens.expectKind('name', `the name of the ${kind}`)
    if (kind === 'enum') {
      const values = this.#values()
      const none = { superType: null, identifiedBy: null, properties: [] }
      return { kind, name, at, abstract, ...none, values, decorators }
    }
    const identifiedBy = this.#identifiedBy()
    const superType = tokens.accept('extends') ? tokens.qualifiedName('a type to extend') : null
    const properties = this.#properties()
    return { kind, name, at, abstract, superType, identifiedBy, properties, values: [], decorators }
  }

  #identifiedBy(): { name: string; at: number } | null {
    const tokens = this.#tokens
    if (!tokens.accept('identified')) return null
    tokens.expect('by')
    const { text: name, start: at } = tokens.expectKind('name', 'the identifying field')
    return { name, at }
  }

  #values(): { name: string; at: number }[] {
    const values: { name: string; at: number }[] = []
    this.#members(() => {
      this.#decorators()
      this.#tokens.expect('o')
      const { text: name, start: at } = this.#tokens.expectKind('name', 'a value of the enum')
      // Composer accepts “optional” here, although it has no meaning.
      this.#tokens.accept('optional')
      values.push({ name, at })
    })
    return values
  }

  #properties(): PropertyNode[] {
    const properties: PropertyNode[] = []
    this.#members(() => properties.push(this.#property()))
    return properties
  }

  /** Parses the members between braces. Reports the errors of all members, not only the first error. */
  #members(read: () => void): void {
    const tokens = this.#tokens
    tokens.expect('{')
    while (!tokens.is('}')) {
      const ended = tokens.ended
      if (ended || (STARTS.has(tokens.current.text) && !tokens.is('@'))) {
        // Reports the error without throwing, so that the declaration is kept. Otherwise, each use of its name would be
        // reported too.
        tokens.unexpected('“}”')
        return
      }
      this.#recovering(read, () => this.#skipToMember())
    }
    tokens.take()
  }

  #skipToMember(): void {
    const tokens = this.#tokens
    const ends = (text: string) => tokens.is(text)
    while (!['o', '-->', '}', ...STARTS].some(ends) && !tokens.ended) tokens.take()
  }

  #property(): PropertyNode {
    const tokens = this.#tokens
    const decorators = this.#decorators()
    const relationship = tokens.accept('-->')
    if (!relationship && !tokens.accept('o')) throw tokens.unexpected('a property: “o” or “-->”')
    const { name: type, at: typeAt } = tokens.qualifiedName('the type of the property')
    const array = tokens.accept('[')
    if (array) tokens.expect(']')
    const { text: name, start: at } = tokens.expectKind('name', 'the name of the property')
    return { name, at, relationship, type, typeAt, array, decorators, ...this.#meta() }
  }

  #meta(): PropertyMeta {
    const tokens = this.#tokens
    let meta: PropertyMeta = { optional: false, default: null, regex: null, range: null }
    for (;;) {
      const at = tokens.current.start
      if (tokens.accept('optional')) meta = { ...meta, optional: true }
      else if (this.#named('default')) meta = { ...meta, default: { value: this.#literal(), at } }
      else if (this.#named('regex')) meta = { ...meta, regex: tokens.regex() }
      else if (this.#named('range')) meta = { ...meta, range: { ...this.#range(), at } }
      else return meta
    }
  }

  #named(name: string): boolean {
    if (!this.#tokens.accept(name)) return false
    this.#tokens.expect('=')
    return true
  }

  #literal(): string | number | boolean {
    const tokens = this.#tokens
    const { kind, text } = tokens.current
    if (kind === 'string') return tokens.take().text
    if (kind === 'number') return Number(tokens.take().text)
    if (kind === 'name' && (text === 'true' || text === 'false'))
      return tokens.take().text === 'true'
    throw tokens.unexpected('a string in quotes, a number, true or false')
  }

  #range(): { lower: number | null; upper: number | null } {
    const tokens = this.#tokens
    const bound = () =>
      tokens.is(',') || tokens.is(']')
        ? null
        : Number(tokens.expectKind('number', 'a bound of the range').text)
    tokens.expect('[')
    const lower = bound()
    tokens.expect(',')
    const upper = bound()
    tokens.expect(']')
    return { lower, upper }
  }

  #decorators(): Decorator[] {
    const tokens = this.#tokens
    const decorators: Decorator[] = []
    while (tokens.is('@')) {
      const at = tokens.take().start
      const { text: name } = tokens.expectKind('name', 'the name of a decorator')
      decorators.push({ name, at, arguments: this.#decoratorArguments() })
    }
    return decorators
  }

  #decoratorArguments(): (string | number | boolean)[] {
    const tokens = this.#tokens
    const values: (string | number | boolean)[] = []
    if (!tokens.accept('(')) return values
    while (!tokens.is(')')) {
      const isName = tokens.current.kind === 'name' && !/^(true|false)$/.test(tokens.current.text)
      const value = isName ? tokens.qualifiedName('an argument').name : this.#literal()
      if (isName && tokens.accept('[')) {
        tokens.expect(']')
        values.push(`${value}[]`)
      } else {
        values.push(value)
      }
      if (!tokens.accept(',')) break
    }
    tokens.expect(')')
    return values
  }
}
