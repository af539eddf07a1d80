import type { FastifyReply, FastifyRequest } from 'fastify'
import {
  type HttpApp,
  HttpRefusal,
  readAddress,
  readBody,
  StatusFalse,
  toClientKey,
} from '../../http/index.ts'
import type { Job } from '../convert.ts'
import { ConverterError } from '../errors.ts'
import { formatDisposition, toWorkbookName } from '../names.ts'
import { type ConverterDefaults, parseOptions } from '../options.ts'
import type { ConversionWorkers } from '../workers.ts'
import { EXCEL, OOXML, PreviewReply, UploadForm, WorkbookReply } from './schemas.ts'
import { FILE_BYTES_MAX, FORM_BYTES_MAX, type ImageUpload, readUpload } from './upload.ts'

const CELLS_MAX = 10_000_000
/** Maximum bytes of a JSON body, which is read and rejected. Source: specification, “Limits”. */
const JSON_BYTES_MAX = 10 * 1024 * 1024
/** Value of `Retry-After` for 503, in seconds. */
const RETRY_AFTER = '5'

/** Adds `POST /image` and `POST /preview` to `app`. */
export function converterRoutes(
  app: HttpApp,
  workers: ConversionWorkers,
  defaults: ConverterDefaults,
): void {
  acceptForms(app)
  app.addHook('onSend', async (_request, reply) => {
    if (reply.statusCode === 503) reply.header('retry-after', RETRY_AFTER)
  })
  const convert = async (upload: ImageUpload, product: Job['product'], reply: FastifyReply) => {
    const client = toClientKey(readAddress(reply.request))
    const { bytes, name, fields } = upload
    const options = parseOptions(fields, defaults)
    const job = { bytes, name, options, cellsMax: CELLS_MAX, product }
    const { plan, product: stream } = await workers.start(job, toSignal(reply), () => {}, client)
    const { grid, colors, distinct } = plan
    reply
      .header('x-daicho-grid', `${grid.columns}x${grid.rows}`)
      .header('x-daicho-colors', `${colors} of ${distinct}`)
      .header('x-content-type-options', 'nosniff')
      .header('cache-control', 'no-store')
    return stream
  }
  const summaries = {
    image: 'Convert an image to a workbook with one coloured cell per pixel',
    preview: 'Show the cells of the workbook as a PNG with one pixel per cell',
  }
  app.post(
    '/image',
    routeOptions('convertImage', summaries.image, WorkbookReply),
    async ({ body, headers }, reply) => {
      const product = await convert(body, 'workbook', reply)
      return reply
        .header('content-type', mediaTypeFor(headers.accept))
        .header('content-disposition', formatDisposition(toWorkbookName(body.name)))
        .header('vary', 'accept')
        .send(product)
    },
  )
  app.post(
    '/preview',
    routeOptions('previewImage', summaries.preview, PreviewReply),
    async ({ body }, reply) => {
      const product = await convert(body, 'preview', reply)
      return reply.header('content-type', 'image/png').send(product)
    },
  )
}

function routeOptions<Reply>(operationId: string, summary: string, reply: Reply) {
  return {
    onRequest: refuseLongForm,
    // A missing body is rejected here, because Fastify calls no content type parser if there is no body.
    preValidation: async ({ body }: { body: unknown }) => {
      if (body === undefined || body === null) throw notAForm()
    },
    validatorCompiler: () => () => true,
    schema: {
      ...{ operationId, summary, tags: ['images'] },
      ...{ consumes: ['multipart/form-data'], body: UploadForm },
      response: { 200: reply, '4xx': StatusFalse, '5xx': StatusFalse },
    },
  }
}

function acceptForms(app: HttpApp): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('multipart/form-data', async (request: FastifyRequest) =>
    readUpload(await readBody(request), String(request.headers['content-type'])),
  )
  app.addContentTypeParser('application/json', async (request: FastifyRequest) => {
    await readBody(request, JSON_BYTES_MAX)
    throw notAForm()
  })
}

function notAForm(): HttpRefusal {
  return new HttpRefusal(415, 'CONTENT_TYPE_UNKNOWN', 'send the image as multipart/form-data')
}

/** Rejects forms that are too large by their headers, before their bodies are read. */
async function refuseLongForm({ headers }: Pick<FastifyRequest, 'headers'>): Promise<void> {
  const bytes = Number(headers['content-length'])
  if (!(bytes > FORM_BYTES_MAX)) return
  const most = `the maximum for the file is 10 MiB (${FILE_BYTES_MAX} bytes)`
  throw new HttpRefusal(413, 'BODY_TOO_LARGE', `the form is ${bytes} bytes long; ${most}`)
}

/** Returns a signal that aborts when the reply is sent or the client has disconnected. */
function toSignal(reply: FastifyReply): AbortSignal {
  const controller = new AbortController()
  const abort = () =>
    controller.abort(new ConverterError('GIVEN_UP', 'the client has disconnected'))
  if (reply.raw.destroyed) abort()
  reply.raw.once('close', abort)
  return controller.signal
}

/** Returns the media type of the workbook: EXCEL, or OOXML if the client accepts OOXML but not EXCEL. */
function mediaTypeFor(accept = ''): string {
  const accepted = accept.toLowerCase()
  return accepted.includes(OOXML) && !accepted.includes(EXCEL) ? OOXML : EXCEL
}
