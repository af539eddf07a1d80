import { EventEmitter } from 'node:events'
import type { FastifyReply } from 'fastify'
import { expect, it } from 'vitest'
import { ReplyBudget } from '../../http/index.ts'
import { sendListing } from './resources.ts'

it('ends the reading of a list that is refused because too many long replies are unsent', async () => {
  const replyBudget = new ReplyBudget(1_000_000)
  const other = new EventEmitter()
  replyBudget.set(other as FastifyReply['raw'], 900_000)
  let hasEnded = false
  async function* pages() {
    try {
      yield ['"short"']
      yield [JSON.stringify('x'.repeat(200_000))]
      throw new Error('was read on')
    } finally {
      hasEnded = true
    }
  }
  const raw = new EventEmitter()
  const reply = { header: () => reply, type: () => reply, server: { replyBudget }, raw }
  const sent = sendListing(reply as unknown as FastifyReply, { total: 2, pages: pages() })
  await expect(sent).rejects.toMatchObject({ code: 'REPLIES_BUSY' })
  expect(hasEnded).toBe(true)
  // The refused list no longer counts when its connection closes.
  raw.emit('close')
  expect(() => replyBudget.require(100_000)).not.toThrow()
})
