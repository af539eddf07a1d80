import type { IncomingMessage } from 'node:http'
import type { Clock } from '../../base/clock.ts'
import { PeerError } from './errors.ts'
import type { Mirrors } from './mirrors.ts'
import { isDigestOf, SignedRequests } from './signed-request.ts'

const NO_BODY = new Uint8Array()

/** Tells which peer has signed a request; each request is taken once, whatever it is for. */
export class PeerSignatures {
  readonly #signed = new SignedRequests()
  readonly #mirrors: Pick<Mirrors, 'peerOfKey'>
  readonly #clock: Clock

  constructor(mirrors: Pick<Mirrors, 'peerOfKey'>, clock: Clock) {
    this.#mirrors = mirrors
    this.#clock = clock
  }

  /**
   * The id of the key that has signed `request`, and the digest that its body must have: to be called
   * before the body is read. Errors: SIGNATURE_REFUSED.
   */
  signerOf({ method = '', url = '', headers }: IncomingMessage) {
    const mark = url.indexOf('?')
    const path = mark === -1 ? url : url.slice(0, mark)
    // All of it: a second question mark is part of the query.
    const query = mark === -1 ? '?' : url.slice(mark)
    const authority = (headers.host ?? '').toLowerCase()
    return this.#signed.verify(
      { method, authority, path, query },
      headers,
      (id) => this.#mirrors.peerOfKey(id)?.key.publicKey ?? null,
      this.#clock.now(),
    )
  }

  /** Expects that a peer has signed `request`, which has no body. Errors: SIGNATURE_REFUSED. */
  async expectReader(request: IncomingMessage): Promise<void> {
    const { digest } = await this.signerOf(request)
    if (isDigestOf(digest, NO_BODY)) return
    throw new PeerError('SIGNATURE_REFUSED', 'who reads signs for no body')
  }
}
