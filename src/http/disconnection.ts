import type { FastifyReply } from 'fastify'

/** Returns a signal that is aborted when the client disconnects or the reply has been sent. */
export function disconnection(reply: FastifyReply): AbortSignal {
  const controller = new AbortController()
  // The client may have disconnected while its token was verified. Then no event `close` follows.
  if (reply.raw.destroyed) controller.abort()
  reply.raw.once('close', () => controller.abort())
  return controller.signal
}
