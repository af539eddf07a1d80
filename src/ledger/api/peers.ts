import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from '../../base/shape.ts'
import {
  EVIDENCE_BEGINNING,
  type Evidence,
  EvidenceFile,
  logOrigin,
  parsePosition,
  positionText,
} from '../../chain/index.ts'
import { type HttpApp, readBody } from '../../http/index.ts'
import { PART_BYTES_MAX } from '../peers/blobs.ts'
import { PeerError, statusOfPeers } from '../peers/errors.ts'
import type { Mirrors, PeerStatus } from '../peers/mirrors.ts'
import { PUSH_BYTES_MAX } from '../peers/push.ts'
import { matchesDigest, type SignedRequests } from '../peers/signed-request.ts'
import { AnyBytes, readContentRequest, rejectExecution, sendAttachment } from './content-reply.ts'
import { parseServerId, sendText, VARY_BY_TOKEN } from './replies.ts'
import {
  ChainParams,
  Count,
  DoneReply,
  failures,
  okReply,
  operation,
  POSITION_PATTERN,
  TokenQuery,
} from './schemas.ts'

const vkey = Type.String({
  maxLength: 200,
  description: 'Verifier key of the node whose chain is mirrored, as served at its `…/vkey`',
})
const url = Type.String({
  maxLength: 2_000,
  description: 'Base URL of a node that has the chain: the owner of the chain, or another mirror',
})

const PeerBody = Type.Object(
  {
    vkey,
    url: Type.Optional(url),
    push: Type.Optional(
      Type.Boolean({ description: "Whether the node's own chain is pushed to `url`" }),
    ),
  },
  {
    additionalProperties: false,
    examples: [
      {
        vkey: 'daicho/4632891476325748+cfc985e5+AeUtdVe/hvpGXYou6hdB6+6xZH1JQ+RsLxDxyi0LoaQ0',
        url: 'https://ledger.example.com',
      },
    ],
  },
)

const EvidenceReply = Type.Union([EvidenceFile, Type.Null()])

const PeersReply = okReply({
  peers: Type.Array(
    Type.Object({
      serverid: Type.Integer(),
      vkey,
      url: Type.Union([url, Type.Null()]),
      push: Type.Boolean(),
      fixed: Type.Boolean({ description: 'Whether the peer comes from the settings' }),
      state: Type.Enum(['current', 'behind', 'failing', 'frozen']),
      blocks: Type.Integer({ description: 'Blocks of the chain that this node has stored' }),
      lag: Type.Integer({
        description: 'Signed blocks of the chain that this node has not stored yet',
      }),
      absent: Type.Integer({
        description:
          'Number of missing blobs that `url` does not have either; only blobs checked so far count',
      }),
      current: Type.Union([Type.Integer(), Type.Null()], {
        description: 'Time of the last successful sync, milliseconds since the Unix epoch',
      }),
      error: Type.Union([
        Type.Object({ code: Type.String(), message: Type.String() }),
        Type.Null(),
      ]),
      evidence: EvidenceReply,
    }),
  ),
  evidence: EvidenceReply,
})

const PushReply = okReply({
  size: Type.Integer({ description: 'Stored blocks' }),
  seen: Type.Integer({ description: 'Blocks of the newest verified checkpoint' }),
})

const sha256 = Type.String({ pattern: '^[0-9a-f]{64}$', description: 'Hash of the blob' })

const ContentParams = Type.Object({ ...ChainParams.properties, sha256 })

const AbsentQuery = Type.Object({
  ...TokenQuery.properties,
  after: Type.Optional(
    Type.String({
      pattern: POSITION_PATTERN,
      description:
        'Position `<height>.<index>`; lists only blobs to which entries after this position refer',
    }),
  ),
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 1_000,
      description: 'Maximum number of blobs; default 100',
    }),
  ),
})

const AbsentReply = okReply({
  absent: Type.Array(
    Type.Object({
      sha256,
      length: Type.Integer({ description: 'Bytes' }),
      size: Type.Integer({ description: 'Bytes received so far' }),
    }),
  ),
  after: Type.Union([Type.String(), Type.Null()], {
    description:
      'Position of the last entry that was checked; pass it as `after` while `more` is true',
  }),
  more: Type.Boolean(),
})

const PartQuery = Type.Object({
  offset: Count(),
})

const PartReply = okReply({
  size: Type.Integer({ description: 'Bytes received so far; the next part starts there' }),
})

const PEERS_PATH = '/api/config/peers'

/** Mounts the routes that manage peers, and the routes through which nodes exchange chains. */
export function peerRoutes(app: HttpApp, mirrors: Mirrors, signatures: SignedRequests): void {
  configRoutes(app, mirrors)
  blobRoutes(app, mirrors)
  pushRoutes(app, mirrors, signatures)
}

function configRoutes(app: HttpApp, mirrors: Mirrors): void {
  app.get(
    PEERS_PATH,
    operation('operations', 'listPeers', {
      summary: 'List the peers whose chains this node mirrors, with their status',
      reply: PeersReply,
      config: { scope: 'node:admin' },
    }),
    async () => ({
      status: true as const,
      peers: mirrors.peers().map(peerReply),
      evidence: evidenceReply(mirrors.ownEvidence),
    }),
  )

  app.post(
    PEERS_PATH,
    operation('operations', 'addPeer', {
      summary: 'Mirror the chain of a node; has no effect if this node already mirrors the chain',
      body: PeerBody,
      reply: DoneReply,
      config: { scope: 'node:admin' },
    }),
    async ({ body }) => {
      mirrors.add({ ...body, url: body.url ?? null })
      return { status: true as const }
    },
  )

  app.delete(
    `${PEERS_PATH}/:serverid`,
    operation('operations', 'removePeer', {
      summary: 'Stop mirroring a chain; the blocks stored so far are kept and served',
      params: ChainParams,
      reply: DoneReply,
      config: { scope: 'node:admin' },
    }),
    async ({ params }) => {
      mirrors.remove(parseServerId(params.serverid))
      return { status: true as const }
    },
  )
}

function peerReply(peer: PeerStatus) {
  const { serverId: serverid, vkey, url, push, fixed, blocks, absent, error } = peer
  const evidence = evidenceReply(peer.evidence)
  const [state, lag, current] = [toPeerState(peer), peer.ofBlocks - blocks, peer.currentMs]
  return { serverid, vkey, url, push, fixed, state, blocks, lag, absent, current, error, evidence }
}

function evidenceReply(evidence: Evidence | null) {
  return evidence && { ...EVIDENCE_BEGINNING, ...evidence }
}

function toPeerState({ isFrozen, error, currentMs, blocks, ofBlocks }: PeerStatus) {
  if (isFrozen) return 'frozen' as const
  if (error !== null) return 'failing' as const
  return currentMs === null || blocks < ofBlocks ? ('behind' as const) : ('current' as const)
}

const ABSENT_LIMIT = 100
/** Access rule of routes that peers read: a peer that signs its request needs no token. */
const READ_BY_PEERS = { scope: 'node:sync', signed: true } as const

function blobRoutes(app: HttpApp, mirrors: Mirrors): void {
  app.get(
    '/api/ledgers/:serverid/attachments',
    operation('attachments', 'listMissingBlobs', {
      summary: 'List the blobs to which entries of a chain refer and that this node does not have',
      params: ChainParams,
      query: AbsentQuery,
      reply: AbsentReply,
      config: READ_BY_PEERS,
    }),
    async ({ params, query: { after, limit = ABSENT_LIMIT } }) => {
      const blobs = mirrors.requireBlobs(parseServerId(params.serverid))
      const from = after === undefined ? -1 : (parsePosition(after) ?? -1)
      const { blobs: absent, upTo, more } = await blobs.absent(from, limit)
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
      // Disabled, because Fastify's own HEAD route would read the whole file.
      exposeHeadRoute: false,
      ...operation('attachments', 'readBlob', {
        summary: 'Read a blob by its SHA-256, or the parts that `Range` selects',
        params: ContentParams,
        reply: AnyBytes('The bytes'),
        others: { 206: AnyBytes('The parts that `Range` selects'), ...failures },
        config: { ...READ_BY_PEERS, lasting: true },
      }),
    },
    async (request, reply) => {
      const { serverid, sha256 } = request.params
      rejectExecution(request.headers)
      const requested = readContentRequest(request)
      const opened = await mirrors.requireBlobs(parseServerId(serverid)).open(sha256)
      return sendAttachment(
        request,
        reply.headers({ vary: VARY_BY_TOKEN, 'cache-control': 'no-cache' }),
        {
          ...opened,
          requested,
        },
      )
    },
  )
}

const CHAIN_PATH = '/api/ledgers/:serverid'
const PART_PATH = '/api/ledgers/:serverid/attachments/:sha256'

/** Returns the checks of a push: of its signature before the body is read, then of the digest of the body. */
function pushChecks(mirrors: Mirrors, signatures: SignedRequests) {
  const digests = new WeakMap<object, string>()
  return {
    async requireSigned(request: FastifyRequest): Promise<void> {
      const { keyId, digest } = await signatures.verify(request.raw)
      if (keyId !== readKeyId(request)) {
        throw new PeerError('SIGNATURE_REFUSED', 'a node can push only its own chain')
      }
      digests.set(request, digest)
    },
    requirePushed(request: FastifyRequest) {
      const body = request.body instanceof Buffer ? request.body : Buffer.alloc(0)
      if (!matchesDigest(digests.get(request) ?? '', body)) {
        throw new PeerError('SIGNATURE_REFUSED', 'the body does not match its signed digest')
      }
      const peer = mirrors.peerOfKey(readKeyId(request))
      if (peer !== null) return { peer, body }
      throw new PeerError('PEER_UNKNOWN', 'the peer was removed')
    },
  }
}

/** Mounts the routes through which peers push their chains. They require the signature of a peer instead of a token. */
function pushRoutes(app: HttpApp, mirrors: Mirrors, signatures: SignedRequests): void {
  const { requireSigned, requirePushed } = pushChecks(mirrors, signatures)
  // These routes have their own Fastify scope without a body parser, because the signature covers a digest of the raw
  // bytes.
  app.register(async (scope: HttpApp) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', async (request: FastifyRequest) => readBody(request))
    scope.post(
      CHAIN_PATH,
      {
        bodyLimit: PUSH_BYTES_MAX,
        onRequest: requireSigned,
        ...operation('ledger', 'pushBlocks', {
          summary:
            'Push blocks of the caller’s chain to a node that mirrors the chain; signed (RFC 9421)',
          params: ChainParams,
          query: null,
          reply: PushReply,
          config: { scope: 'public' },
        }),
      },
      async (request, reply) => {
        const { peer, body } = requirePushed(request)
        const { error, ...mirror } = await mirrors.push(peer.vkey, body)
        if (error === null) return { status: true as const, ...mirror }
        return sendRefusal(reply, error, mirror)
      },
    )

    scope.post(
      PART_PATH,
      {
        bodyLimit: PART_BYTES_MAX,
        onRequest: requireSigned,
        ...operation('attachments', 'pushBlobPart', {
          summary:
            'Push a part of a blob of the caller’s chain to a node that mirrors the chain; signed (RFC 9421)',
          params: ContentParams,
          query: PartQuery,
          body: AnyBytes('The part'),
          reply: PartReply,
          config: { scope: 'public' },
        }),
      },
      async (request, reply) => {
        const { peer, body } = requirePushed(request)
        const { params, query } = request
        const part = { sha256: params.sha256, from: query.offset }
        const { size, error } = await mirrors.push(peer.vkey, body, part)
        if (error === null) return { status: true as const, size }
        return sendRefusal(reply, error, {})
      },
    )
  })
}

function sendRefusal(reply: FastifyReply, error: { code: string; message: string }, more: object) {
  const status = Object.entries(statusOfPeers).find(([code]) => code === error.code)?.[1]
  return sendText(reply.code(status ?? 422), JSON.stringify({ status: false, ...error, ...more }))
}

/** Returns the id of the key that must sign a push to this path. */
function readKeyId({ params }: FastifyRequest): string {
  // Both routes have this parameter, and the router provides strings.
  return logOrigin(Number((params as { serverid: string }).serverid))
}
