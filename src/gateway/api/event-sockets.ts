import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { setTimeout as rest } from 'node:timers/promises'
import { type WebSocket, WebSocketServer } from 'ws'
import { turn } from '../../base/turn.ts'
import { HttpRefusal } from '../../http/index.ts'
import {
  type BusinessNetwork,
  type Caller,
  type EmittedEvents,
  isA,
  NetworkError,
  type TypeDeclaration,
} from '../../network/index.ts'
import {
  type BlockEvents,
  type EventPage,
  type ReplaySource,
  Replays,
  type SentPart,
} from '../replays.ts'
import type { GatewayService } from '../service.ts'
import { accountCheck, type GatewayAccess, requireCaller } from './routes.ts'

const SUBSCRIBERS_MAX = 2_000
/** Maximum bytes of a message from a client. The gateway ignores all messages. */
const MESSAGE_BYTES_MAX = 1_024
/** Unsent bytes of a connection from which on the client is too slow for the events of another block. */
const PENDING_BYTES_MAX = 1024 * 1024
/** Milliseconds of sending after which other requests are served. */
const SENDING_MS_MAX = 10
/** Maximum bytes of events that wait for the access rules of one caller. */
const CHECKING_BYTES_MAX = 16 * 1024 * 1024
/** Maximum unsent bytes during a replay, unless the events of a single block are longer. */
const REPLAY_BYTES = 128 * 1024
/** Makes `ws` send a buffer as a text frame. Events are buffers, because all sockets share them. */
const TEXT = { binary: false } as const

// Close codes of RFC 6455 and its registry. TOO_SLOW is “try again later”, because the client can reconnect with
// `since`.
const GOING_AWAY = 1_001
const POLICY_VIOLATION = 1_008
const INTERNAL_ERROR = 1_011
const TOO_SLOW = 1_013

export interface EventSocketsDeps {
  readonly service: GatewayService
  readonly access: GatewayAccess
  /** Calls `tick` every 30 seconds until the returned function is called. */
  readonly everyHalfMinute: (tick: () => void) => () => void
}

/** All sockets of one network with the same caller. Access rules are evaluated once for all these sockets. */
interface Subscription extends ReplaySource {
  readonly network: BusinessNetwork
  readonly caller: Caller
  readonly sockets: Set<EventSocket>
  sent: number
  /** Bytes of the events that wait for `lastSend`. */
  waitingBytes: number
  end: () => void
  /** Settles when the last block received so far is sent. Blocks are checked and sent one at a time. */
  lastSend: Promise<void>
}

/** Sends the events of networks over WebSocket (RFC 6455), on any path of the gateway. */
export class EventSockets {
  readonly #deps: EventSocketsDeps
  readonly #server = new WebSocketServer({
    noServer: true,
    maxPayload: MESSAGE_BYTES_MAX,
    perMessageDeflate: false,
    clientTracking: false,
  })
  /** Keys are results of `subscriptionKey`. */
  readonly #subscriptions = new Map<string, Subscription>()
  readonly #replays = new Replays(rest)
  readonly #stopPings: () => void
  /** Time of the last pause in sending new events. */
  #pausedMs = 0
  #count = 0
  #closed = false

  constructor(deps: EventSocketsDeps) {
    this.#deps = deps
    // Without this listener, `handleUpgrade` would reply in the format of `ws` instead of throwing this error.
    this.#server.on('wsClientError', ({ message }) => {
      throw new HttpRefusal(400, 'HANDSHAKE_INVALID', message)
    })
    this.#stopPings = deps.everyHalfMinute(() => {
      for (const { sockets } of this.#subscriptions.values()) {
        for (const socket of sockets) socket.ping()
      }
    })
  }

  /** Upgrades a connection to WebSocket. Errors: HttpRefusal, NetworkError. */
  async upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    this.#requireOpen()
    if (request.headers.upgrade?.toLowerCase() !== 'websocket') {
      throw new HttpRefusal(
        400,
        'UPGRADE_UNKNOWN',
        'the only supported value of Upgrade is websocket',
      )
    }
    if (this.#count >= SUBSCRIBERS_MAX) {
      throw new HttpRefusal(
        503,
        'LISTENERS_TOO_MANY',
        'too many event subscribers; try again later',
      )
    }
    // Not resolved against a base address, because a path such as `//a/b` would then contain a host.
    const url = new URL(`http://gateway${request.url}`)
    const token = url.searchParams.get('access_token')
    const bearer = token === null ? {} : { authorization: `Bearer ${token}` }
    // Counted before the first wait, during which the socket may close and other requests may arrive.
    this.#count += 1
    socket.once('close', () => {
      this.#count -= 1
    })
    await this.#deps.service.catchUp()
    const network = this.#networkAt(url.pathname)
    const { access } = this.#deps
    const headers = { ...bearer, ...request.headers }
    const caller = await requireCaller(headers, network, access)
    const isAllowed = accountCheck(headers, access)
    const since = parseSince(url.searchParams)
    const isSelected = parseTypes(url.searchParams, network)
    // During the waits, the gateway may have closed, or the network may have been removed. Nothing would close a later
    // socket: the shutdown would wait for it, or its client for events that never come.
    this.#requireOpen()
    if (this.#networkAt(url.pathname) !== network)
      throw new NetworkError('NETWORK_BUSY', 'the network was removed at this moment; try again')
    this.#server.handleUpgrade(request, socket, head, (opened) => {
      const isLive = since === null
      const listening = new EventSocket(opened, socket, { isSelected, isLive, isAllowed })
      const subscription = this.#join(opened, listening, network, caller)
      if (since !== null) this.#replays.add(subscription, listening, since)
    })
  }

  #requireOpen(): void {
    if (this.#closed) throw new HttpRefusal(503, 'CLOSING', 'the gateway is closing')
  }

  close(): void {
    this.#closed = true
    this.#stopPings()
    for (const { sockets } of this.#subscriptions.values()) {
      for (const socket of sockets) socket.close(GOING_AWAY, 'the gateway is closing')
    }
  }

  /** Closes the connections of a network that was removed. */
  closeNetwork(name: string): void {
    for (const { network, sockets } of this.#subscriptions.values()) {
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
  ): Subscription {
    const subscription = this.#subscribe(network, caller)
    subscription.sockets.add(socket)
    opened.on('close', () => {
      subscription.sockets.delete(socket)
      if (subscription.sockets.size > 0) return
      subscription.end()
      this.#subscriptions.delete(subscriptionKey(network, caller))
    })
    return subscription
  }

  #subscribe(network: BusinessNetwork, caller: Caller): Subscription {
    const key = subscriptionKey(network, caller)
    const known = this.#subscriptions.get(key)
    if (known !== undefined) return known
    const sockets = new Set<EventSocket>()
    const subscription: Subscription = {
      network,
      caller,
      sockets,
      sent: 0,
      waitingBytes: 0,
      end: () => {},
      lastSend: Promise.resolve(),
      async read(height) {
        if (await network.isRevoked(caller)) {
          closeRevoked(sockets)
          return { blocks: [], next: height }
        }
        const { emitted, next } = await network.events.readRecorded(height)
        const blocks: BlockEvents[] = []
        for (const each of emitted) blocks.push(await selectReceivable(network, caller, each))
        return { blocks, next }
      },
    }
    subscription.end = network.events.listen((emitted) => {
      const bytes = emitted.events.reduce((sum, event) => sum + event.bytes.length, 0)
      // The clients get these events again if they reconnect with `since`.
      if (subscription.waitingBytes > CHECKING_BYTES_MAX) {
        for (const socket of sockets) socket.drop()
        return
      }
      subscription.waitingBytes += bytes
      subscription.lastSend = subscription.lastSend
        .then(() => this.#sendNew(subscription, emitted))
        .catch(() => {
          for (const socket of sockets) socket.fail()
        })
        .finally(() => {
          subscription.waitingBytes -= bytes
        })
    })
    this.#subscriptions.set(key, subscription)
    return subscription
  }

  async #sendNew(subscription: Subscription, emitted: EmittedEvents): Promise<void> {
    const { network, caller, sockets } = subscription
    if (await network.isRevoked(caller)) {
      closeRevoked(sockets)
      return
    }
    const block = await selectReceivable(network, caller, emitted)
    subscription.sent += 1
    for (const socket of sockets) {
      // A block may have a thousand events for each of two thousand sockets.
      if (performance.now() - this.#pausedMs > SENDING_MS_MAX) {
        await turn()
        this.#pausedMs = performance.now()
      }
      socket.sendNew(block)
    }
  }
}

function closeRevoked(sockets: Iterable<EventSocket>): void {
  for (const socket of sockets) socket.close(POLICY_VIOLATION, 'the identity is no longer valid')
}

/** Returns the events that `caller` may receive, as frames. */
async function selectReceivable(
  network: BusinessNetwork,
  caller: Caller,
  { height, events }: EmittedEvents,
): Promise<BlockEvents> {
  return { height, frames: await network.receivableEvents(events, caller) }
}

function subscriptionKey(
  { definition }: BusinessNetwork,
  { participant, identity }: Caller,
): string {
  return JSON.stringify([definition.name, participant.type, participant.id, identity])
}

/** Returns the height in `?since=<height>`, or null if the parameter is missing. Errors: 400. */
function parseSince(query: URLSearchParams): number | null {
  const text = query.get('since')
  if (text === null) return null
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new HttpRefusal(
    400,
    'REQUEST_INVALID',
    'since must be the height of a block, a non-negative integer',
  )
}

/** Returns the filter for `?types=a,b`, short or qualified names of event types. A type includes its subtypes. */
function parseTypes(query: URLSearchParams, network: BusinessNetwork): (type: string) => boolean {
  const text = query.get('types')
  if (text === null) return () => true
  const { model } = network.definition
  const events = [...model.types()].filter(({ kind }) => kind === 'event')
  const selected: TypeDeclaration[] = text.split(',').map((name) => {
    const found = events.find((type) => type.qualifiedName === name || type.name === name)
    if (found !== undefined) return found
    throw new NetworkError('TYPE_NOT_FOUND', `unknown event type ${name.slice(0, 100)}`)
  })
  return (type) => {
    const declared = network.definition.model.type(type)
    return declared !== null && selected.some(({ qualifiedName }) => isA(declared, qualifiedName))
  }
}

/** A connection that receives events. */
class EventSocket {
  readonly #socket: WebSocket
  readonly #stream: Duplex
  readonly #isSelected: (type: string) => boolean
  readonly #isAllowed: () => Promise<boolean>
  #isLive: boolean
  /** Height of the last block sent. Blocks up to this height are not sent again. */
  #height = -1
  #answered = true

  /**
   * `stream` is the connection of `socket`. Unless `isLive` is set, `sendNew` does nothing until `goLive` is called,
   * because the replay sends these events.
   */
  constructor(
    socket: WebSocket,
    stream: Duplex,
    {
      isSelected,
      isLive,
      isAllowed,
    }: {
      isSelected: (type: string) => boolean
      isLive: boolean
      isAllowed: () => Promise<boolean>
    },
  ) {
    this.#socket = socket
    this.#stream = stream
    this.#isSelected = isSelected
    this.#isAllowed = isAllowed
    this.#isLive = isLive
    socket.on('pong', () => {
      this.#answered = true
    })
    // `ws` closes the connection after an error such as an invalid frame.
    socket.on('error', () => {})
  }

  get isOpen(): boolean {
    return this.#socket.readyState === this.#socket.OPEN
  }

  /** Sends new events, each as a text frame. */
  sendNew({ height, frames }: BlockEvents): void {
    if (!this.#isLive || height <= this.#height) return
    this.#height = height
    if (this.#socket.bufferedAmount > PENDING_BYTES_MAX) {
      this.drop()
      return
    }
    this.#stream.cork()
    for (const { type, bytes } of frames) {
      if (this.#isSelected(type)) this.#socket.send(bytes, TEXT)
    }
    this.#stream.uncork()
  }

  /** Sends up to REPLAY_BYTES of the recorded events of `page` from height `from`. */
  replay(page: EventPage, from: number): SentPart {
    const { frames, bytes, next } = this.#part(page, from)
    this.#height = next - 1
    return { bytes, sent: this.#sendAll(frames).then(() => next) }
  }

  async #sendAll(frames: readonly Buffer[]): Promise<void> {
    this.#stream.cork()
    for (const [at, bytes] of frames.entries()) {
      const isLast = at === frames.length - 1
      if (!isLast && this.#socket.bufferedAmount < REPLAY_BYTES) {
        this.#socket.send(bytes, TEXT)
        continue
      }
      await new Promise<void>((resolve) => {
        this.#socket.send(bytes, TEXT, () => resolve())
        this.#stream.uncork()
      })
      this.#stream.cork()
    }
    this.#stream.uncork()
  }

  /** Makes `sendNew` send events from now on. */
  goLive(): void {
    this.#isLive = true
  }

  /** Closes the connection because events cannot be read. */
  fail(): void {
    this.close(INTERNAL_ERROR, 'the events cannot be read; reconnect with since')
  }

  /** Closes the connection because the client reads too slowly. */
  drop(): void {
    this.close(TOO_SLOW, 'the client reads too slowly')
    this.#socket.terminate()
  }

  /** Closes the connection if the previous ping was not answered or its token is invalid; otherwise sends a ping. */
  ping(): void {
    const close = () => this.close(POLICY_VIOLATION, 'the token is no longer valid')
    this.#isAllowed().then((isAllowed) => isAllowed || close(), close)
    if (!this.#answered) {
      this.#socket.terminate()
      return
    }
    this.#answered = false
    this.#socket.ping()
  }

  close(code: number, reason: string): void {
    this.#socket.close(code, reason)
  }

  /** Returns the selected frames of whole blocks from `from`, up to REPLAY_BYTES, and the height of the next block. */
  #part({ blocks, next }: EventPage, from: number) {
    const frames: Buffer[] = []
    let bytes = 0
    for (const { height, frames: all } of blocks) {
      if (height < from) continue
      for (const frame of all) {
        if (!this.#isSelected(frame.type)) continue
        frames.push(frame.bytes)
        bytes += frame.bytes.length
      }
      if (bytes >= REPLAY_BYTES) return { frames, bytes, next: height + 1 }
    }
    return { frames, bytes, next }
  }
}
