import { parsePosition, positionText } from '../../chain/index.ts'
import type { HttpApp } from '../../http/index.ts'
import { askedIn, refuseToRun, sendAttachment } from '../attachments/download.ts'
import { AnyBytes } from '../attachments/schemas.ts'
import { failures, serverIdFrom } from '../routes.ts'
import type { Mirrors } from './mirrors.ts'
import { AbsentQuery, AbsentReply, ContentParams, PeerParams, PeersQuery } from './schemas.ts'

/** Contents named at a time where a request does not say how many. */
const LIMIT = 100
/** What may be seen depends on the token, where one is needed. */
const VARY = 'authorization, x-access-token'
/** A peer that signs its request needs no token. */
const READ_BY_PEERS = { scope: 'node:sync', signed: true } as const
const tags = ['attachments']

/** Mounts the paths by which nodes read the contents of attachments that a chain names. */
export function contentRoutes(app: HttpApp, mirrors: Mirrors): void {
  app.get(
    '/api/ledgers/:serverid/attachments',
    {
      schema: {
        tags,
        summary: 'List contents of attachments that entries of a chain name and that are not here',
        params: PeerParams,
        querystring: AbsentQuery,
        response: { 200: AbsentReply, ...failures },
      },
      config: READ_BY_PEERS,
    },
    async ({ params, query: { after, limit = LIMIT } }) => {
      const contents = mirrors.contentsOf(serverIdFrom(params.serverid))
      const from = after === undefined ? -1 : (parsePosition(after) ?? -1)
      const { contents: absent, upTo, more } = await contents.absent(from, limit)
      return {
        status: true as const,
        absent: absent.map(({ sha256, length, bytes }) => ({ sha256, length, size: bytes })),
        after: upTo === -1 ? null : positionText(upTo),
        more,
      }
    },
  )

  app.get(
    '/api/ledgers/:serverid/attachments/:sha256',
    {
      // Fastify's own would read the file to its end.
      exposeHeadRoute: false,
      schema: {
        tags,
        summary: 'Read a content of attachments by its SHA-256, or the parts that `Range` asks for',
        params: ContentParams,
        querystring: PeersQuery,
        response: {
          200: AnyBytes('The bytes'),
          206: AnyBytes('The parts that `Range` asks for'),
          ...failures,
        },
      },
      config: READ_BY_PEERS,
    },
    async (request, reply) => {
      const { serverid, sha256 } = request.params
      refuseToRun(request.headers)
      const asked = askedIn(request)
      const opened = await mirrors.contentsOf(serverIdFrom(serverid)).open(sha256)
      return sendAttachment(request, reply.header('vary', VARY), { ...opened, asked })
    },
  )
}
