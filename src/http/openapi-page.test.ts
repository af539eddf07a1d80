import { expect, it } from 'vitest'
import { failureStatuses } from './openapi-page.ts'

const read = {
  ...{ isChange: false, isGuarded: false, hasTarget: false, hasBody: false },
  ...{ hasPrecondition: false, hasFilter: false },
}
const all = new Set([401, 404, 409, 422, 429, 507])

it.each([
  ['a read', read, all, [400, 500, 503]],
  ['a change', { ...read, isChange: true }, all, [400, 409, 422, 429, 500, 503, 507]],
  [
    'a change of a component without throttling',
    { ...read, isChange: true },
    new Set([409]),
    [400, 409, 500, 503],
  ],
  ['a read with a token', { ...read, isGuarded: true }, all, [400, 401, 403, 500, 503]],
  [
    'a read of one item',
    { ...read, hasTarget: true, hasPrecondition: true },
    all,
    [400, 404, 412, 500, 503],
  ],
  ['a search', { ...read, hasFilter: true, hasBody: true }, all, [400, 413, 415, 422, 500, 503]],
])(
  'the OpenAPI document lists the errors that may occur for %s, and no others',
  (_, causes, own, expected) => {
    expect(failureStatuses(causes, own)).toEqual(expected)
  },
)
