import { errorMessage } from '../../../base/errors.ts'
import { isJsonObject, type Json } from '../../../base/json.ts'
import { parseForeignJsonOrNull } from '../../../base/strict-json.ts'
import { type Renew, Session } from '../node/session.ts'
import {
  type ItemVerdict,
  type ListVerdict,
  type ProofSource,
  proveItem,
  proveList,
  type ShownItem,
  type ShownList,
} from './item-proof.ts'
import type { VerifyRequest, WorkerMessage } from './messages.ts'
import { verifySignature } from './signature.ts'
import { UnreadableReply, verifyChain } from './verify-chain.ts'

// Verifies the chain of a node, a revision of an item, or a list, in a worker.

/** The node rejected a request. */
class RefusedError extends Error {
  override readonly name = 'RefusedError'
  readonly status: number

  constructor(status: number, text: string) {
    super(text.slice(0, 500))
    this.status = status
  }
}

addEventListener('message', ({ data }: MessageEvent<VerifyRequest>) => {
  verify(data).then(report, (error: unknown) => {
    report({ kind: 'failed', message: errorMessage(error) })
  })
})

function report(message: WorkerMessage): void {
  postMessage(message)
}

/** Asks the page for a token before each request, because only the page can renew tokens. */
function askPage(tokens: MessagePort): Renew {
  return () =>
    new Promise((resolve) => {
      tokens.onmessage = ({ data }: MessageEvent<string | null>) =>
        resolve({ token: data, renewAt: 0 })
      tokens.postMessage(null)
    })
}

async function verify({
  base,
  remembered,
  shown,
  tokens = null,
}: VerifyRequest): Promise<WorkerMessage> {
  const renewal = tokens === null ? null : askPage(tokens)
  const session = new Session({
    fetch: (input, init) => fetch(input, init),
    base,
    now: () => performance.now(),
    onState: () => {},
    findRenewal: () => renewal,
  })
  const textAt = async (path: string): Promise<string> => {
    const reply = await session.fetch(`${base}api/${path}`, { cache: 'no-store' })
    // If the node fails while it sends a reply, the reply is incomplete and reading it fails.
    const text = await reply.text().catch(() => '')
    if (reply.ok) return text
    throw reply.status === 500 ? new UnreadableReply() : new RefusedError(reply.status, text)
  }
  const { serverid: serverId } = requireObject(await textAt('serverid'))
  if (typeof serverId !== 'number') throw new RefusedError(0, 'no server id')
  if (shown !== undefined) {
    const verifierKey = await textAt(`ledgers/${serverId}/vkey`)
    const fetch = async (path: string) => {
      const reply = await session.fetch(base + path.slice(1), { cache: 'no-store' })
      return { status: reply.status, text: await reply.text() }
    }
    const verdict = await prove({ serverId, verifierKey, remembered, fetch }, shown)
    return { kind: 'proof', verdict, serverId }
  }
  const [verifierKey, checkpoint] = await Promise.all([
    textAt(`ledgers/${serverId}/vkey`),
    textAt(`ledgers/${serverId}/checkpoint`).catch((error: unknown) => {
      if (error instanceof RefusedError && error.status === 503) return null
      throw error
    }),
  ])
  const source = {
    serverId,
    verifierKey,
    checkpoint,
    remembered,
    blocks: async (from: number, limit: number) => {
      const query = `serverid=${serverId}&proof=1&offset=${from}&limit=${limit}`
      const { ledgers } = requireObject(await textAt(`ledgers?${query}`))
      if (!Array.isArray(ledgers)) throw new UnreadableReply()
      return ledgers
    },
  }
  const verdict = await verifyChain(verifySignature, source, (progress) =>
    report({ kind: 'progress', progress }),
  )
  return { kind: 'verdict', verdict }
}

function prove(
  source: ProofSource,
  shown: ShownItem | ShownList,
): Promise<ItemVerdict | ListVerdict> {
  return 'ids' in shown
    ? proveList(verifySignature, source, shown)
    : proveItem(verifySignature, source, shown)
}

function requireObject(text: string): Record<string, Json> {
  const value = parseForeignJsonOrNull(text)
  if (isJsonObject(value)) return value
  throw new UnreadableReply()
}
