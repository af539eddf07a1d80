import { isJsonObject, type Json, parseJson } from '../../base/json.ts'
import type { StoreReader } from '../../storage/index.ts'
import type { Platform } from '../platform.ts'
import { PeerError } from './errors.ts'
import type { MirrorsStart, PushedTo } from './messages.ts'
import { nextPush } from './push.ts'
import type { NodeSigner } from './signed-request.ts'

const TIMEOUT_MS = 30_000
const REPLY_BYTES_MAX = 65_536

/** What a pusher needs. */
export interface PusherOptions extends Pick<MirrorsStart, 'allowPrivate'> {
  /** The root of the listener of the node to push to. */
  readonly url: string
  /** Of the own chain. */
  readonly store: StoreReader
  /** A signed head of it, or null when there is none now. */
  readonly checkpoint: () => Promise<string | null>
  readonly signer: NodeSigner
  readonly platform: Pick<Platform, 'outbound'>
}

/** Brings the node's own chain to a node that cannot come for it, and remembers how far that is. */
export class Pusher {
  readonly #options: PusherOptions
  /** Null when the other side is to be asked first. */
  #to: PushedTo | null = null

  constructor(options: PusherOptions) {
    this.#options = options
  }

  /**
   * Pushes all blocks that are signed now, and says so after each push. What was pushed before an error stays.
   * Errors: OutboundError; PeerError REPLY_REFUSED, REPLY_MALFORMED.
   */
  async push(pushed: () => void): Promise<void> {
    const { store, checkpoint } = this.#options
    const note = await checkpoint()
    if (note === null) return
    store.refresh()
    let to = this.#to ?? (await this.#post(await nextPush(store, note, null)))
    for (;;) {
      const push = await nextPush(store, note, to)
      if (push.end <= to.size) break
      const before = to.size
      to = await this.#post(push)
      if (to.size <= before) throw malformed()
      pushed()
    }
    this.#to = to
  }

  async #post({ body }: { body: Buffer }): Promise<PushedTo> {
    const { url, allowPrivate, store, signer, platform } = this.#options
    const target = new URL(`/api/ledgers/${store.serverId}`, url)
    const signed = signer.headers('POST', target, body)
    // Whatever goes wrong: the next time it asks anew.
    this.#to = null
    const reply = await platform.outbound.post(
      target,
      { ...signed, 'content-type': 'application/json' },
      body,
      {
        ...{ schemes: ['https:', 'http:'], allowPrivate },
        ...{ timeoutMs: TIMEOUT_MS, bodyBytesMax: REPLY_BYTES_MAX },
      },
    )
    const { size, seen, code } = memberOf(reply.body)
    if (reply.status !== 200) {
      const why = typeof code === 'string' ? ` with ${code.slice(0, 40)}` : ''
      throw new PeerError('REPLY_REFUSED', `${target.host} answered a push ${reply.status}${why}`)
    }
    if (isSize(size) && isSize(seen)) return { size, seen }
    throw malformed()
  }
}

function isSize(value: Json | undefined): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

function malformed(): PeerError {
  return new PeerError('REPLY_MALFORMED', 'the reply to a push does not say how far it is')
}

function memberOf(body: Buffer): { readonly [name: string]: Json } {
  try {
    const value: Json = parseJson(body.toString())
    return isJsonObject(value) ? value : {}
  } catch {
    return {}
  }
}
