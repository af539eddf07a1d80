import type { JsonObject } from '../base/json.ts'
import type { UnitOfWork } from './unit-of-work.ts'

/** A change as a client names it in `POST /api/ledgers`: an entry without the server id. */
export type Change =
  | { readonly method: 'create_db' | 'delete_db'; readonly db: string }
  | {
      readonly method: 'create_item' | 'update_item'
      readonly db: string
      readonly item: JsonObject
    }
  | { readonly method: 'delete_item'; readonly db: string; readonly id: string }

/** Where a change was recorded; `position` is packed. */
export interface Written {
  readonly position: number
  readonly height: number
  readonly blockId: string
}

/** A change of whoever holds a database. */
export type OwnChange = Change & {
  /**
   * Of a creation: its id was made here and is fresh, and nobody can name it before the answer. So
   * nobody looks whether it is taken.
   */
  readonly assigned?: boolean
}

/** What the holder of a database does with it. */
export interface OwnDatabase {
  /**
   * What `changes` come to. Errors: all that can be told without looking at what is stored, as for
   * `recordChanges`; nothing is refused later because of what is in them.
   */
  prepare(changes: readonly OwnChange[]): UnitOfWork
  /** Records what was prepared, in one block. Errors: those of the writer, and of what is stored. */
  record(unit: UnitOfWork): Promise<Written>
}
