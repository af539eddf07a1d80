import type { FastifyReply, FastifyRequest } from 'fastify'
import {
  type HttpApp,
  HttpRefusal,
  SWAGGER_PAGE_POLICY,
  swaggerFiles,
  swaggerPage,
} from '../http/index.ts'
import type { NamespaceStyle } from './aliases.ts'
import { detailed } from './errors.ts'
import { openApiDocument } from './openapi.ts'
import type { GatewayService } from './service.ts'

/** Mounts `/explorer` and `/<network>/explorer`: the OpenAPI document of a network, and its page. */
export async function explorerRoutes(
  app: HttpApp,
  service: GatewayService,
  style: NamespaceStyle,
): Promise<void> {
  const files = await swaggerFiles()

  async function answer(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    // The names of the two parameters below; a path without a network, or without a file, has none.
    const { network: name, file = '' } = request.params as { network?: string; file?: string }
    try {
      const served = service.serve(name ?? null)
      const prefix = name === undefined ? '' : `/${encodeURIComponent(name)}`
      const base = `${prefix}/explorer`
      if (file === 'openapi.json') {
        return reply.send(openApiDocument(served, `${prefix}/api`, style))
      }
      if (file === '') {
        const title = `${served.network.definition.name}: explorer`
        return reply
          .header('content-security-policy', SWAGGER_PAGE_POLICY)
          .type('text/html; charset=utf-8')
          .send(swaggerPage(title, base))
      }
    } catch (error) {
      throw detailed(error)
    }
    const asset = files.get(file)
    if (asset === undefined)
      throw new HttpRefusal(404, 'PATH_UNKNOWN', 'the explorer has no such file')
    reply.header('etag', asset.etag).header('cache-control', 'no-cache')
    if (request.headers['if-none-match'] === asset.etag) return reply.code(304).send()
    return reply.type(asset.contentType).send(asset.content)
  }

  for (const prefix of ['', '/:network']) {
    for (const path of ['/explorer', '/explorer/', '/explorer/:file']) {
      app.get(`${prefix}${path}`, { schema: { hide: true } }, answer)
    }
  }
}
