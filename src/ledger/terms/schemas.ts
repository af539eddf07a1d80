import { Type } from '../../base/shape.ts'

/** RFC 9110, section 8.8.3: `*`, or a list of entity tags. */
const TAGS = '^([*]|(W/)?"[!#-~]*"( *, *(W/)?"[!#-~]*")*)$'
/** Printable ASCII in double quotes. */
const KEY = '^"[ !#-~]{1,255}"$'

const once = {
  'idempotency-key': Type.Optional(
    Type.String({
      shownPattern: KEY,
      description:
        'Names this request: sent again within 24 hours, it is done once and answered alike',
    }),
  ),
}

/** Headers of a request that `termsOfChange` reads. */
export const OnceHeaders = Type.Object(once)

/** Headers of a read that `preconditionOf` reads. */
export const ConditionHeaders = Type.Object({
  'if-match': Type.Optional(
    Type.String({
      shownPattern: TAGS,
      description: 'Only while one of these entity tags is current; `*`: any',
    }),
  ),
  'if-none-match': Type.Optional(
    Type.String({
      shownPattern: TAGS,
      description: 'Only while none of these is; `*`: only when there is none',
    }),
  ),
})

/** Headers of a request that `conditionalTermsOf` or `uploadTermsOf` reads. */
export const ConditionalHeaders = Type.Object({ ...once, ...ConditionHeaders.properties })
