import { type TLiteral, type TObject, type TString, Type } from 'typebox'

/** Which pair must be shown. */
export const HelloQuery: TObject<{ id: TString }> = Type.Object({
  id: Type.String({ examples: ['demo'] }),
})

/** Credentials that match. */
export const HelloReply: TObject<{ status: TLiteral<true> }> = Type.Object({
  status: Type.Literal(true),
})
