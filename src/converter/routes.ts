import type { FastifyReply, FastifyRequest } from 'fastify'
import { type HttpApp, HttpRefusal, readBody } from '../http/index.ts'
import type { Plan } from './convert.ts'
import { ConverterError } from './errors.ts'
import { dispositionOf } from './names.ts'
import { EXCEL, Failure, OOXML, PreviewReply, UploadForm, WorkbookReply } from './schemas.ts'
import type { ConverterService } from './service.ts'
import { FILE_BYTES_MAX, FORM_BYTES_MAX, readUpload } from './upload.ts'

/** Requests that may hold a body at once; each may be as long as the longest form. */
const UPLOADS_MAX = 16
/** A JSON body is never of use here, but up to here it is read before it is said so. */
const JSON_BYTES_MAX = 10 * 1024 * 1024
/** What a client that found no seat is told to wait, seconds. */
const RETRY_AFTER = '5'

/** Mounts `POST /image` and `POST /preview` on `app`. */
export function converterRoutes(app: HttpApp, converter: ConverterService): void {
  acceptForms(app)
  app.addHook('onSend', async (_request, reply) => {
    if (reply.statusCode === 503) reply.header('retry-after', RETRY_AFTER)
  })
  const doors = {
    onRequest: doorkeeper(),
    // Fastify calls no parser when there is no body, and so no form either.
    preValidation: async (request: FastifyRequest) => {
      if (request.body === undefined || request.body === null) throw notAForm()
    },
    validatorCompiler: () => () => true,
  }
  const shape = { tags: ['images'], consumes: ['multipart/form-data'], body: UploadForm }
  const failures = { '4xx': Failure, '5xx': Failure }

  app.post(
    '/image',
    {
      ...doors,
      schema: {
        ...shape,
        summary: 'Turn an image into a workbook with one coloured cell per pixel',
        response: { 200: WorkbookReply, ...failures },
      },
    },
    async (request, reply) => {
      const { plan, name, product } = await converter.workbook(request.body, untilGone(reply))
      return told(reply, plan)
        .header('content-type', mediaTypeFor(request.headers.accept))
        .header('content-disposition', dispositionOf(name))
        .header('vary', 'accept')
        .send(product)
    },
  )

  app.post(
    '/preview',
    {
      ...doors,
      schema: {
        ...shape,
        summary: 'The cells of that workbook as a picture, one pixel each',
        response: { 200: PreviewReply, ...failures },
      },
    },
    async (request, reply) => {
      const { plan, product } = await converter.preview(request.body, untilGone(reply))
      return told(reply, plan).header('content-type', 'image/png').send(product)
    },
  )
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

/** Lets in only so many requests at a time, before any of their bodies is read. */
function doorkeeper() {
  let inside = 0
  return async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    const bytes = Number(request.headers['content-length'])
    if (bytes > FORM_BYTES_MAX) {
      const most = `the file in it may have 10 MiB (${FILE_BYTES_MAX} bytes)`
      throw new HttpRefusal(413, 'BODY_TOO_LARGE', `the form has ${bytes} bytes; ${most}`)
    }
    if (inside >= UPLOADS_MAX) {
      throw new ConverterError('BUSY', 'too many images are on their way here; try again shortly')
    }
    inside += 1
    reply.raw.once('close', () => {
      inside -= 1
    })
  }
}

/** Aborts when the reply is sent or nobody is left to send it to. */
function untilGone(reply: FastifyReply): AbortSignal {
  const gone = new AbortController()
  const leave = () => gone.abort(new ConverterError('GIVEN_UP', 'nobody waits for the image'))
  if (reply.raw.destroyed) leave()
  reply.raw.once('close', leave)
  return gone.signal
}

/** Says what the product holds, as headers. */
function told(reply: FastifyReply, { grid, colors, distinct }: Plan): FastifyReply {
  return reply
    .header('x-daicho-grid', `${grid.columns}x${grid.rows}`)
    .header('x-daicho-colors', `${colors} of ${distinct}`)
    .header('x-content-type-options', 'nosniff')
    .header('cache-control', 'no-store')
}

/** The specification's type, unless the client asks for the registered one alone. */
function mediaTypeFor(accept: string | undefined): string {
  const wanted = accept?.toLowerCase() ?? ''
  return wanted.includes(OOXML) && !wanted.includes(EXCEL) ? OOXML : EXCEL
}
