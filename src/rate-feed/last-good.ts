import { randomUUID } from 'node:crypto'
import { mkdir, open, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { readVectorFile } from './sources/operator.ts'
import { textOfVectorDocument } from './sources/vector-document.ts'
import type { Quote, VectorDocument } from './vector.ts'

const FILE = 'rates.json'

/** The last vector that was believed, kept over restarts in a file of the system folder. */
export class LastGood {
  readonly #folder: string
  /** Writes take turns: the file ends as the last one asked for. */
  #turn: Promise<void> = Promise.resolve()

  constructor(folder: string) {
    this.#folder = folder
  }

  /** What is kept. Errors: SourceError, also when nothing is. */
  read(): Promise<Quote> {
    return readVectorFile(join(this.#folder, FILE))
  }

  /** Replaces what is kept: whoever reads sees the old or the new file, whole. Errors: of the disk. */
  write(document: VectorDocument): Promise<void> {
    const written = this.#turn.then(() => this.#replace(textOfVectorDocument(document)))
    this.#turn = written.catch(() => {})
    return written
  }

  /** Resolves when no write is under way. */
  settled(): Promise<void> {
    return this.#turn
  }

  async #replace(text: string): Promise<void> {
    await mkdir(this.#folder, { recursive: true })
    const path = join(this.#folder, FILE)
    const beside = `${path}.${randomUUID()}`
    try {
      const file = await open(beside, 'wx')
      try {
        await file.writeFile(text)
        await file.sync()
      } finally {
        await file.close()
      }
      await rename(beside, path)
    } catch (error) {
      await rm(beside, { force: true })
      throw error
    }
  }
}
