import type { FastifyReply, FastifyRequest } from 'fastify'
import { logOrigin } from '../../chain/index.ts'
import { type HttpApp, readBody } from '../../http/index.ts'
import { AnyBytes } from '../attachments/schemas.ts'
import { failures, sendText } from '../routes.ts'
import { PART_BYTES_MAX } from './chain-contents.ts'
import { PeerError, statusOfPeers } from './errors.ts'
import type { Mirrors } from './mirrors.ts'
import type { PeerSignatures } from './peer-signatures.ts'
import { PUSH_BYTES_MAX } from './push.ts'
import { ContentParams, PartQuery, PartReply, PeerParams, PushReply } from './schemas.ts'
import { isDigestOf } from './signed-request.ts'

const PATH = '/api/ledgers/:serverid'
const PART_PATH = '/api/ledgers/:serverid/attachments/:sha256'

/** Mounts the paths that nodes push to; the signature of a peer opens them, no token. */
export function pushRoute(app: HttpApp, mirrors: Mirrors, signatures: PeerSignatures): void {
  const digests = new WeakMap<object, string>()

  /** Before the body is read: only a peer's is, and only for its own chain. */
  const expectSigned = async (request: FastifyRequest) => {
    const { keyId, digest } = await signatures.signerOf(request.raw)
    if (keyId !== keyIdIn(request)) {
      throw new PeerError('SIGNATURE_REFUSED', 'a node pushes its own chain only')
    }
    digests.set(request, digest)
  }

  /** Once the body is here: it is the one that was signed, and the peer is still one. */
  const pushed = (request: FastifyRequest) => {
    const body = request.body instanceof Buffer ? request.body : Buffer.alloc(0)
    if (!isDigestOf(digests.get(request) ?? '', body)) {
      throw new PeerError('SIGNATURE_REFUSED', 'the body is not the one that was signed')
    }
    const peer = mirrors.peerOfKey(keyIdIn(request))
    if (peer !== null) return { peer, body }
    throw new PeerError('PEER_UNKNOWN', 'the peer was taken out')
  }

  // The digest is of the bytes: in a scope of its own, where nothing parses them.
  app.register(async (scope: HttpApp) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', async (request: FastifyRequest) => readBody(request))
    scope.post(
      PATH,
      {
        bodyLimit: PUSH_BYTES_MAX,
        onRequest: expectSigned,
        schema: {
          tags: ['ledger'],
          summary: 'Bring blocks of the own chain to a node that mirrors it; signed (RFC 9421)',
          params: PeerParams,
          response: { 200: PushReply, ...failures },
        },
        config: { scope: 'public' },
      },
      async (request, reply) => {
        const { peer, body } = pushed(request)
        const { to, error } = await mirrors.push(peer.vkey, body)
        if (error === null) return { status: true as const, ...to }
        return refusal(reply, error, to)
      },
    )

    scope.post(
      PART_PATH,
      {
        bodyLimit: PART_BYTES_MAX,
        onRequest: expectSigned,
        schema: {
          tags: ['attachments'],
          summary: 'Bring a part of a content of the own attachments to a node; signed (RFC 9421)',
          params: ContentParams,
          querystring: PartQuery,
          body: AnyBytes('The part'),
          response: { 200: PartReply, ...failures },
        },
        config: { scope: 'public' },
      },
      async (request, reply) => {
        const { peer, body } = pushed(request)
        const { params, query } = request
        const part = { sha256: params.sha256, from: query.offset }
        const { arrived, error } = await mirrors.push(peer.vkey, body, part)
        if (error === null) return { status: true as const, size: arrived }
        return refusal(reply, error, {})
      },
    )
  })
}

function refusal(reply: FastifyReply, error: { code: string; message: string }, more: object) {
  const status = Object.entries(statusOfPeers).find(([code]) => code === error.code)?.[1]
  return sendText(reply.code(status ?? 422), JSON.stringify({ status: false, ...error, ...more }))
}

/** The id of the key of the chain that a request is about. */
function keyIdIn({ params }: FastifyRequest): string {
  // Both routes have this parameter, and the router gives texts.
  return logOrigin(Number((params as { serverid: string }).serverid))
}
