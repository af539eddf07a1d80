import type { Readable } from 'node:stream'
import type { Job, Plan } from './convert.ts'
import { workbookNameOf } from './names.ts'
import { type ConverterDefaults, optionsOf } from './options.ts'
import type { Upload } from './upload.ts'
import { ConversionWorkers, WORKER_LIMITS, type WorkerLimits } from './workers.ts'

/** Cells of one workbook at most, for uploads. */
const CELLS_MAX = 10_000_000

/** A product on its way to whoever asked for it. */
export interface Delivery {
  readonly plan: Plan
  /** The name of the workbook. */
  readonly name: string
  /** Destroying it ends the work. */
  readonly product: Readable
}

/** Turns uploads into workbooks. All methods may be called concurrently. */
export class ConverterService {
  readonly #defaults: ConverterDefaults
  readonly #workers: ConversionWorkers

  constructor(defaults: ConverterDefaults, limits: WorkerLimits = WORKER_LIMITS) {
    this.#defaults = defaults
    this.#workers = new ConversionWorkers(limits)
  }

  /**
   * Converts `upload`; resolves when its image is decoded and its workbook begins to come.
   *
   * Errors: ConverterError; the reason of `signal` when it aborts. An abort at any time before the
   * last byte ends the work.
   */
  workbook(upload: Upload, signal: AbortSignal): Promise<Delivery> {
    return this.#deliver(upload, 'workbook', signal)
  }

  /** A PNG with one pixel per cell, of the colour that the workbook would have. Errors as above. */
  preview(upload: Upload, signal: AbortSignal): Promise<Delivery> {
    return this.#deliver(upload, 'preview', signal)
  }

  async #deliver(
    { bytes, name, fields }: Upload,
    product: Job['product'],
    signal: AbortSignal,
  ): Promise<Delivery> {
    const options = optionsOf(fields, this.#defaults)
    const job = { bytes, name, options, cellsMax: CELLS_MAX, product }
    return { ...(await this.#workers.start(job, signal)), name: workbookNameOf(name) }
  }

  /** Ends all work. */
  close(): Promise<void> {
    return this.#workers.close()
  }
}
