import { REMOVED } from '../search/declared-indexes.ts'
import { type Dialect, translated } from './dialect.ts'

const ITEM = 'id, created, revision, item'
const BLOCK = 'height, id, prev_id, nonce, root, body, timestamps, blinds, commitments'
const RECORD = 'position, key, fingerprint, entries, timestamp, digest'
const NAMED = '(SELECT created FROM databases WHERE name = $1)'

/** The databases that existed before the entry at $1. */
const DATABASES_BEFORE = `SELECT created, name FROM databases WHERE created < $1
  UNION ALL SELECT created, name FROM deleted_databases WHERE created < $1 AND deleted >= $1`

/** Returns the positions of a page of an item's revisions. The current revision is newer than all others, or absent. */
function positions(operator: '<' | '>', direction: 'ASC' | 'DESC'): string {
  return `SELECT position FROM superseded WHERE db = $1 AND id = $2 AND position ${operator} $3
    UNION ALL SELECT revision FROM items WHERE db = $1 AND id = $2 AND revision ${operator} $3
    ORDER BY 1 ${direction} LIMIT $4`
}

/** The first lives of items of database $1 after $2. Items of a deleted database are in `items` until maintenance moves them. */
const LIVES_IN = {
  items: `SELECT id, created, revision,
      (SELECT deleted FROM deleted_databases WHERE created = $1) AS deleted
    FROM items WHERE db = $1 AND created > $2 ORDER BY created LIMIT $3`,
  deleted: `SELECT id, created, CAST(NULL AS bigint) AS revision, deleted
    FROM deleted_items WHERE db = $1 AND created > $2 ORDER BY created LIMIT $3`,
}

const UNTIL_DELETED = 'AND (life.deleted IS NULL OR position < life.deleted)'
const HAS_FORMER_CONTENT = `CASE WHEN EXISTS (
    SELECT 1 FROM superseded AS s WHERE db = $1 AND id = life.id AND position >= life.created
      ${UNTIL_DELETED} AND NOT EXISTS (SELECT 1 FROM erasures AS e WHERE e.position = s.position))
  OR EXISTS (SELECT 1 FROM attachments WHERE db = $1 AND id = life.id ${UNTIL_DELETED})
  OR life.revision < life.deleted
      AND NOT EXISTS (SELECT 1 FROM erasures WHERE position = life.revision)
    THEN 1 ELSE 0 END`

/** Returns the statements of `SqlReader` for an engine. */
export function readerStatements(dialect: Dialect) {
  return translated(dialect, { ...itemStatements(dialect), ...chainStatements(dialect) })
}

function itemStatements({ page, lines, itemsById, texts }: Dialect) {
  return {
    databases: 'SELECT created, name FROM databases ORDER BY created',
    database: 'SELECT created, name FROM databases WHERE name = $1',
    databasesBefore: `${DATABASES_BEFORE} ORDER BY created`,
    databaseBefore: `SELECT created, name FROM (${DATABASES_BEFORE}) AS found WHERE name = $2`,
    // The lives of an item do not overlap, so the next deletion after $3 belongs to the only life that can include $3.
    createdBefore: `SELECT created FROM items WHERE db = $1 AND id = $2 AND created < $3
      UNION ALL SELECT created FROM deleted_items WHERE db = $1 AND id = $2 AND created < $3 AND deleted =
        (SELECT min(deleted) FROM deleted_items WHERE db = $1 AND id = $2 AND deleted >= $3)`,
    item: `SELECT ${ITEM} FROM items WHERE db = ${NAMED} AND id = $2`,
    existingIds: `SELECT id FROM ${itemsById} WHERE db = ${NAMED} AND id IN (${texts('$2')})`,
    // Fast for long items too: both engines store the length beside the text.
    itemBytes: `SELECT octet_length(item) FROM items WHERE db = ${NAMED} AND id = $2`,
    ids: `SELECT id, created, revision FROM items
      WHERE db = $1 AND created > $2 ORDER BY created LIMIT $3 OFFSET $4`,
    items: page(
      `SELECT ${ITEM} FROM items
        WHERE db = $1 AND created > $2 ORDER BY created LIMIT $3 OFFSET $4`,
      'octet_length(item)',
      'created',
    ),
    itemsByCreation: page(
      `SELECT ${ITEM}, db FROM items WHERE created > $1 ORDER BY created LIMIT $2`,
      'octet_length(item)',
      'created',
    ),
    countItems: 'SELECT count(*) FROM items WHERE db = $1',
    countIds: `SELECT count(*) FROM ${itemsById} WHERE db = $1 AND id >= $2 AND id < $3`,
    // Composes, from all rows created at one height, the entries that would have created these rows, and compares the
    // entries with the block. Compares the sizes first, so that the composed text is not much longer than the block.
    plainCreations: `SELECT count(*), min(i.created), max(i.created), min(i.db), max(i.db), min(d.name),
        ${lines('i.id', 'i.created')}, CASE WHEN min(CASE WHEN i.created = i.revision THEN 1 ELSE 0 END) = 1
          AND ${lines('$1 || d.name || $2 || i.item || $3', 'i.created')} = CAST($4 AS text)
        THEN 1 ELSE 0 END
      FROM items AS i CROSS JOIN databases AS d
      WHERE d.created = i.db AND i.created >= $5 AND i.created < $6
        AND (SELECT sum(octet_length(id) + octet_length(item)) FROM items WHERE created >= $5 AND created < $6)
          <= octet_length(CAST($4 AS text))`,
    creations: `SELECT d.name, d.created, count(*) FROM items AS i CROSS JOIN databases AS d
      WHERE d.created = i.db AND i.created >= $1 AND i.created < $2 GROUP BY d.created`,
    indexes: `SELECT d.name, d.created, i.path, i.built, (SELECT max(height) FROM blocks)
      FROM indexes AS i JOIN databases AS d ON d.created = i.db
      WHERE i.built > ${REMOVED} ORDER BY d.created, i.number`,
  }
}

function chainStatements({ page, elements, lastLine }: Dialect) {
  return {
    oldestFirst: positions('>', 'ASC'),
    newestFirst: positions('<', 'DESC'),
    unerasedRevisions: `SELECT position FROM (
        SELECT position FROM superseded WHERE db = $1 AND id = $2 AND position >= $3 AND position < $4
        UNION ALL SELECT revision FROM items WHERE db = $1 AND id = $2 AND revision >= $3
          AND revision < $4 AND EXISTS (SELECT 1 FROM dropped AS d WHERE d.db = items.db)) AS s
      WHERE NOT EXISTS (SELECT 1 FROM erasures AS e WHERE e.position = s.position)
        AND NOT EXISTS (SELECT 1 FROM deleted_items AS d
          WHERE d.db = $1 AND d.id = $2 AND d.deleted = s.position)
      ORDER BY position LIMIT $5`,
    lives: `SELECT id, created, deleted, coalesce(revision, (SELECT max(s.position) FROM superseded AS s
          WHERE s.db = $1 AND s.id = life.id AND s.position < life.deleted)),
        ${HAS_FORMER_CONTENT}
      FROM (SELECT * FROM (${LIVES_IN.items}) AS i UNION ALL SELECT * FROM (${LIVES_IN.deleted}) AS d
        ORDER BY created LIMIT $3) AS life ORDER BY created`,
    hasRevision: `SELECT 1 FROM superseded WHERE db = $1 AND id = $2 AND position = $3
      UNION ALL SELECT 1 FROM items WHERE db = $1 AND id = $2 AND revision = $3`,
    isRevised: `SELECT 1 FROM superseded
      WHERE db = $1 AND id = $2 AND position >= $3 AND position < $4 LIMIT 1`,
    countSuperseded: 'SELECT count(*) FROM superseded WHERE db = $1',
    idempotencyRecord: `SELECT ${RECORD} FROM answers WHERE key = $1`,
    idempotencyRecords: `SELECT ${RECORD} FROM answers
      WHERE position > $1 ORDER BY position LIMIT $2`,
    dropped: 'SELECT db FROM dropped ORDER BY db',
    deleted: 'SELECT created, name, deleted FROM deleted_databases ORDER BY created',
    deletedItem: `SELECT id, created, deleted FROM deleted_items
      WHERE db = $1 AND created = $2`,
    itemDeletedBy: `SELECT id, created, deleted FROM deleted_items
      WHERE db = $1 AND id = $2 AND deleted = $3`,
    countDeleted: `SELECT count(*), count(CASE WHEN deleted = $2 THEN 1 END)
      FROM deleted_items WHERE db = $1`,
    former: 'SELECT created FROM deleted_databases WHERE name = $1 ORDER BY created',
    head: `SELECT height, id, ${lastLine('timestamps')} FROM blocks
      ORDER BY height DESC LIMIT 1`,
    blockTime: `SELECT ${lastLine('timestamps')} FROM blocks WHERE height = $1`,
    blocks: page(
      `SELECT ${BLOCK} FROM blocks WHERE height >= $1 ORDER BY height LIMIT $2`,
      'octet_length(body)',
      'height',
    ),
    countEntries: `SELECT CAST(coalesce(sum(octet_length(commitments)), 0) / 32 AS bigint)
      FROM blocks WHERE height >= $1 AND height < $2`,
    headers: `SELECT height, prev_id, nonce, root, octet_length(commitments)
      FROM blocks WHERE height >= $1 ORDER BY height LIMIT $2`,
    treeNodes: `SELECT t.height, t.hashes
      FROM ${elements('$1')} LEFT JOIN tree AS t ON t.height = n.value`,
    treeLeaves: 'SELECT hashes FROM tree WHERE height >= $1 ORDER BY height LIMIT $2',
    eraser: 'SELECT eraser FROM erasures WHERE position = $1',
    countErased: 'SELECT count(*) FROM erasures',
    uncompacted: 'SELECT position FROM uncompacted ORDER BY position',
  }
}
