/** One text of a network, by its path in the network's directory. */
export interface SourceFile {
  readonly path: string
  readonly text: string
}

/** Something that is wrong, or worth knowing, at one place of a network. */
export interface Finding {
  readonly severity: 'error' | 'warning'
  readonly path: string
  /** From 1; 0 where the whole file, or its absence, is meant. */
  readonly line: number
  /** From 1, in UTF-16 units; 0 likewise. */
  readonly column: number
  readonly message: string
}

/** Findings that one report holds at most. */
const FINDINGS_MAX = 1_000
/** Characters of one message: names that it holds may be of any length. */
const MESSAGE_LENGTH_MAX = 1_000

/** Collects what is found while a network is read: everything, not only the first. */
export class Findings {
  readonly #list: Finding[] = []

  /** Something wrong at `offset` of `file`. */
  error(file: SourceFile, offset: number, message: string): void {
    this.#add({ severity: 'error', path: file.path, ...placeOf(file.text, offset), message })
  }

  /** Something worth knowing about the file at `path`, or about its absence. */
  warning(path: string, message: string): void {
    this.#add({ severity: 'warning', path, line: 0, column: 0, message })
  }

  /** Something wrong with the file at `path` as a whole, or at a place that is known already. */
  errorIn(path: string, message: string, place = { line: 0, column: 0 }): void {
    this.#add({ severity: 'error', path, ...place, message })
  }

  /** Whether nothing wrong was found. */
  get clean(): boolean {
    return !this.#list.some(({ severity }) => severity === 'error')
  }

  /** What was found, by file and place. */
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
