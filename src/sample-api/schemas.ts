import { Type } from '../base/shape.ts'

/** The body of a login; JSON or URL-encoded. It describes: anything else counts as no match. */
export const LoginBody = Type.Object({
  name: Type.String({ examples: ['demo'] }),
  password: Type.String({ examples: ['demo'], format: 'password' }),
})

/** Every refusal of this listener but those under `/hello`. */
export const Failure = Type.Object({ success: Type.Literal(false), message: Type.String() })

/** A login that succeeded, or did not: both are 200. */
export const LoginReply = Type.Union([
  Type.Object({
    success: Type.Literal(true),
    message: Type.String(),
    token: Type.String({ description: 'Valid for 24 hours.' }),
  }),
  Failure,
])

/** A token may also come here, or in the body field `token`. */
export const TokenQuery = Type.Object({ token: Type.Optional(Type.String()) })

/** What the API says of itself. */
export const WelcomeReply = Type.Object({ message: Type.String() })

/** Users as shown; `password` is always the same eight asterisks. */
export const UsersReply = Type.Array(
  Type.Object({ name: Type.String(), password: Type.String(), admin: Type.Boolean() }),
)
