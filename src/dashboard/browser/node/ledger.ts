import { signal } from '@preact/signals'
import { ClientError, LedgerClient } from '../../../client/index.ts'
import { Session, type SessionState } from './session.ts'

export const sessionState = signal<SessionState>('open')

/** The base URL of the node: the URL of the page without its last segment. */
export const base = new URL('.', location.href).href

const session = new Session({
  fetch: (input, init) => fetch(input, init),
  base,
  now: () => performance.now(),
  onState: (state) => {
    // Once the state is `ended`, it stays so, because the user must sign in again by reloading the page.
    if (sessionState.peek() !== 'ended') sessionState.value = state
  },
})

/** A client for the node that serves this page. */
export const ledger = new LedgerClient(base, { fetch: session.fetch })

export interface ListedBlock {
  readonly prev_id: string | null
  readonly body: readonly ListedEntry[]
  readonly timestamps: readonly number[]
  readonly nonce: number
  readonly id: string
}

export interface ListedEntry {
  readonly method: string
  readonly db: string
  readonly [member: string]: unknown
}

/** Returns at most `limit` blocks, starting at height `from`. Errors: ClientError. */
export async function blocksFrom(
  from: number,
  limit: number,
  signal: AbortSignal,
): Promise<readonly ListedBlock[]> {
  const serverid = `${await ledger.serverId({ signal })}`
  const query = { serverid, offset: from, limit }
  const { ledgers } = await ledger.request('GET /api/ledgers', { query }, { signal })
  // The schema of the node declares this type. The reply is not checked.
  return ledgers as readonly ListedBlock[]
}

/** Returns the text at `api/ledgers/<server id>/<path>` of the node. Errors: ClientError. */
export async function textOfChain(path: string, signal?: AbortSignal): Promise<string> {
  const serverid = await ledger.serverId({ signal })
  return (await blobAt(`api/ledgers/${serverid}/${path}`, signal)).text()
}

/** Returns the bytes at `path` of the node. Errors: ClientError, and the errors of `fetch`. */
export async function blobAt(path: string, signal?: AbortSignal): Promise<Blob> {
  const reply = await session.fetch(base + path, { cache: 'no-cache', signal: signal ?? null })
  if (!reply.ok) throw await refusalIn(reply)
  return reply.blob()
}

/** The result of the last scheduled verification that the node ran. */
export interface ScheduledVerification {
  readonly result: 'pending' | 'passed' | 'failed' | 'unfinished'
  /** End of the verification, milliseconds since the Unix epoch. */
  readonly time?: number
  /** End of the last verification that passed, milliseconds since the Unix epoch; absent if none has passed. */
  readonly last_passed?: number
  /** The first difference of a failed verification. */
  readonly finding?: string
  /** Why a verification is unfinished. */
  readonly reason?: string
}

export interface Readiness {
  /** Reason why the node accepts no changes, or null. */
  readonly refusal: ClientError | null
  /** Null if the node has no scheduled verification. */
  readonly verification: ScheduledVerification | null
}

/** Returns the readiness of the node. All members are null if the node does not answer. */
export async function readiness(signal: AbortSignal): Promise<Readiness> {
  try {
    const reply = await session.fetch(`${base}readyz`, { cache: 'no-store', signal })
    if (reply.status === 503) return { refusal: await refusalIn(reply), verification: null }
    const { verification = null } = Object(await reply.json())
    return { refusal: null, verification }
  } catch {
    return { refusal: null, verification: null }
  }
}

/** Maximum number of characters of the change feed that are read to find the first position. */
const GREETING_MAX = 1_000

/**
 * Returns the number of blocks in the chain, computed from the first position of the change feed. The size in the
 * checkpoint is not used, because the checkpoint can be older than the chain, and is missing if the store is damaged.
 * Errors: ClientError, errors of `fetch`.
 */
export async function chainSize(signal?: AbortSignal): Promise<number> {
  const enough = new AbortController()
  const ends = signal === undefined ? enough.signal : AbortSignal.any([signal, enough.signal])
  const serverid = await ledger.serverId({ signal })
  try {
    const address = `${base}api/ledgers/${serverid}/changes?since=now`
    const reply = await session.fetch(address, { cache: 'no-store', signal: ends })
    if (!reply.ok) throw await refusalIn(reply)
    const reader = reply.body?.pipeThrough(new TextDecoderStream()).getReader()
    for (let text = ''; text.length < GREETING_MAX; ) {
      const position = /^id: (?:(\d+)\.\d+|start)\n/m.exec(text)
      if (position !== null) return position[1] === undefined ? 0 : Number(position[1]) + 1
      const part = await reader?.read()
      if (part?.value === undefined) break
      text += part.value
    }
    throw new ClientError('REPLY_MALFORMED', reply.status, 'the stream has no position')
  } finally {
    enough.abort()
  }
}

async function refusalIn(reply: Response): Promise<ClientError> {
  const { code, message } = Object(await reply.json().catch(() => null))
  return new ClientError(String(code ?? 'REPLY_MALFORMED'), reply.status, String(message ?? ''))
}
