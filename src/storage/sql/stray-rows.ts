// SQL that finds rows which no read reaches and no comparison with the chain counts. Both engines run it.

interface StrayRows {
  readonly what: string
  /** Returns a row with one number, if there is a stray row. */
  readonly sql: string
}

/** Positions and heights begin with 0, so reads and comparisons begin there, too. */
function below0(table: string, column: string): StrayRows {
  const sql = `SELECT min(${column}) FROM ${table} HAVING min(${column}) < 0`
  return { what: `table ${table} has a row whose ${column} is`, sql }
}

/** Reads each number of a database once, with an index that begins with `db`. */
function inNoDatabase(table: string, existing: string): StrayRows {
  const sql = `WITH RECURSIVE found (db) AS (SELECT min(db) FROM ${table}
    UNION ALL SELECT (SELECT min(db) FROM ${table} WHERE db > found.db) FROM found WHERE db IS NOT NULL)
    SELECT db FROM found WHERE db IS NOT NULL AND db NOT IN (SELECT created FROM databases UNION ALL ${existing}) LIMIT 1`
  return { what: `table ${table} has rows of a database that does not exist:`, sql }
}

export const STRAY_ROWS: readonly StrayRows[] = [
  ...[below0('blocks', 'height'), below0('tree', 'height'), below0('items', 'created')],
  ...[below0('attachments', 'position'), below0('answers', 'position')],
  inNoDatabase('items', 'SELECT db FROM dropped'),
  inNoDatabase('superseded', 'SELECT created FROM deleted_databases'),
  inNoDatabase('deleted_items', 'SELECT created FROM deleted_databases'),
]
