import { text } from '../sql/rows.ts'
import type { Queries } from './connection.ts'

// The tables that `schema.ts` creates, as DESCRIPTION describes them.

const COLUMNS = `
  answers: digest text C not null, entries bigint not null, fingerprint text C not null, key text C not null, position bigint not null, timestamp bigint not null
  attachments: content_type text C not null, db bigint not null, ended bigint, id text C not null, length bigint not null, name text C not null, position bigint not null, sha256 text C not null
  blob_chunks: bytes bytea not null, start bigint not null, upload uuid not null
  blob_uploads: expires timestamp with time zone not null, parts boolean not null, sha256 text C, upload uuid not null
  blobs: sha256 text C not null, upload uuid not null
  blocks: blinds bytea not null, body text C not null, commitments bytea not null, height bigint not null, id text C not null, nonce bigint not null, prev_id text C, root text C not null, timestamps text C not null
  daicho_schema: version integer
  databases: created bigint not null, name text C not null
  deleted_databases: created bigint not null, deleted bigint not null, name text C not null
  deleted_items: created bigint not null, db bigint not null, deleted bigint not null, id text C not null
  dropped: db bigint not null
  erasures: eraser bigint not null, position bigint not null
  index_entries: created bigint not null, key bytea not null, number bigint not null, sorts boolean not null
  indexes: built bigint not null, db bigint not null, number bigint not null, path text C not null
  items: created bigint not null, db bigint not null, id text C not null, item text C not null, revision bigint not null
  node: indexes text C not null, serverid bigint not null
  shared_texts: name text C not null, text text C, version bigint not null
  superseded: db bigint not null, id text C not null, position bigint not null
  tree: hashes bytea not null, height bigint not null
  uncompacted: position bigint not null
  vacuum_probe: number bigint not null`

/** Definitions of the indexes, one per line. */
const INDEXES = `
  answers_key_key on answers unique btree (key)
  answers_pkey on answers unique btree ("position")
  attachments_by_content on attachments btree (sha256, length)
  attachments_by_name on attachments unique btree (db, id, name) WHERE (ended IS NULL)
  attachments_in_order on attachments btree (db, id, name, "position")
  attachments_pkey on attachments unique btree ("position")
  blob_chunks_pkey on blob_chunks unique btree (upload, start)
  blob_uploads_by_content on blob_uploads btree (sha256)
  blob_uploads_in_parts on blob_uploads unique btree (sha256) WHERE parts
  blob_uploads_pkey on blob_uploads unique btree (upload)
  blobs_by_upload on blobs btree (upload)
  blobs_pkey on blobs unique btree (sha256)
  blocks_pkey on blocks unique btree (height)
  databases_name_key on databases unique btree (name)
  databases_pkey on databases unique btree (created)
  deleted_by_name on deleted_databases btree (name)
  deleted_databases_pkey on deleted_databases unique btree (created)
  deleted_items_in_order on deleted_items btree (db, created, deleted)
  deleted_items_pkey on deleted_items unique btree (db, id, deleted)
  dropped_pkey on dropped unique btree (db)
  erasures_in_order on erasures btree (eraser)
  erasures_pkey on erasures unique btree ("position")
  index_entries_by_item on index_entries btree (created)
  index_entries_pkey on index_entries unique btree (number, key, created)
  indexes_pkey on indexes unique btree (number)
  items_db_id_key on items unique btree (db, id)
  items_in_order on items btree (db, created)
  items_pkey on items unique btree (created)
  node_once on node unique btree ((0))
  shared_texts_pkey on shared_texts unique btree (name)
  superseded_pkey on superseded unique btree (db, id, "position")
  tree_pkey on tree unique btree (height)
  uncompacted_pkey on uncompacted unique btree ("position")`

/** Names, tables, columns and predicates of the indexes on columns. */
export const INDEX_PARTS = splitLines(INDEXES).flatMap((line) => {
  const parts = /^(\w+) on (\w+) [a-z ]*\(([^()]+)\)(?: WHERE (.*))?$/.exec(line)
  if (parts === null) return []
  const [, name = '', table = '', columns = '', where = 'true'] = parts
  return [{ name, table, columns, where }]
})

function splitLines(block: string): string[] {
  return block.trim().split(/\n */)
}

const TABLE_COLUMNS = new Map(
  splitLines(COLUMNS).map((line) => {
    const [table = '', columns = ''] = line.split(': ')
    return [table, columns.split(', ')]
  }),
)
export const TABLE_NAMES: readonly string[] = [...TABLE_COLUMNS.keys()]

const EXPECTED: readonly string[] = [
  ...TABLE_NAMES.map((table) => `table ${table}`),
  ...[...TABLE_COLUMNS].flatMap(([table, columns]) =>
    columns.map((column) => `column ${table}.${column}`),
  ),
  ...splitLines(INDEXES).map((index) => `index ${index}`),
]

/**
 * Describes the tables, with one line per object that can change the effect of a statement. Other objects of the
 * database, such as those of extensions, do not concern the store.
 */
const DESCRIPTION = `WITH tables AS (
    SELECT c.oid, c.relname AS name, c.relkind, c.relpersistence, c.relrowsecurity
    FROM unnest('{${TABLE_NAMES.join(',')}}'::text[]) AS named (name)
    JOIN pg_class AS c ON c.oid = to_regclass(named.name))
  SELECT 'table ' || name || CASE WHEN relkind <> 'r' THEN ' of another kind' ELSE '' END
      || CASE WHEN relpersistence <> 'p' THEN ' without a log' ELSE '' END
      || CASE WHEN relrowsecurity THEN ' with row security' ELSE '' END AS line FROM tables
  UNION ALL SELECT 'column ' || t.name || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
      || coalesce(' ' || l.collname, '') || CASE WHEN a.attnotnull THEN ' not null' ELSE '' END
      || CASE WHEN a.atthasdef THEN ' with a default' ELSE '' END
      || CASE WHEN a.attidentity <> '' OR a.attgenerated <> '' THEN ' generated' ELSE '' END
    FROM tables AS t JOIN pg_attribute AS a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_collation AS l ON l.oid = a.attcollation
  UNION ALL SELECT 'index ' || i.relname || ' on ' || t.name || ' '
      || CASE WHEN x.indisunique THEN 'unique ' ELSE '' END
      || substring(pg_get_indexdef(x.indexrelid) FROM ' USING (.*)')
    FROM tables AS t JOIN pg_index AS x ON x.indrelid = t.oid JOIN pg_class AS i ON i.oid = x.indexrelid
  UNION ALL SELECT 'constraint ' || k.conname || ' on ' || t.name
    FROM tables AS t JOIN pg_constraint AS k ON k.conrelid = t.oid AND k.contype NOT IN ('p', 'u', 'n')
  UNION ALL SELECT 'trigger ' || g.tgname || ' on ' || t.name
    FROM tables AS t JOIN pg_trigger AS g ON g.tgrelid = t.oid AND NOT g.tgisinternal
  UNION ALL SELECT 'rule ' || r.rulename || ' on ' || t.name
    FROM tables AS t JOIN pg_rewrite AS r ON r.ev_class = t.oid
  UNION ALL SELECT 'table ' || h.inhrelid::regclass || ' as a part of ' || t.name
    FROM tables AS t JOIN pg_inherits AS h ON h.inhparent = t.oid
  ORDER BY 1`

/**
 * Returns the first object of the schema that differs from the object that `schema.ts` creates, or null. A trigger,
 * a rule or another collation could change rows unnoticed, and a missing index makes statements slow.
 */
export async function schemaDifference(queries: Queries): Promise<string | null> {
  const rows = await queries.rows(DESCRIPTION, [])
  const found = rows.map(([line]) => text(line, 'line'))
  const lacking = EXPECTED.find((line) => !found.includes(line))
  const added = found.find((line) => !EXPECTED.includes(line))
  if (added !== undefined)
    return `the schema of the database was changed: it has an unexpected ${added}`
  return lacking === undefined
    ? null
    : `the schema of the database was changed: it lacks ${lacking}`
}
