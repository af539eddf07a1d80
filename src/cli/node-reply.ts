/** How long a node may take to answer and how much, where whoever asks says nothing else. */
const ANSWER_MS = 30_000
const REPLY_BYTES_MAX = 64 * 1024 * 1024

/** Bounds of one reply, where there are others than usual. */
interface Bounds {
  readonly withinMs?: number
  readonly bytesMax?: number
}

/** What a node answered. */
export interface NodeAnswer {
  readonly status: number
  readonly bytes: Buffer
}

/**
 * What is at `address`, whole, within its bounds: whatever answers there, a command
 * ends, with bounded memory. Redirects are not followed: they would take secrets elsewhere.
 * Errors: Error, whose message says why there is no answer.
 */
export async function nodeReply(
  address: URL | string,
  request: RequestInit = {},
  { withinMs = ANSWER_MS, bytesMax = REPLY_BYTES_MAX }: Bounds = {},
): Promise<NodeAnswer> {
  try {
    const signal = AbortSignal.timeout(withinMs)
    const reply = await fetch(address, { ...request, redirect: 'error', signal })
    const parts: Uint8Array[] = []
    let length = 0
    for await (const part of reply.body ?? []) {
      length += part.length
      if (length > bytesMax) throw new Error('the reply is too long')
      parts.push(part)
    }
    return { status: reply.status, bytes: Buffer.concat(parts) }
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new Error(reason, { cause: error })
  }
}
