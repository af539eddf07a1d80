import {
  type TArray,
  type TBoolean,
  type TLiteral,
  type TObject,
  type TOptional,
  type TString,
  type TUnion,
  Type,
} from 'typebox'

/** The body of a login; JSON or URL-encoded. It describes: anything else counts as no match. */
export const LoginBody: TObject<{ name: TString; password: TString }> = Type.Object({
  name: Type.String({ examples: ['demo'] }),
  password: Type.String({ examples: ['demo'], format: 'password' }),
})

/** A login that succeeded. */
const LoggedIn: TObject<{ success: TLiteral<true>; message: TString; token: TString }> =
  Type.Object({
    success: Type.Literal(true),
    message: Type.String(),
    token: Type.String({ description: 'Valid for 24 hours.' }),
  })

/** Every refusal of this listener but those under `/hello`. */
export const Failure: TObject<{ success: TLiteral<false>; message: TString }> = Type.Object({
  success: Type.Literal(false),
  message: Type.String(),
})

/** A login that succeeded, or did not: both are 200. */
export const LoginReply: TUnion<[typeof LoggedIn, typeof Failure]> = Type.Union([LoggedIn, Failure])

/** A token may also come here, or in the body field `token`. */
export const TokenQuery: TObject<{ token: TOptional<TString> }> = Type.Object({
  token: Type.Optional(Type.String()),
})

/** What the API says of itself. */
export const WelcomeReply: TObject<{ message: TString }> = Type.Object({ message: Type.String() })

/** Users as shown; `password` is always the same eight asterisks. */
export const UsersReply: TArray<TObject<{ name: TString; password: TString; admin: TBoolean }>> =
  Type.Array(Type.Object({ name: Type.String(), password: Type.String(), admin: Type.Boolean() }))
