import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { setTimeout as rest } from 'node:timers/promises'
import { type WebSocket, WebSocketServer } from 'ws'
import { HttpRefusal } from '../http/index.ts'
import {
  type BusinessNetwork,
  type Caller,
  type EmittedEvents,
  isA,
  isRevoked,
  NetworkError,
  type TypeDeclaration,
} from '../network/index.ts'
import { callerOf, type Doors } from './callers.ts'
import { EventSocket } from './event-socket.ts'
import { type BlockEvents, type ReplaySource, Replays } from './replays.ts'
import type { GatewayService } from './service.ts'

/** Connections that listen for events at most. */
const LISTENERS_MAX = 2_000
/** Bytes of a message from a client, to which nobody listens. */
const MESSAGE_BYTES_MAX = 1_024

/** What connections for events are made of. */
export interface EventSocketsDeps {
  readonly service: GatewayService
  readonly doors: Doors
  /** Calls back every 30 seconds, until what it returns is called. */
  readonly everyHalfMinute: (tick: () => void) => () => void
}

/** Those who listen to one network on behalf of one caller: rules are asked once for all of them. */
interface Audience extends ReplaySource {
  readonly network: BusinessNetwork
  readonly caller: Caller
  readonly sockets: Set<EventSocket>
  told: number
  /** Ends listening to the network. */
  leave: () => void
  /** What is being judged, one after the other. */
  last: Promise<void>
}

/** The events of networks over WebSocket (RFC 6455), on any path of the gateway. */
export class EventSockets {
  readonly #deps: EventSocketsDeps
  readonly #server = new WebSocketServer({
    noServer: true,
    maxPayload: MESSAGE_BYTES_MAX,
    perMessageDeflate: false,
    clientTracking: false,
  })
  /** By network and caller. */
  readonly #audiences = new Map<string, Audience>()
  readonly #replays = new Replays(rest)
  readonly #stopPings: () => void
  #count = 0
  #closed = false

  constructor(deps: EventSocketsDeps) {
    this.#deps = deps
    // Thrown inside of `handleUpgrade`; by itself it answers in a form of its own.
    this.#server.on('wsClientError', ({ message }) => {
      throw new HttpRefusal(400, 'HANDSHAKE_INVALID', message)
    })
    this.#stopPings = deps.everyHalfMinute(() => {
      for (const { sockets } of this.#audiences.values()) {
        for (const socket of sockets) socket.ping()
      }
    })
  }

  /** Takes a connection that asks for WebSocket. Errors: what refuses it. */
  async upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    if (this.#closed) throw new HttpRefusal(503, 'CLOSING', 'the gateway is closing')
    if (request.headers.upgrade?.toLowerCase() !== 'websocket') {
      throw new HttpRefusal(400, 'UPGRADE_UNKNOWN', 'the only protocol to upgrade to is websocket')
    }
    if (this.#count >= LISTENERS_MAX) {
      throw new HttpRefusal(503, 'LISTENERS_TOO_MANY', 'too many connections listen for events')
    }
    const url = new URL(request.url ?? '/', 'http://gateway')
    const network = this.#networkAt(url.pathname)
    const token = url.searchParams.get('access_token')
    const bearer = token === null ? {} : { authorization: `Bearer ${token}` }
    const caller = await callerOf({ ...bearer, ...request.headers }, network, this.#deps.doors)
    const since = sinceIn(url.searchParams)
    const wants = typesIn(url.searchParams, network)
    this.#count += 1
    socket.once('close', () => {
      this.#count -= 1
    })
    this.#server.handleUpgrade(request, socket, head, (opened) => {
      const listening = new EventSocket(opened, socket, { wants, isLive: since === null })
      const audience = this.#join(opened, listening, network, caller)
      if (since !== null) this.#replays.add(audience, listening, since)
    })
  }

  /** Closes all connections. */
  close(): void {
    this.#closed = true
    this.#stopPings()
    for (const { sockets } of this.#audiences.values()) {
      for (const socket of sockets) socket.close(GOING_AWAY, 'the gateway is closing')
    }
  }

  /** Closes the connections of a network that was removed. */
  closeNetwork(name: string): void {
    for (const { network, sockets } of this.#audiences.values()) {
      if (network.definition.name !== name) continue
      for (const socket of sockets) socket.close(GOING_AWAY, 'the network was removed')
    }
  }

  #networkAt(path: string): BusinessNetwork {
    const { service } = this.#deps
    const [, first = ''] = path.split('/')
    return service.serve(service.isNamed(first) ? first : null).network
  }

  #join(
    opened: WebSocket,
    socket: EventSocket,
    network: BusinessNetwork,
    caller: Caller,
  ): Audience {
    const audience = this.#audienceOf(network, caller)
    audience.sockets.add(socket)
    opened.on('close', () => {
      audience.sockets.delete(socket)
      if (audience.sockets.size > 0) return
      audience.leave()
      this.#audiences.delete(keyOf(network, caller))
    })
    return audience
  }

  #audienceOf(network: BusinessNetwork, caller: Caller): Audience {
    const key = keyOf(network, caller)
    const known = this.#audiences.get(key)
    if (known !== undefined) return known
    const sockets = new Set<EventSocket>()
    const audience: Audience = {
      network,
      caller,
      sockets,
      told: 0,
      leave: () => {},
      last: Promise.resolve(),
      async read(height) {
        const { emitted, next } = await network.events.recordedAt(height)
        const blocks: BlockEvents[] = []
        for (const each of emitted) blocks.push(await receivable(network, caller, each))
        return { blocks, next }
      },
    }
    audience.leave = network.events.listen((emitted) => {
      audience.last = audience.last.then(() => tell(audience, emitted)).catch(() => {})
    })
    this.#audiences.set(key, audience)
    return audience
  }
}

const GOING_AWAY = 1_001
const POLICY_VIOLATION = 1_008

async function tell(audience: Audience, emitted: EmittedEvents): Promise<void> {
  const { network, caller, sockets } = audience
  if (await isRevoked(network, caller)) {
    for (const socket of sockets) socket.close(POLICY_VIOLATION, 'the identity has been revoked')
    return
  }
  const block = await receivable(network, caller, emitted)
  audience.told += 1
  for (const socket of sockets) socket.tell(block)
}

/** The events that the caller receives, as they are sent. */
async function receivable(
  network: BusinessNetwork,
  caller: Caller,
  { height, events }: EmittedEvents,
): Promise<BlockEvents> {
  const allowed = await network.receivableEvents(events, caller)
  return { height, frames: allowed.map(({ type, text }) => ({ type, bytes: Buffer.from(text) })) }
}

function keyOf({ definition }: BusinessNetwork, { participant, identity }: Caller): string {
  return JSON.stringify([definition.name, participant.type, participant.id, identity])
}

/** `?since=<height>`; null without one. Errors: 400. */
function sinceIn(query: URLSearchParams): number | null {
  const text = query.get('since')
  if (text === null) return null
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new HttpRefusal(400, 'REQUEST_INVALID', 'since is the height of a block, from 0')
}

/** `?types=a,b`: names of event types, short or qualified; a type's subtypes are wanted too. */
function typesIn(query: URLSearchParams, network: BusinessNetwork): (type: string) => boolean {
  const text = query.get('types')
  if (text === null) return () => true
  const { model } = network.definition
  const events = [...model.types()].filter(({ kind }) => kind === 'event')
  const wanted: TypeDeclaration[] = text.split(',').map((name) => {
    const found = events.find((type) => type.qualifiedName === name || type.name === name)
    if (found !== undefined) return found
    throw new NetworkError('TYPE_NOT_FOUND', `there is no event ${name.slice(0, 100)}`)
  })
  return (type) => {
    const declared = network.definition.model.type(type)
    return declared !== null && wanted.some(({ qualifiedName }) => isA(declared, qualifiedName))
  }
}
