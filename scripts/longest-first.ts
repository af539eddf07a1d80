import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Prefixes of the paths of slow tests, slowest first. */
const LONGEST_FIRST: readonly string[] = [
  'test/simulation/',
  'test/crash/',
  'test/pages/',
  'test/',
  'src/',
]

/**
 * Orders test files by expected duration, longest first, so that at the end no worker is left alone with a long file.
 * Files with the same prefix keep vitest's order. Vitest's order alone is not enough: in a fresh clone, without
 * durations of earlier runs, it is by size, but the slowest files are among the smallest.
 */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    return sorted.toSorted((one, other) => this.#place(one) - this.#place(other))
  }

  /** Returns the rank of a file. Isolated files come first, so that the others are consecutive and share processes. */
  #place({ moduleId, project }: TestSpecification): number {
    const path = moduleId.slice(this.ctx.config.root.length + 1)
    const place = LONGEST_FIRST.findIndex((start) => path.startsWith(start))
    return project.config.isolate ? place - LONGEST_FIRST.length : place
  }
}
