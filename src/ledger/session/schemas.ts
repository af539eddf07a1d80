import { Type } from '../../base/shape.ts'

/** A token for the API, or null where none is needed. */
export const SessionReply = Type.Object({
  status: Type.Literal(true),
  token: Type.Union([Type.String(), Type.Null()], {
    description: 'Send it as x-access-token; null where no tokens are required',
  }),
  expires_at: Type.Union([Type.Integer(), Type.Null()], {
    description: 'Milliseconds since the Unix epoch',
  }),
})
