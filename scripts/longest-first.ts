import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Prefixes of test paths, slowest first. */
const LONGEST_FIRST: readonly string[] = [
  'test/simulation/',
  'test/crash/',
  'test/pages/',
  'test/',
  'src/',
]

/**
 * Orders the test files of a run by expected duration, so that no worker is left alone with a long file. Within a
 * prefix vitest's order applies. In a fresh clone vitest orders files by size, although the slowest files are among the
 * smallest, because it knows no durations of earlier runs.
 */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    return sorted.toSorted((one, other) => this.#place(one) - this.#place(other))
  }

  /** Files with their own process come first: other files share a process only if they are consecutive. */
  #place({ moduleId, project }: TestSpecification): number {
    const path = moduleId.slice(this.ctx.config.root.length + 1)
    const place = LONGEST_FIRST.findIndex((start) => path.startsWith(start))
    return project.config.isolate ? place - LONGEST_FIRST.length : place
  }
}
