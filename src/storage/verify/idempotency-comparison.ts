import { type Block, packPosition, positionText, unpackPosition } from '../../chain/index.ts'
import { type IdempotencyRecord, idempotencyDigest } from '../idempotency-record.ts'
import type { StoreReader } from '../store.ts'

/** Answers read ahead at a time. */
const ANSWERS_PER_PAGE = 500

/**
 * Compares kept answers with the chain, walking both in its order: what an answer says was recorded
 * must be there, at that time, and its digest must be that of the rest. What a chain cannot tell is
 * whether one is missing: they are the node's own, and go after a day.
 */
export class AnswerComparison {
  readonly #store: StoreReader
  #answers: readonly IdempotencyRecord[] = []
  #next = 0
  #readUpTo = -1
  #ended = false

  constructor(store: StoreReader) {
    this.#store = store
  }

  /** Whether one is kept for an entry before `end` that the chain has not come to. */
  async isBefore(end: number): Promise<boolean> {
    if (this.#ended) return false
    const answer = await this.#peek()
    return answer !== null && answer.position < end
  }

  /** What the answers to the entries of the next block say that is not so, or null. */
  async block({ height, entries, timestamps }: Block): Promise<string | null> {
    if (this.#ended) return null
    const end = packPosition(height + 1, 0)
    for (let answer = await this.#peek(); answer !== null; answer = await this.#peek()) {
      if (answer.position >= end) return null
      const { index } = unpackPosition(answer.position)
      const isThere = answer.entries >= 1 && index + answer.entries <= entries.length
      const { digest, ...rest } = answer
      if (
        !isThere ||
        answer.timestamp !== timestamps[index] ||
        digest !== idempotencyDigest(rest)
      ) {
        return `the answer kept for ${positionText(answer.position)} is not the one that was given`
      }
      this.#next += 1
    }
    return null
  }

  /** After the last block: an answer to what is not in the chain, or null. */
  async end(): Promise<string | null> {
    const answer = await this.#peek()
    if (answer === null) return null
    return `an answer is kept for ${positionText(answer.position)}, which the chain does not have`
  }

  async #peek(): Promise<IdempotencyRecord | null> {
    if (this.#next === this.#answers.length && !this.#ended) {
      this.#answers = await this.#store.idempotencyRecords(this.#readUpTo, ANSWERS_PER_PAGE)
      this.#readUpTo = this.#answers.at(-1)?.position ?? this.#readUpTo
      this.#next = 0
      this.#ended = this.#answers.length === 0
    }
    return this.#answers[this.#next] ?? null
  }
}
