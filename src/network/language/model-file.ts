import type { SourceFile } from './source.ts'

// What a model file says, before anyone asked whether it makes sense. `at` is an offset in its text.

/** The kinds of declarations. */
export type DeclarationKind = 'asset' | 'participant' | 'transaction' | 'event' | 'concept' | 'enum'

/** The types that are built in. */
export const PRIMITIVES = ['Boolean', 'DateTime', 'Double', 'Integer', 'Long', 'String'] as const
/** One of them. */
export type Primitive = (typeof PRIMITIVES)[number]

/** `@name(a, "b", 3)` before a declaration or a property. */
export interface Decorator {
  readonly name: string
  readonly at: number
  /** Names are texts too: `@returns(Quote)` has the argument `Quote`. */
  readonly arguments: readonly (string | number | boolean)[]
}

/** What may follow a property's name, as written. */
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
  /** As written: built in, of this namespace, imported, or qualified. */
  readonly type: string
  readonly typeAt: number
  readonly array: boolean
  readonly decorators: readonly Decorator[]
}

/** A type. */
export interface DeclarationNode {
  readonly kind: DeclarationKind
  readonly name: string
  readonly at: number
  readonly abstract: boolean
  readonly superType: { readonly name: string; readonly at: number } | null
  readonly identifiedBy: { readonly name: string; readonly at: number } | null
  readonly properties: readonly PropertyNode[]
  /** Of an enum. */
  readonly values: readonly { readonly name: string; readonly at: number }[]
  readonly decorators: readonly Decorator[]
}

/** `import a.b.C`, or `import a.b.*` with null for the type. */
export interface ImportNode {
  readonly namespace: string
  readonly type: string | null
  readonly at: number
}

/** One model file. */
export interface ModelFile {
  readonly file: SourceFile
  readonly namespace: string
  readonly namespaceAt: number
  readonly imports: readonly ImportNode[]
  readonly declarations: readonly DeclarationNode[]
}
