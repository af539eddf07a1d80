import { Type } from '../../base/shape.ts'
import { CURRENCIES, PAIRS, type Pair, type PerEur, type Rates } from '../rates.ts'
import { HISTORY_ROWS_MAX } from '../recorder.ts'

const Instant = Type.String({ format: 'date-time' })

function numbersNamed(names: readonly string[], description: string) {
  return Type.Object(Object.fromEntries(names.map((name) => [name, Type.Number()])), {
    description,
    additionalProperties: false,
  })
}

/** Returns the schema of an enum. Includes `type`, because documentation pages need it to show the values. */
function choice<Value extends string>(values: readonly Value[], description: string) {
  return Type.Unsafe<Value>({ type: 'string', enum: [...values], description })
}

/** The twenty rates, by pair. Source: specification, “R: rate feed response”. */
const Rate = Type.Unsafe<Rates>(
  numbersNamed(PAIRS, 'Price of one unit of the first currency in units of the second one'),
)

const Result = Type.Object(
  {
    datetime: Type.String({
      examples: ['2026-10-07 09:30:00+0'],
      pattern: '^\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d\\+0$',
      description: 'Time of the request, in GMT',
    }),
    rate: Rate,
    stale: Type.Optional(
      Type.Literal(true, {
        description: 'Present if the rates are older than `RATES_STALE_AFTER`',
      }),
    ),
    as_of: Type.Optional(
      Type.String({ description: 'Date or instant of the rates; present if `stale` is present' }),
    ),
  },
  { additionalProperties: false },
)

const metaFields = {
  source: Type.String({ description: 'Name of the source; several sources are joined by +' }),
  origin: Type.Union([Type.String(), Type.Null()], {
    description: 'Original source of stored rates',
  }),
  asOf: Type.String({ description: 'Date or instant of the rates' }),
  ageSeconds: Type.Integer(),
  stale: Type.Boolean({ description: 'Whether no live source has confirmed the rates recently' }),
  confirmedBy: Type.Union([Type.String(), Type.Null()]),
  confirmedAt: Type.Union([Instant, Type.Null()]),
  proxies: Type.Array(Type.String(), { description: 'Pairs computed from a substitute' }),
  nextRefresh: Type.Union([Instant, Type.Null()]),
}

/** The reply of `GET /`. `meta` is present with `detail=1`. */
export const RatesReply = Type.Object({
  status: Type.Literal(true),
  result: Result,
  meta: Type.Optional(
    Type.Object({
      ...metaFields,
      perEur: Type.Unsafe<PerEur>(
        numbersNamed(CURRENCIES, 'Unrounded units per euro, from which all rates are computed'),
      ),
    }),
  ),
})

export const RatesQuery = Type.Object({
  detail: Type.Optional(choice<'0' | '1'>(['0', '1'], '1 adds `meta`, the origin of the rates')),
})

/** Format of a date, only for the documentation. `RateFeed.history` checks the date. */
const DATE = '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$'

export const HistoryParams = Type.Object({
  pair: choice<Pair>(PAIRS, 'Currency pair'),
  from: Type.Optional(
    Type.String({ description: 'First date, YYYY-MM-DD', maxLength: 32, documentedPattern: DATE }),
  ),
  to: Type.Optional(
    Type.String({ description: 'Last date, YYYY-MM-DD', maxLength: 32, documentedPattern: DATE }),
  ),
  limit: Type.Integer({ minimum: 1, maximum: HISTORY_ROWS_MAX, default: 100 }),
  offset: Type.Integer({ minimum: 0, maximum: 1e9, default: 0 }),
})

/** The reply of `GET /history`, oldest first. */
export const HistoryReply = Type.Object({
  status: Type.Literal(true),
  pair: Type.String(),
  rows: Type.Array(
    Type.Object({
      asOf: Type.String(),
      rate: Type.Number(),
      source: Type.String(),
      acceptedAt: Instant,
      id: Type.String({ description: 'Id of the item in the ledger database `rates`' }),
      position: Type.String({
        description: 'Position in the ledger: serverid/height.index',
      }),
      proof: Type.String({
        description: 'Path in the ledger API that returns the block of this rate with a proof',
      }),
    }),
  ),
  limit: Type.Integer(),
  offset: Type.Integer(),
})

/** The reply of `GET /healthz`, with status 200 or 503. */
export const HealthReply = Type.Object({
  status: Type.Boolean({ description: 'Whether GET / returns rates' }),
  health: Type.Union([Type.Literal('ok'), Type.Literal('degraded'), Type.Literal('down')]),
  vector: Type.Union([Type.Object(metaFields), Type.Null()]),
  sources: Type.Array(
    Type.Object({
      name: Type.String(),
      lastSuccessAt: Type.Union([Instant, Type.Null()]),
      lastAttemptAt: Type.Union([Instant, Type.Null()]),
      asOf: Type.Union([Type.String(), Type.Null()]),
      failures: Type.Integer(),
      lastError: Type.Union([Type.String(), Type.Null()]),
      backOffUntil: Type.Union([Instant, Type.Null()]),
    }),
  ),
  recordsPending: Type.Union([Type.Integer(), Type.Null()]),
})
