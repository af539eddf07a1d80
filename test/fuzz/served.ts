// Starts listeners in their own processes, and describes the expected replies of each.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import fc from 'fast-check'
import { type Daicho, startProgram } from '../support/program.ts'
import type { RawReply } from '../support/raw-socket.ts'

/** The attacked listeners. The names are those of `serve --only`. */
export const LISTENERS = ['ledger', 'gateway', 'converter', 'rates', 'samples'] as const
export type ListenerName = (typeof LISTENERS)[number]

export interface Served {
  readonly url: string
  readonly daicho: Daicho
  /** Returns resident memory in MiB and the number of open files, or null if the system does not report them. */
  size(): { readonly memoryMiB: number; readonly files: number } | null
}

const PORTS = ['--port', '--gateway-port', '--converter-port', '--rates-port', '--sample-port']

/** Starts `daicho serve --only <name>` with its data in `folder`. */
export async function serve(name: ListenerName, folder: string): Promise<Served> {
  const ports = PORTS.flatMap((flag) => [flag, '0'])
  const variables = { SYSTEM_FOLDER: folder, LOG_LEVEL: 'error', RATES_SOURCES: 'snapshot' }
  const daicho = startProgram(['serve', '--only', name, '--json', ...ports], variables)
  const url: string = JSON.parse(await daicho.firstLine)[name]
  const place = `/proc/${daicho.child.pid}`
  return {
    url,
    daicho,
    size() {
      if (!existsSync(place)) return null
      const kilobytes = /VmRSS:\s*(\d+)/.exec(readFileSync(`${place}/status`, 'utf8'))?.[1]
      const files = readdirSync(`${place}/fd`).length
      return { memoryMiB: Math.round(Number(kilobytes) / 1024), files }
    },
  }
}

/** Properties of a listener that an attack needs. */
interface Plan {
  /** Path of the listener's OpenAPI document. */
  readonly document: string
  /** Paths that the attack does not request, because their replies never end. */
  readonly without: readonly string[]
  /** Values for path parameters, by name. They are few, so that requests use the same data. */
  readonly known: Record<string, fc.Arbitrary<string>>
  /** Returns whether a reply with a status of 400 or more has the component's error format. */
  readonly isRefusal: (reply: RawReply) => boolean
}

const isJson = ({ headers }: RawReply) =>
  headers.get('content-type')?.toLowerCase() === 'application/json; charset=utf-8'

/** Returns whether the body is JSON with `"status": false`. */
function isStatusFalse(reply: RawReply): boolean {
  return isJson(reply) && JSON.parse(reply.body).status === false
}

const named = { limit: fc.constantFrom('1', '2', '10'), offset: fc.constantFrom('0', '1') }

export const PLANS: Readonly<Record<ListenerName, Plan>> = {
  ledger: {
    document: '/doc/json',
    without: ['/api/ledgers/{serverid}/changes'],
    known: {
      ...named,
      db: fc.constantFrom('a', 'b', '台帳'),
      id: fc.constantFrom('x', 'y', '🍎'),
      name: fc.constantFrom('n', 'ü.txt'),
    },
    isRefusal: isStatusFalse,
  },
  gateway: {
    document: '/explorer/openapi.json',
    without: [],
    known: {
      id: fc.constantFrom('a', 'b', '🍎'),
      tradingSymbol: fc.constantFrom('a', 'b', '🍎'),
      tradeId: fc.constantFrom('a', 'b', '🍎'),
      owner: fc.constantFrom('a', 'resource:org.acme.mynetwork.Trader#a'),
      newOwner: fc.constantFrom('a', 'b'),
      commodity: fc.constantFrom('a', 'b'),
      filter: fc.constantFrom(
        '{"limit":2}',
        '{"where":{"quantity":{"lt":5}}}',
        '{"include":"resolve"}',
      ),
    },
    isRefusal: (reply) => {
      if (!isJson(reply)) return false
      const { error } = JSON.parse(reply.body)
      return error.statusCode === reply.status && /^[A-Z0-9_]+$/.test(error.code)
    },
  },
  converter: { document: '/json', without: [], known: {}, isRefusal: isStatusFalse },
  rates: {
    document: '/doc/json',
    without: [],
    known: { ...named, pair: fc.constantFrom('USDJPY', 'EURUSD') },
    isRefusal: isStatusFalse,
  },
  samples: {
    document: '/doc/json',
    without: [],
    known: { id: fc.constantFrom('1', 'demo') },
    isRefusal: (reply) => {
      const isDoor = reply.status === 401 && reply.body === 'Authentication required.'
      return isDoor || (isJson(reply) && JSON.parse(reply.body).success === false)
    },
  },
}
