import { parseJson } from '../base/json.ts'
import { EXIT, Exit } from './exit.ts'
import { nodeReply } from './node-reply.ts'

/** A running node, as the flags name it. */
export interface NodeAddress {
  /** Like http://127.0.0.1:4126. */
  readonly url: string
  /** Where the node asks for one. */
  readonly token: string | undefined
}

/** What a node answers is taken at its word: it is the operator's own. */
export interface NodeReply {
  readonly status?: boolean
  readonly code?: string
  readonly message?: string
}

/** The reply of a node to a request that it grants. Errors: Exit (usage, finding). */
export async function callNode<Reply extends NodeReply>(
  { url, token }: NodeAddress,
  path: string,
  method: 'GET' | 'POST' | 'DELETE',
  body?: object,
): Promise<Reply> {
  if (!URL.canParse(path, url)) {
    throw new Exit(EXIT.usage, `--url: ${url} is not a URL like http://127.0.0.1:4126`)
  }
  const reply: Reply = await answered(new URL(path, url), {
    method,
    headers: {
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(token === undefined ? {} : { 'x-access-token': token }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  if (reply.status === true) return reply
  const { message, code } = reply
  if (message !== undefined || code !== undefined) {
    throw new Exit(EXIT.finding, `the node refused: ${String(message ?? code)}`)
  }
  throw new Exit(EXIT.finding, `what answers at ${new URL(url).origin} is no node of daicho`)
}

async function answered<Reply>(address: URL, request: RequestInit): Promise<Reply> {
  try {
    const { bytes } = await nodeReply(address, request)
    return parseJson(bytes.toString()) ?? {}
  } catch (error) {
    throw new Exit(EXIT.finding, `no node answers at ${address.origin}`, { cause: error })
  }
}
