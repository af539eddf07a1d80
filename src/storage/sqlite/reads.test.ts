import { DatabaseSync } from 'node:sqlite'
import { expect, it } from 'vitest'
import { StoreError } from '../port/errors.ts'
import { NO_VIEW, Reads, viewPerIteration } from './reads.ts'
import { StatementCache } from './statements.ts'

const STATEMENTS = new StatementCache(new DatabaseSync(':memory:'))

/** An error as the driver throws it. */
function engineError(errcode: number, message: string): Error {
  return Object.assign(new Error(message), { code: 'ERR_SQLITE_ERROR', errcode })
}

it.each([
  [266, 'disk I/O error', 'STORE_DAMAGED'], // SQLITE_IOERR_READ
  [11, 'database disk image is malformed', 'STORE_DAMAGED'],
  [26, 'file is not a database', 'STORE_DAMAGED'],
  [14, 'unable to open database file', 'STORE_FAILED'],
  [5, 'database is locked', 'STORE_FAILED'],
])('reports result code %i of a read (%s) as %s', (errcode, message, code) => {
  const reads = new Reads(NO_VIEW, STATEMENTS)
  const read = () => {
    throw engineError(errcode, message)
  }
  expect(() => reads.run(read)).toThrow(expect.objectContaining({ name: 'StoreError', code }))
  expect(reads.failure()?.message).toContain(message)
})

it('reports the first failure until the failed read succeeds', () => {
  const reads = new Reads(NO_VIEW, STATEMENTS)
  expect(reads.failure()).toBeNull()
  let isBroken = true
  let count = 0
  const fails = () => {
    count += 1
    if (isBroken) throw engineError(266, 'disk I/O error')
    return 'value'
  }
  expect(() => reads.run(fails)).toThrow('disk I/O error')
  expect(reads.run(() => 7)).toBe(7)
  expect(() =>
    reads.run(() => {
      throw engineError(11, 'malformed')
    }),
  ).toThrow('malformed')
  expect(reads.failure()).toMatchObject({
    code: 'STORE_DAMAGED',
    message: 'the file of the store cannot be read: disk I/O error',
  })
  expect(count).toBe(2)
  isBroken = false
  expect(reads.failure()).toBeNull()
  expect(reads.failure()).toBeNull()
  expect(count).toBe(3)
})

it('rethrows an error that does not concern the file, and does not remember it as a failed read', () => {
  const reads = new Reads(NO_VIEW, STATEMENTS)
  for (const error of [new StoreError('SEARCH_TOO_LARGE', 'large'), new TypeError('a defect')]) {
    const read = () => {
      throw error
    }
    expect(() => reads.run(read)).toThrow(error)
  }
  expect(reads.failure()).toBeNull()
})

it('the error for a stored text that is not JSON does not contain the text', () => {
  const reads = new Reads(NO_VIEW, STATEMENTS)
  expect(() => reads.run(() => JSON.parse('secret'))).toThrow(
    expect.objectContaining({ code: 'STORE_DAMAGED', message: 'a text in the store is not JSON' }),
  )
})

it('ends a view without an error if SQLite has already ended its transaction', () => {
  const database = new DatabaseSync(':memory:')
  const view = viewPerIteration(database)
  view.begin()
  database.exec('ROLLBACK')
  expect(() => view.end()).not.toThrow()
  view.begin()
  expect(database.isTransaction).toBe(true)
  view.end()
  expect(database.isTransaction).toBe(false)
  database.close()
})
