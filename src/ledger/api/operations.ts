import { Type } from '../../base/shape.ts'
import { type HttpApp, HttpRefusal } from '../../http/index.ts'
import type { Activity } from '../node/activity.ts'
import type { ScheduledVerification, VerificationState } from '../node/scheduled-verification.ts'
import { findOutage, type LedgerService } from '../node/service.ts'
import { sendText } from './replies.ts'
import { DoneReply, ErrorReply, okReply, operation, TokenQuery } from './schemas.ts'

const db = Type.String({ documentedPattern: '^[^/]+$', description: 'Name of the database' })
const path = Type.String({
  documentedPattern: '^[^.]+([.][^.]+){0,7}$',
  description: 'Member names, separated by dots',
})

const INDEX_EXAMPLES = { examples: [{ db: 'fruit', path: 'price' }] }
const IndexBody = Type.Object({ db, path }, { additionalProperties: false, ...INDEX_EXAMPLES })
/** Query parameters that can replace the body. */
const RemoveIndexQuery = Type.Object({
  ...TokenQuery.properties,
  db: Type.Optional(db),
  path: Type.Optional(path),
})
const RemoveIndexBody = Type.Union([IndexBody, Type.Null()], INDEX_EXAMPLES)

const IndexesReply = okReply({
  indexes: Type.Array(
    Type.Object({
      db,
      path,
      state: Type.Union([Type.Literal('building'), Type.Literal('ready')]),
      done: Type.Integer({
        description: 'Blocks indexed so far, counted from the creation of the database',
      }),
      total: Type.Integer({
        description: 'Blocks to index, counted from the creation of the database',
      }),
    }),
  ),
})

const unlessTokens = 'absent if the node requires tokens'
const count = (unit: string) =>
  Type.Optional(Type.Integer({ description: `Verified ${unit}; ${unlessTokens}` }))
const counts = { blocks: count('blocks'), entries: count('entries') }
const ended = {
  time: Type.Integer({ description: 'End of the verification, milliseconds since the Unix epoch' }),
  last_passed: Type.Optional(
    Type.Integer({
      description:
        'End of the last verification that passed, milliseconds since the Unix epoch; ' +
        'absent if none has passed since the start of the node',
    }),
  ),
  seconds: Type.Number(),
}
const detail = (text: string) =>
  Type.Optional(Type.String({ description: `${text}; ${unlessTokens}` }))
const VerificationReply = Type.Union(
  [
    Type.Object({ result: Type.Literal('pending') }),
    Type.Object({ result: Type.Literal('passed'), ...ended, ...counts }),
    Type.Object({
      ...{ result: Type.Literal('failed'), ...ended, ...counts },
      finding: detail('The first difference'),
    }),
    Type.Object({ result: Type.Literal('unfinished'), ...ended, reason: detail('The cause') }),
  ],
  { description: 'The last scheduled verification; absent unless VERIFY_EVERY is set' },
)

const ReadyReply = okReply({
  frozen: Type.Optional(
    Type.Integer({
      description:
        'Number of chains whose mirror is frozen, because the key has signed two histories; absent if 0',
    }),
  ),
  verification: Type.Optional(VerificationReply),
})

const PATH = '/api/config/indexes'

export function indexRoutes(app: HttpApp, { read, write }: LedgerService): void {
  app.get(
    PATH,
    operation('operations', 'listIndexes', {
      summary: 'List the indexes of the databases of this node',
      reply: IndexesReply,
      config: { scope: 'node:admin' },
    }),
    async () => {
      const indexes = await read.indexes()
      return {
        status: true as const,
        indexes: indexes.map(({ db, path, isReady, done, total }) => {
          const state = isReady ? ('ready' as const) : ('building' as const)
          return { db, path, state, done, total }
        }),
      }
    },
  )

  app.post(
    PATH,
    operation('operations', 'addIndex', {
      summary: 'Declare an index, which is then built in the background',
      body: IndexBody,
      reply: DoneReply,
      config: { scope: 'node:admin' },
    }),
    async ({ body }) => {
      await write.changeIndex('add', body)
      return { status: true as const }
    },
  )

  app.delete(
    PATH,
    operation('operations', 'removeIndex', {
      summary: 'Remove the index that the body or the query specifies',
      query: RemoveIndexQuery,
      body: RemoveIndexBody,
      reply: DoneReply,
      config: { scope: 'node:admin' },
    }),
    async ({ body, query: { db, path } }) => {
      const named = db === undefined || path === undefined ? null : { db, path }
      const name = body ?? named
      if (name === null) throw new HttpRefusal(400, 'REQUEST_INVALID', 'db and path are required')
      await write.changeIndex('remove', name)
      return { status: true as const }
    },
  )
}

const ActivityReply = okReply({
  since: Type.Integer({ description: 'Start of the process, milliseconds since the Unix epoch' }),
  now: Type.Integer({ description: 'Time of the node, milliseconds since the Unix epoch' }),
  store_bytes: Type.Integer({ description: 'Current size of the store' }),
  minutes: Type.Array(
    Type.Object({
      time: Type.Integer({ description: 'Start of the minute, milliseconds since the Unix epoch' }),
      blocks: Type.Integer(),
      entries: Type.Integer(),
      bytes: Type.Integer({ description: 'Bytes of the entries' }),
      store_bytes: Type.Union([Type.Integer(), Type.Null()], {
        description: 'Size of the store at the first block of the minute',
      }),
    }),
  ),
})

/** Mounts the route that lists the changes of the last 24 hours by minute. */
export function activityRoutes(app: HttpApp, ledger: LedgerService, activity: Activity): void {
  app.get(
    '/api/config/activity',
    operation('operations', 'readActivity', {
      summary: 'Read the changes that this process stored in the last 24 hours, by minute',
      description:
        'Minutes without a change are omitted. The list begins with the start of the process.',
      reply: ActivityReply,
      config: { scope: 'node:admin' },
    }),
    async () => {
      const { fileBytes, walBytes } = await ledger.store.diskUsage()
      return {
        status: true as const,
        since: activity.since,
        now: activity.now,
        store_bytes: fileBytes + walBytes,
        minutes: activity
          .minutes()
          .map(({ storeBytes, ...minute }) => ({ ...minute, store_bytes: storeBytes })),
      }
    },
  )
}

/** Returns `verification` for the reply of `/readyz`; without details if the node is guarded. */
function verificationReply({ state, lastPassed }: ScheduledVerification, isGuarded: boolean) {
  const shown = isGuarded ? publicPart(state) : state
  return lastPassed === null ? shown : { ...shown, last_passed: lastPassed }
}

/** Returns the members of `state` that reveal no item, no file and no number of entries. */
function publicPart(state: VerificationState) {
  if (state.result === 'pending') return state
  const { result, time, seconds } = state
  return { result, time, seconds }
}

/**
 * Mounts `/healthz` (whether the process responds) and `/readyz` (whether the node can write and read). Neither route
 * needs a token, so a node that requires tokens (`isGuarded`) shows no details of its verification.
 */
export function healthRoutes(app: HttpApp, ledger: LedgerService, isGuarded: boolean): void {
  app.get(
    '/healthz',
    operation('operations', 'checkHealth', {
      summary: 'Check that the process responds',
      query: null,
      reply: DoneReply,
      others: {},
      config: { scope: 'public' },
    }),
    async () => ({ status: true as const }),
  )
  app.get(
    '/readyz',
    operation('operations', 'checkReadiness', {
      summary: 'Check that changes can be written and that reads succeed',
      query: null,
      reply: ReadyReply,
      others: { 503: ErrorReply },
      config: { scope: 'public' },
    }),
    async (_request, reply) => {
      const cause = findOutage(ledger)
      if (cause !== null) throw new HttpRefusal(503, cause.code, cause.message, { cause })
      const frozen = ledger.mirrors.frozenCount
      const { verification } = ledger
      const ready = {
        status: true,
        ...(frozen === 0 ? {} : { frozen }),
        ...(verification === null
          ? {}
          : { verification: verificationReply(verification, isGuarded) }),
      }
      return sendText(reply, JSON.stringify(ready))
    },
  )
}
