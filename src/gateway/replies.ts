import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { type Listing, type Made, positionText, type RevisionTest } from '../network/index.ts'

const JSON_TYPE = 'application/json; charset=utf-8'
/** Lists up to this length are sent at once; longer ones as they are read. */
const ROWS_AT_ONCE = 500

/** Sends a list, with the number of all that match in `X-Total-Count`. */
export async function sendListing(reply: FastifyReply, listing: Listing): Promise<FastifyReply> {
  reply.header('x-total-count', listing.total).type(JSON_TYPE)
  const parts = listText(listing)
  if (listing.total <= ROWS_AT_ONCE) {
    let text = ''
    for await (const part of parts) text += part
    return reply.send(text)
  }
  // What is refused while the first page is looked for is still refused with a status.
  const first = await parts.next()
  return reply.send(Readable.from(rejoined(first.done === true ? '' : first.value, parts)))
}

async function* rejoined(first: string, rest: AsyncIterable<string>): AsyncGenerator<string> {
  yield first
  yield* rest
}

async function* listText({ pages }: Listing): AsyncGenerator<string> {
  let separator = '['
  for await (const page of pages) {
    if (page.length === 0) continue
    yield separator + page.join(',')
    separator = ','
  }
  yield separator === '[' ? '[]' : ']'
}

/** Sends one resource. */
export function sendText(reply: FastifyReply, text: string, revision: number): FastifyReply {
  return reply.header('etag', etagOf(revision)).type(JSON_TYPE).send(text)
}

/** Says where a change was recorded. */
export function place(
  reply: FastifyReply,
  { position, revision }: Pick<Made, 'position' | 'revision'>,
  serverId: number,
): void {
  reply.header('ledger-position', `${serverId}/${positionText(position)}`)
  reply.header('etag', etagOf(revision))
}

function etagOf(revision: number): string {
  return `"${positionText(revision)}"`
}

/** What `If-Match` asks of the revision that is there; weak tags match none (RFC 9110, 13.1.1). */
export function revisionTest(header: string | undefined): RevisionTest {
  if (header === undefined || header.trim() === '*') return () => true
  const tags = header.split(',').map((tag) => tag.trim())
  return (revision) => tags.includes(etagOf(revision))
}
