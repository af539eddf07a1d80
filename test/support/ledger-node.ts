import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { expect, onTestFinished } from 'vitest'
import type { Clock } from '../../src/base/clock.ts'
import { dashboardFolder } from '../../src/dashboard/index.ts'
import { type HttpLimits, readPageFiles, startListener } from '../../src/http/index.ts'
import { type OpenLedgerOptions, openLedger } from '../../src/ledger/core.ts'
import {
  type LedgerComponentDeps,
  type LedgerService,
  ledgerComponent,
} from '../../src/ledger/index.ts'
import {
  openStoreReader,
  type Verification,
  verifyBlobs,
  verifyStore,
} from '../../src/storage/index.ts'
import type { TokenService } from '../../src/tokens/index.ts'
import { databaseOf, locationOf } from './engine.ts'
import { exchange, type Reply } from './exchange.ts'

export type { Reply }

/** A ledger in this process, on a real socket. */
export interface LedgerNode {
  readonly url: string
  readonly service: LedgerService
  close(): Promise<void>
  /** Sends a request. A body is sent as JSON unless it is text or bytes. */
  send(
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
  ): Promise<Reply>
}

/** Credentials of the dashboard in tests. */
export const CREDENTIALS = { name: 'keeper', password: 'brass: key' }

/** A clock that tests set by hand. */
export class HandClock implements Clock {
  time: number

  constructor(time = 1_800_000_000_000) {
    this.time = time
  }

  now(): number {
    return this.time
  }
}

/** Creates a folder that is removed after the test. Concurrent tests must pass their own `finished`. */
export function temporaryFolder(finished: (remove: () => void) => void = onTestFinished): string {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-test-'))
  finished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

export interface LedgerNodeOptions {
  /** Whether to serve the dashboard, which must be built. */
  readonly dashboard?: boolean
  /** Data folder. Null or absent: the node keeps its data in memory. */
  readonly folder?: string | null
  readonly clock?: Clock
  readonly publicHosts?: readonly string[]
  readonly allowedOrigins?: readonly string[]
  readonly limits?: Partial<HttpLimits>
  readonly schedule?: OpenLedgerOptions['schedule']
  readonly feedBounds?: OpenLedgerOptions['feedBounds']
  readonly attachmentBytesMax?: number
  readonly peers?: OpenLedgerOptions['peers']
  readonly witnesses?: OpenLedgerOptions['witnesses']
  readonly witnessOf?: OpenLedgerOptions['witnessOf']
  readonly verification?: OpenLedgerOptions['verification']
  /** Tokens that the node requires. Default: none. */
  readonly tokens?: TokenService
  readonly signIn?: LedgerComponentDeps['signIn']
  /** Receives each log line of level `debug` and above. */
  readonly log?: (line: string) => void
}

/** Verifies the store of the node with this folder. The node may be running. */
export async function verifyFolder(folder: string): Promise<Verification> {
  const location = await locationOf(folder)
  const store = await openStoreReader(location, { frozen: true })
  try {
    const verification = await verifyStore(store)
    if (verification.finding !== null) return verification
    const { finding } = await verifyBlobs(store, location)
    return { ...verification, finding }
  } finally {
    await store.close()
  }
}

/** Starts a node, which the caller closes. */
export async function startLedgerNode(options: LedgerNodeOptions = {}): Promise<LedgerNode> {
  const { folder = null, clock = new HandClock(), log, attachmentBytesMax } = options
  const logger =
    log === undefined
      ? pino({ level: 'silent' })
      : pino({ level: 'debug' }, { write: (line: string) => log(line) })
  const ledger = await openLedger({
    folder,
    store: await databaseOf(folder),
    clock,
    authorRequired: options.tokens !== undefined,
    ...(options.schedule === undefined ? {} : { schedule: options.schedule }),
    ...(options.feedBounds === undefined ? {} : { feedBounds: options.feedBounds }),
    ...(options.peers === undefined ? {} : { peers: options.peers }),
    ...(options.witnesses === undefined ? {} : { witnesses: options.witnesses }),
    ...(options.witnessOf === undefined ? {} : { witnessOf: options.witnessOf }),
    ...(options.verification === undefined ? {} : { verification: options.verification }),
    ...(attachmentBytesMax === undefined ? {} : { attachmentBytesMax }),
  })
  const component = ledgerComponent({
    ledger: ledger.service,
    credentials: CREDENTIALS,
    page: options.dashboard === true ? readPageFiles(dashboardFolder) : null,
    tokens: options.tokens ?? null,
    signIn: options.signIn ?? null,
    logger,
    clock,
    monotonic: clock,
    version: '0.0.0',
    close: () => ledger.close(),
  })
  const limits = { ...component.limits, ...options.limits }
  const listener = await startListener(
    { ...component, limits },
    {
      host: '127.0.0.1',
      port: 0,
      logger,
      publicHosts: new Set(options.publicHosts ?? []),
      allowedOrigins: new Set(options.allowedOrigins ?? []),
    },
  )
  return {
    url: listener.url,
    service: ledger.service,
    close: () => listener.close(),
    send: (method, path, body, headers = {}) =>
      exchange(listener.url + path, method, body, headers),
  }
}

/** Returns the folder of a stopped node with three items in the database `fruit`. One of the items was changed. */
export async function usedNodeFolder(): Promise<string> {
  const folder = temporaryFolder()
  const node = await startLedgerNode({ folder })
  await node.send('POST', '/api/fruit')
  await node.send('POST', '/api/fruit', [{ id: 'fig' }, { id: 'plum' }, { id: 'pear' }])
  await node.send('POST', '/api/fruit/fig', { ripe: true })
  await node.close()
  return folder
}

let databases = 0

/** Creates a database with a name that is new in this test file, and returns the name. */
export async function freshDatabase(node: LedgerNode): Promise<string> {
  databases += 1
  const name = `db${databases}`
  expect((await node.send('POST', `/api/${name}`)).text).toBe('{"status":true}')
  return name
}
