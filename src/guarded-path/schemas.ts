import { Type } from '../base/shape.ts'

/** Which pair must be shown. */
export const HelloQuery = Type.Object({ id: Type.String({ examples: ['demo'] }) })

/** Credentials that match. */
export const HelloReply = Type.Object({ status: Type.Literal(true) })
