import { isJsonObject, type Json, parseJson } from '../../../base/json.ts'
import { Session } from '../node/session.ts'
import { pageCrypto } from './hashing.ts'
import type { Order, Report } from './messages.ts'
import { UnreadableReply, verifyChain } from './verify-chain.ts'

/** A reply that is no block list: the node refuses, or cannot be reached. */
class Refused extends Error {
  override readonly name = 'Refused'
  readonly status: number

  constructor(status: number, text: string) {
    super(text.slice(0, 500))
    this.status = status
  }
}

addEventListener('message', ({ data }: MessageEvent<Order>) => {
  run(data).then(tell, (error: unknown) => {
    tell({ kind: 'failed', message: error instanceof Error ? error.message : String(error) })
  })
})

function tell(report: Report): void {
  postMessage(report)
}

async function run({ base, remembered }: Order): Promise<Report> {
  const { fetch: ask } = new Session({
    fetch: (input, init) => fetch(input, init),
    base,
    now: () => performance.now(),
    onState: () => {},
  })
  const textAt = async (path: string): Promise<string> => {
    const reply = await ask(`${base}api/${path}`, { cache: 'no-store' })
    // A reply that ends early is how a node tells, in the middle of one, that it cannot go on.
    const text = await reply.text().catch(() => '')
    if (reply.ok) return text
    throw reply.status === 500 ? new UnreadableReply() : new Refused(reply.status, text)
  }
  const { serverid } = objectIn(await textAt('serverid'))
  if (typeof serverid !== 'number') throw new Refused(0, 'no server id')
  const [verifierKey, checkpoint] = await Promise.all([
    textAt(`ledgers/${serverid}/vkey`),
    textAt(`ledgers/${serverid}/checkpoint`).catch((error: unknown) => {
      if (error instanceof Refused && error.status === 503) return null
      throw error
    }),
  ])
  const source = {
    serverId: serverid,
    verifierKey,
    checkpoint,
    remembered: remembered[serverid] ?? null,
    blocks: async (from: number, limit: number) => {
      const query = `serverid=${serverid}&proof=1&offset=${from}&limit=${limit}`
      const { ledgers } = objectIn(await textAt(`ledgers?${query}`))
      if (!Array.isArray(ledgers)) throw new UnreadableReply()
      return ledgers
    },
  }
  const verdict = await verifyChain(pageCrypto, source, (progress) =>
    tell({ kind: 'progress', progress }),
  )
  return { kind: 'verdict', verdict, serverId: serverid }
}

function objectIn(text: string): Record<string, Json> {
  try {
    const value: Json = parseJson(text)
    if (isJsonObject(value)) return value
  } catch {
    // Told below.
  }
  throw new UnreadableReply()
}
