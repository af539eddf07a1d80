import { Readable } from 'node:stream'
import { canonicalString } from '../base/canonical-json.ts'
import {
  type Attachment,
  attachmentText,
  type Block,
  blockJson,
  provenBlockJson,
} from '../chain/index.ts'
import type { StoredItem } from '../storage/index.ts'
import type { ListRange } from './pages.ts'

/**
 * Streams `{"status":true,<opening><elements><closing>,"limit":…,"offset":…}`. One page of elements is
 * in memory at a time, however long the list, and a slow client slows the reading down.
 */
function listStream(texts: AsyncIterable<string>, range: ListRange): Readable {
  async function* parts(): AsyncGenerator<string> {
    // With the first text: what cannot be read before it is still refused with a status.
    let opening = '{"status":true,'
    for await (const text of texts) {
      yield opening + text
      opening = ''
    }
    yield `,"limit":${range.limit},"offset":${range.offset}}`
  }
  return Readable.from(parts(), { objectMode: false, highWaterMark: 65_536 })
}

/** `"<name>":[…]` of all pages. */
async function* listText<Row>(
  name: string,
  pages: AsyncIterable<readonly Row[]>,
  textOf: (row: Row) => string,
): AsyncGenerator<string> {
  let opening = `"${name}":[`
  for await (const page of pages) {
    yield opening + page.map(textOf).join(',')
    opening = ','
  }
  yield opening === ',' ? ']' : `${opening}]`
}

/** The reply of `GET /api/{db}`. */
export function idListReply(pages: AsyncIterable<string[]>, range: ListRange): Readable {
  return listStream(listText('items', pages, canonicalString), range)
}

/** The reply of `GET /api/{db}?docs=true`: the items go out first, their ids after them. */
export function itemListReply(pages: AsyncIterable<StoredItem[]>, range: ListRange): Readable {
  async function* texts(): AsyncGenerator<string> {
    let ids = ''
    async function* noted(): AsyncGenerator<StoredItem[]> {
      for await (const page of pages) {
        for (const { id } of page) ids += `${ids === '' ? '' : ','}${canonicalString(id)}`
        yield page
      }
    }
    yield* listText('docs', noted(), ({ text }) => text)
    yield `,"items":[${ids}]`
  }
  return listStream(texts(), range)
}

/** The reply of `GET /api/{db}/{id}/attachments`. */
export function attachmentListReply(
  pages: AsyncIterable<Attachment[]>,
  range: ListRange,
): Readable {
  return listStream(listText('attachments', pages, attachmentText), range)
}

/** The reply of `GET /api/ledgers`. */
export function blockListReply(
  pages: AsyncIterable<Block[]>,
  range: ListRange,
  proof: boolean,
): Readable {
  return listStream(listText('ledgers', pages, proof ? provenBlockJson : blockJson), range)
}
