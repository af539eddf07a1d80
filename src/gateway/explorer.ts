import type { FastifyReply, FastifyRequest } from 'fastify'
import { assetFiles, type HttpApp, SECURED, servePageFiles, swaggerPage } from '../http/index.ts'
import type { NamespaceStyle } from './aliases.ts'
import { detailed } from './errors.ts'
import { openApiDocument } from './openapi.ts'
import type { GatewayService } from './service.ts'

/** Where the files of all explorers are. */
const FILES = '/explorer/static'

/** Mounts `/explorer` and `/<network>/explorer`: the OpenAPI document of a network, and its page. */
export function explorerRoutes(app: HttpApp, service: GatewayService, style: NamespaceStyle): void {
  servePageFiles(app, assetFiles(FILES))
  const served = (request: FastifyRequest) => {
    // A path without a network is that of the default one.
    const { network: name } = request.params as { network?: string }
    try {
      return { served: service.serve(name ?? null), prefix: prefixOf(name) }
    } catch (error) {
      throw detailed(error)
    }
  }

  async function page(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { served: shown, prefix } = served(request)
    const { name } = shown.network.definition
    const path = `${prefix}/explorer`
    const html = swaggerPage({
      title: `${name}: explorer`,
      path,
      links: [{ href: path, text: name }],
      assets: FILES,
      document: `${path}/openapi.json`,
    })
    return reply.headers(SECURED).type('text/html; charset=utf-8').send(html)
  }

  for (const prefix of ['', '/:network']) {
    for (const path of ['/explorer', '/explorer/']) {
      app.get(`${prefix}${path}`, { schema: { hide: true } }, page)
    }
    app.get(`${prefix}/explorer/openapi.json`, { schema: { hide: true } }, async (request) => {
      const { served: shown, prefix: before } = served(request)
      return openApiDocument(shown, `${before}/api`, style)
    })
  }
}

function prefixOf(network: string | undefined): string {
  return network === undefined ? '' : `/${encodeURIComponent(network)}`
}
