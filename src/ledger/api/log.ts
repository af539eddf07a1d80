import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { FastifyRequest } from 'fastify'
import { toBase64 } from '../../base/base64.ts'
import { Type } from '../../base/shape.ts'
import { acceptsGzip, type HttpApp, HttpRefusal, readBody } from '../../http/index.ts'
import { LedgerError } from '../errors.ts'
import type { EntryPath, LedgerLog } from '../log/service.ts'
import type { LedgerState } from '../log/state.ts'
import { type LogWitness, WITNESS_REQUEST_BYTES_MAX } from '../log/witness.ts'
import { type LedgerService, requireChain } from '../node/service.ts'
import { requireRoom, VARY_BY_TOKEN } from './replies.ts'
import {
  ChainParams,
  Count,
  failures,
  flag,
  ItemParams,
  isFlagSet,
  okReply,
  operation,
  TokenQuery,
} from './schemas.ts'

const TileParams = Type.Object({
  ...ChainParams.properties,
  '*': Type.String({
    description:
      '`<level>/<index>[.p/<width>]` or `entries/<index>[.p/<width>]`, see C2SP tlog-tiles',
  }),
})

const ConsistencyQuery = Type.Object({
  ...TokenQuery.properties,
  from: Count('The smaller size'),
  to: Type.Optional(Count('The larger size; by default, the newest signed size')),
})

const ConsistencyReply = okReply({
  from: Type.Integer(),
  to: Type.Integer(),
  proof: Type.Array(Type.String({ description: 'In the order of RFC 6962' })),
})

const ProofQuery = Type.Object({
  ...TokenQuery.properties,
  position: Type.Optional(
    Type.String({
      pattern: '^(0|[1-9][0-9]{0,14})[.](0|[1-9][0-9]{0,4})$',
      description:
        '`<height>.<index>` of an entry of the item; by default, of its current revision',
    }),
  ),
  current: flag(
    'Prove instead which revision of the item is the newest, or that there is no such item or database',
  ),
})

const TextReply = {
  description: 'Text',
  content: { 'text/plain': { schema: Type.String() } },
}

const BytesReply = {
  description: 'Bytes',
  content: {
    'application/octet-stream': {
      schema: Type.Unsafe<Uint8Array>(Type.String({ format: 'binary' })),
    },
  },
}

/** Media type of the size that a witness has cosigned (C2SP tlog-witness). */
const SIZE_TYPE = 'text/x.tlog.size'
const SizeReply = {
  description: 'Size of the last cosigned checkpoint',
  content: { [SIZE_TYPE]: { schema: Type.String() } },
}

const TEXT_TYPE = 'text/plain; charset=utf-8'
const BYTES_TYPE = 'application/octet-stream'
/** Allows caching for only a second, because a newer checkpoint may be signed at any time. */
const CACHE_BRIEFLY = 'max-age=1'
const CACHE_FOREVER = 'max-age=31536000, immutable'
/** Access rule of routes that peers read: a peer that signs its request needs no token. */
const READ_BY_PEERS = { scope: 'ledger:read', signed: true } as const
const compressed = promisify(gzip)

/** Mounts the routes of the log, with which clients can verify the ledger. */
export function logRoutes(app: HttpApp, ledger: LedgerService): void {
  const requireLog = ({ serverid }: { serverid: string }) =>
    requireChain(ledger, Number(serverid)).log
  app.get(
    '/api/ledgers/:serverid/checkpoint',
    operation('log', 'readCheckpoint', {
      summary: 'The signed size and root hash of the log (C2SP tlog-checkpoint)',
      params: ChainParams,
      reply: TextReply,
      config: READ_BY_PEERS,
    }),
    async ({ params }, reply) => {
      const note = await requireLog(params).checkpoint()
      return reply
        .header('cache-control', CACHE_BRIEFLY)
        .header('vary', VARY_BY_TOKEN)
        .type(TEXT_TYPE)
        .send(note)
    },
  )

  app.get(
    '/api/ledgers/:serverid/vkey',
    operation('log', 'readVerifierKey', {
      summary: 'The key that verifies checkpoints (C2SP signed-note); pin it once',
      params: ChainParams,
      reply: TextReply,
      config: { scope: 'ledger:read' },
    }),
    async ({ params }, reply) => {
      return reply.type(TEXT_TYPE).send(`${requireLog(params).verifierKey}\n`)
    },
  )

  app.get(
    '/api/ledgers/:serverid/tile/*',
    operation('log', 'readTile', {
      summary: 'Hashes of the log, or its entries, 256 per tile (C2SP tlog-tiles)',
      params: TileParams,
      reply: BytesReply,
      config: READ_BY_PEERS,
    }),
    async (request, reply) => {
      const { params } = request
      const tile = await requireLog(params).tile(params['*'])
      reply
        .header('cache-control', CACHE_FOREVER)
        .header('vary', `${VARY_BY_TOKEN}, accept-encoding`)
        .type(BYTES_TYPE)
      // Compresses only tiles of headers, because hashes would not get smaller.
      if (!params['*'].startsWith('entries/') || !acceptsGzip(request)) return reply.send(tile)
      return reply.header('content-encoding', 'gzip').send(await compressed(tile))
    },
  )
  stateRoute(app, ledger)
  proofRoutes(app, ledger)
}

/** Returns the signed state of a chain. Errors: SERVERID_UNKNOWN for the chain of a mirror. */
export function requireSignedState({ state }: LedgerLog): LedgerState {
  if (state !== null) return state
  throw new LedgerError('SERVERID_UNKNOWN', 'this node signs only the state of its own chain')
}

function stateRoute(app: HttpApp, ledger: LedgerService): void {
  app.get(
    '/api/ledgers/:serverid/state',
    operation('log', 'readState', {
      summary: 'The signed root of the current databases and items, for `proof?current=1`',
      params: ChainParams,
      reply: TextReply,
      config: READ_BY_PEERS,
    }),
    async ({ params }, reply) => {
      const note = await requireSignedState(
        requireChain(ledger, Number(params.serverid)).log,
      ).note()
      return reply
        .header('cache-control', CACHE_BRIEFLY)
        .header('vary', VARY_BY_TOKEN)
        .type(TEXT_TYPE)
        .send(note)
    },
  )
}

function proofRoutes(app: HttpApp, ledger: LedgerService): void {
  app.get(
    '/api/ledgers/:serverid/consistency',
    operation('log', 'proveConsistency', {
      summary: 'Prove that the log at one size is a prefix of the log at a larger size (RFC 6962)',
      params: ChainParams,
      query: ConsistencyQuery,
      reply: ConsistencyReply,
      config: READ_BY_PEERS,
    }),
    async ({ params, query }) => {
      const { from, to, proof } = await requireChain(
        ledger,
        Number(params.serverid),
      ).log.consistency(query.from, query.to ?? null)
      return { status: true as const, from, to, proof: proof.map(toBase64) }
    },
  )

  app.get(
    '/api/:db/:id/proof',
    operation('log', 'proveEntry', {
      summary: 'A proof of an entry of an item, verifiable with the key alone (C2SP tlog-proof)',
      params: ItemParams,
      query: ProofQuery,
      reply: TextReply,
      config: { scope: 'db:{db}:read' },
    }),
    async ({ params: { db, id }, query: { position, current }, server }, reply) => {
      const isCurrent = isFlagSet(current)
      if (isCurrent && position !== undefined) {
        const message =
          'position and current cannot be combined: current proves the newest revision'
        throw new HttpRefusal(400, 'REQUEST_INVALID', message)
      }
      await requireRoom(server, ledger, db, id)
      const file = isCurrent
        ? await requireSignedState(ledger.log).proof(db, id)
        : await ledger.log.proof(db, id, position === undefined ? null : parseEntryPath(position))
      const name = isCurrent ? 'item.state-proof' : 'entry.tlog-proof'
      return reply
        .header('content-disposition', `attachment; filename="${name}"`)
        .header('cache-control', 'no-cache')
        .type(TEXT_TYPE)
        .send(file)
    },
  )
}

const WITNESS_PATH = '/api/ledgers/witness'

/** Mounts the routes of this node as a witness. They need no token, because each checkpoint is signed by its log. */
export function witnessRoutes(app: HttpApp, witness: LogWitness): void {
  app.get(
    `${WITNESS_PATH}/vkey`,
    operation('log', 'readWitnessKey', {
      summary: 'The key of this node as a witness (C2SP tlog-cosignature)',
      query: null,
      reply: TextReply,
      config: { scope: 'public' },
    }),
    async (_, reply) => reply.type(TEXT_TYPE).send(`${await witness.verifierKey()}\n`),
  )

  // This route has its own Fastify scope without a body parser, because clients send any Content-Type.
  app.register(async (scope: HttpApp) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', async (request: FastifyRequest) => readBody(request))
    scope.post(
      `${WITNESS_PATH}/add-checkpoint`,
      {
        bodyLimit: WITNESS_REQUEST_BYTES_MAX,
        ...operation('log', 'addCheckpoint', {
          summary:
            'Cosign a checkpoint that continues the last cosigned checkpoint (C2SP tlog-witness)',
          query: null,
          reply: TextReply,
          others: { 409: SizeReply, ...failures },
          config: { scope: 'public' },
        }),
      },
      async (request, reply) => {
        const body = request.body instanceof Buffer ? request.body : Buffer.alloc(0)
        const answer = await witness.addCheckpoint(body)
        if ('line' in answer) return reply.type(TEXT_TYPE).send(answer.line)
        return reply.code(409).type(SIZE_TYPE).send(`${answer.conflict}\n`)
      },
    )
  })
}

/** Parses a position. The schema has already checked the format. */
function parseEntryPath(position: string): EntryPath {
  const [height = 0, index = 0] = position.split('.').map(Number)
  return { height, index }
}
