import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Beginnings of paths of tests: what takes longest first, what takes least last. */
const LONGEST_FIRST: readonly string[] = [
  'test/simulation/',
  'test/crash/',
  'test/pages/',
  'test/',
  'src/',
]

/**
 * The files of a run in the order in which they start, so that no worker is left alone with a long one:
 * by place, and within a place as vitest orders them. By itself vitest knows how long a file took the
 * last time; in a fresh clone it knows sizes alone, and the longest files are among the smallest.
 */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    return sorted.toSorted((one, other) => this.#place(one) - this.#place(other))
  }

  /** Those that have a process each come first: the others share theirs only while they follow each other. */
  #place({ moduleId, project }: TestSpecification): number {
    const path = moduleId.slice(this.ctx.config.root.length + 1)
    const place = LONGEST_FIRST.findIndex((start) => path.startsWith(start))
    return project.config.isolate ? place - LONGEST_FIRST.length : place
  }
}
