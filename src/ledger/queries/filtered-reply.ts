import type { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import type { Filter } from '../../filter/index.ts'
import { idListReply, itemListReply } from '../list-reply.ts'
import type { ItemListRange, LedgerService } from '../service.ts'
import type { Found } from './queries.ts'

/**
 * The reply of `GET /api/{db}` with a filter, in the shape that it has without one. What the filter says
 * of limit and offset goes before the parameters of that name; `fields` asks for the items too.
 */
export async function filteredReply(
  reply: FastifyReply,
  ledger: LedgerService,
  db: string,
  filter: Filter,
  asked: ItemListRange & { readonly docs: boolean },
): Promise<Readable> {
  const docs = asked.docs || filter.fields !== null
  const limit = filter.limit ?? asked.limit
  const offset = filter.offset ?? asked.offset
  const found = await ledger.findItems(db, {
    filter: { ...filter, limit: limit === 0 ? null : limit, offset },
    after: asked.after,
    docs,
  })
  if (filter.where !== null || filter.order.length > 0) reply.header('query-plan', planOf(found))
  const range = { limit, offset }
  return docs ? itemListReply(withText(found), range) : idListReply(ids(found), range)
}

/** A path can hold what a header cannot. */
function planOf({ index }: Found): string {
  return index === null ? 'scan' : `index ${encodeURIComponent(index)}`
}

async function* ids({ pages }: Found): AsyncGenerator<string[]> {
  for await (const page of pages) yield page.map(({ id }) => id)
}

async function* withText({ pages }: Found) {
  for await (const page of pages) yield page.map((item) => ({ ...item, text: item.text ?? '{}' }))
}
