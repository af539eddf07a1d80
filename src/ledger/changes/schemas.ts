import { Type } from '../../base/shape.ts'
import { SERVERID_PATTERN } from '../schemas.ts'

/** Databases that one follower may name. */
const DATABASES_MAX = 100

/** Whose changes. */
export const ChangesParams = Type.Object({
  serverid: Type.String({
    shownPattern: SERVERID_PATTERN,
    description: 'Whose chain; the own id is at /api/serverid',
  }),
})

/** What of them, and from where on. */
export const ChangesQuery = Type.Object({
  token: Type.Optional(Type.String({ description: 'Only where tokens are required' })),
  db: Type.Optional(
    Type.Array(Type.String(), {
      maxItems: DATABASES_MAX,
      description: 'Only entries of this database; may be given several times',
    }),
  ),
  since: Type.Optional(
    Type.String({
      description:
        'After the entry at this position, `<height>.<index>`; `start` for all entries; `now`, the ' +
        'default, for those to come. The header Last-Event-ID goes before it',
    }),
  ),
})

/** A position to go on after, as browsers send it when they connect again. */
export const ChangesHeaders = Type.Object({
  'last-event-id': Type.Optional(Type.String({ description: 'As `since`' })),
})

/** Events, one for each entry. */
export const ChangesStream = Type.String({
  description:
    'Server-sent events: `id` is the position, `event` is `entry`, `data` is ' +
    '`{"position":…,"timestamp":…,"entry":{…}}`',
})
