import type { Model } from '../model/model.ts'
import type { ResourceReader } from './database.ts'
import type { Guard } from './guard.ts'

/** What resources are read from, on behalf of one caller. */
export interface ListSource {
  readonly database: ResourceReader
  readonly model: Model
  readonly guard: Guard
}
