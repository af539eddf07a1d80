import type { DeclarationKind, Decorator } from '../language/model-file.ts'
import { PRIMITIVES } from '../language/model-file.ts'
import type { Findings, SourceFile } from '../language/source.ts'

/** What a decorator stands on. */
interface Decorated {
  readonly kind: DeclarationKind
  readonly file: SourceFile
}

/**
 * Checks the decorators that mean something here: `@returns(Type)` and `@commit(true|false)`. All
 * others are notes of the network's author.
 */
export function checkDecorators(
  decorators: readonly Decorator[],
  { kind, file }: Decorated,
  findings: Findings,
  typeNamed: (name: string) => unknown,
): void {
  const seen = new Set<string>()
  for (const { name, at, arguments: values } of decorators) {
    if (seen.has(name)) findings.error(file, at, `@${name} stands here twice`)
    seen.add(name)
    if (name === 'commit' && kind === 'transaction') {
      const [value] = values
      if (values.length !== 1 || typeof value !== 'boolean') {
        findings.error(file, at, '@commit takes true or false')
      }
    }
    if (name === 'returns' && kind === 'transaction') {
      const [type] = values
      if (values.length !== 1 || typeof type !== 'string') {
        findings.error(file, at, '@returns takes the name of a type')
        continue
      }
      const element = type.replace(/\[\]$/, '')
      const known = PRIMITIVES.some((primitive) => primitive === element)
      if (!known && typeNamed(element) === null) {
        findings.error(file, at, `there is no type ${element} to return`)
      }
    }
  }
}
