import { toBase64 } from '../../base/base64.ts'
import type { HttpApp } from '../../http/index.ts'
import { Failure, ItemParams, TokenQuery } from '../schemas.ts'
import {
  BytesReply,
  ConsistencyQuery,
  ConsistencyReply,
  LogParams,
  ProofQuery,
  TextReply,
  TileParams,
} from './schemas.ts'
import type { EntryPlace, LedgerLog } from './service.ts'

/** The logs that are kept here. */
export interface Logs {
  /** The node's own. */
  readonly log: LedgerLog
  /** That of `serverId`, as a path spells it. Errors: SERVERID_UNKNOWN. */
  logOf(serverId: string): LedgerLog
}

const TEXT_TYPE = 'text/plain; charset=utf-8'
const BYTES_TYPE = 'application/octet-stream'
/** What may be seen depends on the token, where one is needed. */
const VARY = 'authorization, x-access-token'
/** A newer one may be signed at any time. */
const SHORTLY = 'max-age=1'
/** A tile never changes. */
const FOR_EVER = 'max-age=31536000, immutable'
/** What a mirror is made of: a peer that signs its request needs no token. */
const READ_BY_PEERS = { scope: 'ledger:read', signed: true } as const
const failures = { '4xx': Failure, '5xx': Failure }
const tags = ['log']

/** Mounts what proves the ledger to others on `app`. */
export function logRoutes(app: HttpApp, logs: Logs): void {
  headRoutes(app, logs)
  tileRoute(app, logs)
  proofRoutes(app, logs)
}

function headRoutes(app: HttpApp, logs: Logs): void {
  const text = { params: LogParams, querystring: TokenQuery }
  app.get(
    '/api/ledgers/:serverid/checkpoint',
    {
      config: READ_BY_PEERS,
      schema: {
        tags,
        summary: 'The signed size and root of the log (C2SP tlog-checkpoint)',
        ...text,
        response: { 200: TextReply, ...failures },
      },
    },
    async ({ params }, reply) => {
      const log = logs.logOf(params.serverid)
      const note = await log.checkpoint()
      return reply.header('cache-control', SHORTLY).header('vary', VARY).type(TEXT_TYPE).send(note)
    },
  )

  app.get(
    '/api/ledgers/:serverid/vkey',
    {
      config: { scope: 'ledger:read' },
      schema: {
        tags,
        summary: 'The key that verifies checkpoints (C2SP signed-note); pin it once',
        ...text,
        response: { 200: TextReply, ...failures },
      },
    },
    async ({ params }, reply) => {
      const log = logs.logOf(params.serverid)
      return reply.type(TEXT_TYPE).send(`${log.verifierKey}\n`)
    },
  )
}

function tileRoute(app: HttpApp, logs: Logs): void {
  app.get(
    '/api/ledgers/:serverid/tile/*',
    {
      config: READ_BY_PEERS,
      schema: {
        tags,
        summary: 'Hashes of the log, or its entries, 256 at a time (C2SP tlog-tiles)',
        params: TileParams,
        querystring: TokenQuery,
        response: { 200: BytesReply, ...failures },
      },
    },
    async ({ params }, reply) => {
      const log = logs.logOf(params.serverid)
      const tile = await log.tile(params['*'])
      return reply
        .header('cache-control', FOR_EVER)
        .header('vary', VARY)
        .type(BYTES_TYPE)
        .send(tile)
    },
  )
}

function proofRoutes(app: HttpApp, logs: Logs): void {
  app.get(
    '/api/ledgers/:serverid/consistency',
    {
      config: READ_BY_PEERS,
      schema: {
        tags,
        summary: 'Proves that the log of one size continues the log of a smaller one (RFC 6962)',
        params: LogParams,
        querystring: ConsistencyQuery,
        response: { 200: ConsistencyReply, ...failures },
      },
    },
    async ({ params, query }) => {
      const log = logs.logOf(params.serverid)
      const { from, to, proof } = await log.consistency(query.from, query.to ?? null)
      return { status: true as const, from, to, proof: proof.map(toBase64) }
    },
  )

  app.get(
    '/api/:db/:id/proof',
    {
      config: { scope: 'db:{db}:read' },
      schema: {
        tags,
        summary:
          'A file that proves an entry of an item with nothing but the key (C2SP tlog-proof)',
        params: ItemParams,
        querystring: ProofQuery,
        response: { 200: TextReply, ...failures },
      },
    },
    async ({ params: { db, id }, query: { position } }, reply) => {
      const file = await logs.log.proof(db, id, position === undefined ? null : placeIn(position))
      return reply
        .header('content-disposition', 'attachment; filename="entry.tlog-proof"')
        .header('cache-control', 'no-cache')
        .type(TEXT_TYPE)
        .send(file)
    },
  )
}

/** The schema has seen to the form. */
function placeIn(position: string): EntryPlace {
  const [height = 0, index = 0] = position.split('.').map(Number)
  return { height, index }
}
