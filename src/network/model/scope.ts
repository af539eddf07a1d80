import type { DeclarationNode, ModelFile } from '../language/model-file.ts'
import type { Findings } from '../language/source.ts'
import { SYSTEM_NAMESPACE, SYSTEM_ROOTS } from './system.ts'

/** What the names of one model file stand for. */
export class Scope {
  /** Short names to qualified ones; what comes first wins. */
  readonly #names = new Map<string, string>()
  readonly #known: ReadonlySet<string>

  private constructor(known: ReadonlySet<string>) {
    this.#known = known
  }

  /** The qualified name that `name`, short or qualified, stands for, or null. */
  resolve(name: string): string | null {
    return this.#names.get(name) ?? (this.#known.has(name) ? name : null)
  }

  /**
   * The scope of `file`: its own types, those it imports by name, the system's four, and those it
   * imports with a star, in this order.
   */
  static of(
    file: ModelFile,
    namespaces: ReadonlyMap<string, readonly DeclarationNode[]>,
    known: ReadonlySet<string>,
    findings: Findings,
  ): Scope {
    const scope = new Scope(known)
    for (const { name } of file.declarations) scope.#add(name, `${file.namespace}.${name}`)
    for (const { namespace, type, at } of file.imports) {
      const declarations = namespaces.get(namespace)
      if (declarations === undefined) {
        findings.error(file.file, at, `there is no namespace ${namespace} to import from`)
      } else if (type !== null && !declarations.some(({ name }) => name === type)) {
        findings.error(file.file, at, `there is no type ${type} in ${namespace}`)
      } else if (type !== null && !scope.#add(type, `${namespace}.${type}`)) {
        const other = scope.resolve(type)
        findings.error(file.file, at, `the imported ${namespace}.${type} clashes with ${other}`)
      }
    }
    for (const name of SYSTEM_ROOTS) scope.#add(name, `${SYSTEM_NAMESPACE}.${name}`)
    for (const { namespace, type } of file.imports) {
      if (type !== null) continue
      for (const { name } of namespaces.get(namespace) ?? []) {
        scope.#add(name, `${namespace}.${name}`)
      }
    }
    return scope
  }

  #add(name: string, qualifiedName: string): boolean {
    const before = this.#names.get(name)
    if (before === undefined) this.#names.set(name, qualifiedName)
    return before === undefined || before === qualifiedName
  }
}
