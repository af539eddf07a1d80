import {
  type HttpComponent,
  registerOpenApiPage,
  serveComponentPage,
  statusFalseReply,
} from '../http/index.ts'
import { converterRoutes } from './api/routes.ts'
import { FORM_BYTES_MAX } from './api/upload.ts'
import { converterStatuses } from './errors.ts'
import { type ConverterDefaults, DEFAULTS } from './options.ts'
import { ConversionWorkers, WORKER_LIMITS, type WorkerLimits } from './workers.ts'

export type { ConversionPlan } from './convert.ts'
export { ConverterError } from './errors.ts'
export { OPTION_NAMES, parseOptions } from './options.ts'
export { ConversionWorkers, WORKER_LIMITS } from './workers.ts'

export interface ConverterDependencies {
  /** Version to show in the documentation. */
  readonly version: string
  /** Defaults from the settings DEFAULT_PX and DEFAULT_WIDTH. */
  readonly defaults?: Partial<ConverterDefaults>
  readonly workerLimits?: WorkerLimits
}

/** Maximum number of forms of the maximum size in memory. */
const FORMS_MAX = 16

/** Links in the header of the pages. */
const LINKS = [
  { href: '/page', text: 'Image to spreadsheet', japanese: '画像を表計算に' },
  { href: '/', text: 'API' },
]

const DESCRIPTION = `Each pixel of an image becomes a spreadsheet cell of its colour.

**[Open the upload page](/page)** to try it with a preview. JPEG, PNG, GIF, WebP, AVIF, TIFF, BMP and SVG
are accepted, up to 10 MiB (10,485,760 bytes). LibreOffice needs about a minute to open a workbook with 60,000 colours.
With \`colors=4096\`, it needs some seconds.`

/**
 * Returns the converter: `POST /image` and `POST /preview`, the upload page at `/page`, and the OpenAPI documentation
 * at `/`. Source: specification, “C: converter”.
 */
export function converterComponent(deps: ConverterDependencies): HttpComponent {
  const defaults = { ...DEFAULTS, ...deps.defaults }
  const workers = new ConversionWorkers(deps.workerLimits ?? WORKER_LIMITS)
  return {
    name: 'converter',
    limits: {
      bodyBytesMax: FORM_BYTES_MAX,
      bodiesBytesMax: FORMS_MAX * FORM_BYTES_MAX,
      requestTimeoutMs: 120_000,
    },
    sameOriginOnly: false,
    statusOf: converterStatuses,
    refusalReply: statusFalseReply,
    async register(app) {
      const assets = await registerOpenApiPage(app, {
        path: '/',
        title: 'daicho: image to spreadsheet',
        links: LINKS,
        description: DESCRIPTION,
        version: deps.version,
        statusOf: converterStatuses,
        tags: [{ name: 'images', description: 'Conversion of images to spreadsheets' }],
      })
      converterRoutes(app, workers, defaults)
      serveComponentPage(app, {
        path: '/page',
        title: 'Image to spreadsheet',
        links: LINKS,
        assets,
        folder: new URL('./page/', import.meta.url),
        values: { px: String(defaults.px), width: String(defaults.width) },
      })
    },
    close: () => workers.close(),
  }
}
