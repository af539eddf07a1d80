import { signal } from '@preact/signals'
import { ClientError, LedgerClient } from '../../../client/index.ts'
import { Session, type SessionState } from './session.ts'

/** How the page stands with its node. */
export const sessionState = signal<SessionState>('open')

/** Where the node is: the folder of the page. */
export const base = new URL('.', location.href).href

const session = new Session({
  fetch: (input, init) => fetch(input, init),
  base,
  now: () => performance.now(),
  onState: (state) => {
    // What has ended stays so until the page is loaded again.
    if (sessionState.peek() !== 'ended') sessionState.value = state
  },
})

/** The node of this page. */
export const ledger = new LedgerClient(base, { fetch: session.fetch })

/** A block as the node lists it. */
export interface ListedBlock {
  readonly prev_id: string | null
  readonly body: readonly ListedEntry[]
  readonly timestamps: readonly number[]
  readonly nonce: number
  readonly id: string
}

/** An entry as the node lists it. */
export interface ListedEntry {
  readonly method: string
  readonly db: string
  readonly [member: string]: unknown
}

/** Blocks by their heights from `from` on, at most `limit`. Errors: ClientError. */
export async function blocksFrom(
  from: number,
  limit: number,
  signal: AbortSignal,
): Promise<readonly ListedBlock[]> {
  const serverid = `${await ledger.serverId({ signal })}`
  const query = { serverid, offset: from, limit }
  const { ledgers } = await ledger.request('GET /api/ledgers', { query }, { signal })
  // The node's own schema is the promise of its shape.
  return ledgers as readonly ListedBlock[]
}

/** The text at `path` below the chain of the node. Errors: ClientError. */
export async function textOfChain(path: string, signal?: AbortSignal): Promise<string> {
  const serverid = await ledger.serverId({ signal })
  const address = `${base}api/ledgers/${serverid}/${path}`
  const reply = await session.fetch(address, { cache: 'no-cache', signal: signal ?? null })
  if (!reply.ok) throw new ClientError('REPLY_MALFORMED', reply.status, `${reply.status}`)
  return reply.text()
}

/** How many blocks the node has signed for: all that are on its disk. Errors: ClientError. */
export async function chainSize(signal?: AbortSignal): Promise<number> {
  const [, size = ''] = (await textOfChain('checkpoint', signal)).split('\n')
  return Number(size) || 0
}
