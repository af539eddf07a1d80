import type { FastifyRequest } from 'fastify'
import { logOrigin } from '../../chain/index.ts'
import type { HttpApp } from '../../http/index.ts'
import { failures, sendText } from '../routes.ts'
import { PeerError, statusOfPeers } from './errors.ts'
import type { Mirrors } from './mirrors.ts'
import type { PeerSignatures } from './peer-signatures.ts'
import { PUSH_BYTES_MAX } from './push.ts'
import { PeerParams, PushReply } from './schemas.ts'
import { isDigestOf } from './signed-request.ts'

const PATH = '/api/ledgers/:serverid'

/** Mounts the path that nodes push their chains to; the signature of a peer opens it, no token. */
export function pushRoute(app: HttpApp, mirrors: Mirrors, signatures: PeerSignatures): void {
  const digests = new WeakMap<object, string>()

  /** Before the body is read: only a peer's is, and only for its own chain. */
  const expectSigned = async (request: FastifyRequest<{ Params: { serverid: string } }>) => {
    const { keyId, digest } = await signatures.signerOf(request.raw)
    if (keyId !== logOrigin(Number(request.params.serverid))) {
      throw new PeerError('SIGNATURE_REFUSED', 'a node pushes its own chain only')
    }
    digests.set(request, digest)
  }

  // The digest is of the bytes: in a scope of its own, where nothing parses them.
  app.register(async (scope: HttpApp) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body: Buffer, done) => {
      done(null, body)
    })
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
        const { body } = request
        if (!(body instanceof Buffer) || !isDigestOf(digests.get(request) ?? '', body)) {
          throw new PeerError('SIGNATURE_REFUSED', 'the body is not the one that was signed')
        }
        const peer = mirrors.peerOfKey(logOrigin(Number(request.params.serverid)))
        if (peer === null) throw new PeerError('PEER_UNKNOWN', 'the peer was taken out')
        const { to, error } = await mirrors.push(peer.vkey, body)
        if (error === null) return { status: true as const, ...to }
        const status = Object.entries(statusOfPeers).find(([code]) => code === error.code)?.[1]
        return sendText(
          reply.code(status ?? 422),
          JSON.stringify({ status: false, ...error, ...to }),
        )
      },
    )
  })
}
