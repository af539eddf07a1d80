import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import { NetworkError } from '../errors.ts'
import type { TypeDeclaration } from '../model/model.ts'
import { invalid } from './instances.ts'

/** `value` with the id of the path, which it may leave out. Errors: RESOURCE_ID_MISMATCH. */
export function withId(value: JsonObject, { identifier }: TypeDeclaration, id: string): JsonObject {
  const name = identifier ?? ''
  const given = value[name] ?? id
  if (given === id) return { ...value, [name]: id }
  const message = `the body names another id than the path, '${id}'`
  throw new NetworkError('RESOURCE_ID_MISMATCH', message)
}

/** What a client says of a transaction: its time is ours to tell, and so is its id. */
export function submitted(given: Json): JsonObject {
  if (!isJsonObject(given)) {
    throw invalid([{ path: '', code: 'WRONG_TYPE', message: 'must be an object, a transaction' }])
  }
  const { timestamp: _ignored, transactionId, ...fields } = given
  if (transactionId === undefined || transactionId === null) return fields
  const message = 'the id of a transaction is given by the server'
  throw invalid([{ path: '/transactionId', code: 'ASSIGNED_BY_SERVER', message }])
}
