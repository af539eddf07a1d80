import type { Clock } from '../../base/clock.ts'
import { isJsonObject, type Json, parseJson } from '../../base/json.ts'
import { parsePosition, positionText } from '../../chain/index.ts'
import type { Outbound } from '../../http/outbound.ts'
import type { StoreReader } from '../../storage/index.ts'
import { type AbsentContent, type ChainContents, PART_BYTES_MAX } from './chain-contents.ts'
import { PeerError } from './errors.ts'
import type { NodeSigner } from './signed-request.ts'
import { WholeLook } from './whole-look.ts'

const TIMEOUT_MS = 30_000
const REPLY_BYTES_MAX = 65_536
/** Contents that the other side is asked for at a time. */
const CONTENTS_PER_LOOK = 16
/** Before what could not be brought is brought anew. */
const RETRY_MS = 30_000
const NO_BODY = new Uint8Array()

/** What is needed to bring contents to another node. */
export interface ContentPushOptions {
  /** The root of the listener of the node to push to. */
  readonly url: string
  readonly allowPrivate: boolean
  /** Of the own chain, and the contents that it names. */
  readonly store: StoreReader
  readonly contents: ChainContents
  readonly signer: NodeSigner
  readonly clock: Clock
  readonly outbound: Outbound
}

/**
 * Brings contents of the own attachments to a node that mirrors the own chain and cannot come for them:
 * that node says which ones it does not have, and how much of each has come.
 */
export class ContentPush {
  readonly #options: ContentPushOptions
  readonly #whole = new WholeLook()
  /** Up to here, the other side has looked. */
  #upTo = -1
  /** Contents that are lost here, or that the other side does not take. */
  #missed = 0
  #retryAtMs = 0

  constructor(options: ContentPushOptions) {
    this.#options = options
  }

  /**
   * Brings what the other side does not have of what was attached since; after a while also what it did
   * not take, and what it has lost since. `isStopped` is asked before each part.
   * Errors: PeerError, OutboundError; what was brought stays there, and is gone on with.
   */
  async run(isStopped: () => boolean = () => false): Promise<void> {
    const { store, clock } = this.#options
    const nowMs = clock.now()
    const isWhole = this.#whole.begins(nowMs)
    if (isWhole || (this.#missed > 0 && nowMs >= this.#retryAtMs)) {
      this.#upTo = -1
      this.#missed = 0
    }
    if (this.#upTo === -1) this.#retryAtMs = nowMs + RETRY_MS
    store.refresh()
    for (let more = true; more && !isStopped(); ) {
      // Most of the time nothing was attached, and the other side need not be asked.
      if ((await store.attachments.byPosition(this.#upTo, 1)).length === 0) break
      const found = await this.#absent()
      for (const content of found.contents) {
        if (!(await this.#bring(content, isStopped))) this.#missed += 1
      }
      this.#upTo = found.upTo
      more = found.more
    }
    if (isWhole) this.#whole.ended(clock.now(), clock.now() - nowMs)
  }

  /** What the other side does not have. */
  async #absent() {
    const after = this.#upTo === -1 ? '' : `after=${positionText(this.#upTo)}&`
    const target = this.#target(`?${after}limit=${CONTENTS_PER_LOOK}`)
    const { signer } = this.#options
    const headers = signer.headers('GET', target, NO_BODY)
    const reply = await this.#options.outbound.get(target, headers, this.#policy)
    const { absent, after: upTo, more } = membersOf(reply.body)
    if (reply.status !== 200) throw refused(target, reply)
    const contents = Array.isArray(absent) ? absent.map(absentIn) : [null]
    const position = typeof upTo === 'string' ? parsePosition(upTo) : null
    const isAnswer = contents.length <= CONTENTS_PER_LOOK && typeof more === 'boolean'
    if (!isAnswer || (more && position === null)) throw malformed()
    return {
      contents: contents.map((content) => {
        if (content === null) throw malformed()
        return content
      }),
      // It may have fewer entries than are here; it never goes back.
      upTo: Math.max(this.#upTo, position ?? -1),
      more,
    }
  }

  /** Whether the other side has all of it now. */
  async #bring({ sha256, bytes }: AbsentContent, isStopped: () => boolean): Promise<boolean> {
    const opened = await this.#options.contents.open(sha256).catch((error: unknown) => {
      if (error instanceof PeerError) return null
      throw error
    })
    if (opened === null) return false
    const { file, attachment } = opened
    const part = Buffer.allocUnsafe(Math.min(PART_BYTES_MAX, attachment.length))
    try {
      for (let there = bytes; !isStopped(); ) {
        const { bytesRead } = await file.read(part, 0, part.length, there)
        const before = there
        const now = await this.#send(sha256, before, part.subarray(0, bytesRead))
        if (now === null) return false
        if (now === attachment.length) return true
        if (now === before) return false
        there = now
      }
      return false
    } finally {
      await file.close()
    }
  }

  /** How much the other side has then; null where it does not take it. */
  async #send(sha256: string, from: number, part: Uint8Array): Promise<number | null> {
    const target = this.#target(`/${sha256}?offset=${from}`)
    const headers = {
      ...this.#options.signer.headers('POST', target, part),
      'content-type': 'application/octet-stream',
    }
    const reply = await this.#options.outbound.post(target, headers, part, this.#policy)
    const { size, code } = membersOf(reply.body)
    if (reply.status === 200 && typeof size === 'number') return size
    if (typeof code === 'string' && /^CONTENT_/.test(code)) return null
    throw refused(target, reply)
  }

  #target(rest: string): URL {
    const { url, store } = this.#options
    return new URL(`/api/ledgers/${store.serverId}/attachments${rest}`, url)
  }

  get #policy() {
    const { allowPrivate } = this.#options
    return {
      ...{ schemes: ['https:', 'http:'] as const, allowPrivate },
      ...{ timeoutMs: TIMEOUT_MS, bodyBytesMax: REPLY_BYTES_MAX },
    }
  }
}

function absentIn(value: Json): AbsentContent | null {
  const { sha256, length, size } = isJsonObject(value) ? value : {}
  const isContent = typeof sha256 === 'string' && /^[0-9a-f]{64}$/.test(sha256)
  if (!isContent || typeof length !== 'number' || typeof size !== 'number') return null
  return size >= 0 && Number.isSafeInteger(size) ? { sha256, length, bytes: size } : null
}

function membersOf(body: Buffer): { readonly [name: string]: Json } {
  try {
    const value: Json = parseJson(body.toString())
    return isJsonObject(value) ? value : {}
  } catch {
    return {}
  }
}

function refused({ host }: URL, { status, body }: { status: number; body: Buffer }): PeerError {
  const { code } = membersOf(body)
  const why = typeof code === 'string' ? ` with ${code.slice(0, 40)}` : ''
  return new PeerError('REPLY_REFUSED', `${host} answered an attachment ${status}${why}`)
}

function malformed(): PeerError {
  return new PeerError('REPLY_MALFORMED', 'the reply does not say which contents are absent')
}
