import { turn } from '../../base/turn.ts'
import { type HttpApp, HttpRefusal } from '../../http/index.ts'
import { requireScope, type TokenOwner } from '../../tokens/index.ts'
import { type LedgerService, requireChain } from '../node/service.ts'
import { filteredPages } from '../read/entry-search.ts'
import { blockPages } from '../read/pages.ts'
import { readConditions } from './conditions.ts'
import {
  blockListReply,
  parseServerId,
  requireRange,
  sendText,
  setItemHeaders,
  takeBody,
} from './replies.ts'
import {
  ChangesBody,
  ChangesReply,
  IdempotencyHeaders,
  isFlagSet,
  LedgersQuery,
  LedgersReply,
  operation,
  ServerIdReply,
} from './schemas.ts'

export function ledgersRoutes(app: HttpApp, ledger: LedgerService): void {
  app.get(
    '/api/serverid',
    operation('ledger', 'readServerId', {
      summary: 'The server id of this node',
      reply: ServerIdReply,
      config: { scope: 'token' },
    }),
    async () => ({ status: true as const, serverid: ledger.serverId }),
  )

  app.get(
    '/api/ledgers',
    operation('ledger', 'listBlocks', {
      summary: 'List the blocks of a chain; `offset` is a height',
      query: LedgersQuery,
      reply: LedgersReply,
      config: { scope: 'ledger:{db}', signed: true, lasting: true },
    }),
    async ({ query, caller }, reply) => {
      const range = requireRange(query)
      await turn(true)
      const { db } = query
      const { reader } = requireReadableChain(ledger, parseServerId(query.serverid), caller, db)
      const hasProof = isFlagSet(query.proof)
      if (hasProof && db !== undefined) throw partialProof()
      const pages = db === undefined ? blockPages(reader, range) : filteredPages(reader, range, db)
      return sendText(reply, blockListReply(pages, range, hasProof))
    },
  )

  app.post(
    '/api/ledgers',
    operation('ledger', 'recordChanges', {
      summary: 'Record several changes, even of different databases, in one block, or none of them',
      description:
        'Each entry requires the scope `db:{db}:write` for its database, or `db:{db}:admin` to create ' +
        'or delete the database.',
      body: ChangesBody,
      reply: ChangesReply,
      config: { scope: 'token', documentedHeaders: IdempotencyHeaders },
    }),
    async (request, reply) => {
      for (const { method, db } of request.body.entries) {
        requireScope(request.caller, { db, level: method.endsWith('_db') ? 'admin' : 'write' })
      }
      const conditions = readConditions(request)
      const recorded = await ledger.write.recordChanges(takeBody(request).entries, conditions)
      const { height, blockId, position, ids } = recorded
      setItemHeaders(reply, ledger, { position })
      return {
        status: true as const,
        block: { serverid: ledger.serverId, height, id: blockId },
        results: ids.map((id) => ({ id })),
      }
    },
  )
}

/**
 * Returns the chain of `serverId`, of which only the entries of `db` are read unless `db` is undefined. Scopes of
 * databases are about those of this node: a database of another node can have the same name.
 * Errors: 403; SERVERID_UNKNOWN.
 */
export function requireReadableChain(
  ledger: LedgerService,
  serverId: number,
  caller: TokenOwner | null,
  db: unknown,
): ReturnType<typeof requireChain> {
  if (serverId !== ledger.serverId && db !== undefined) requireScope(caller, 'ledger:read')
  return requireChain(ledger, serverId)
}

/** The commitments of a block count the entries of the other databases. */
function partialProof(): HttpRefusal {
  return new HttpRefusal(400, 'REQUEST_INVALID', 'proof is only for whole blocks, without db')
}
