// The baseline for loading: parses each line of a file and inserts it into SQLite, 1,000 rows per durable transaction.
import { createReadStream } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { DatabaseSync } from 'node:sqlite'

const [folder = '.', file = ''] = process.argv.slice(2)
const ROWS = 1_000

const database = new DatabaseSync(join(folder, 'bare.db'))
database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL')
database.exec('CREATE TABLE item (id TEXT PRIMARY KEY, text TEXT NOT NULL) STRICT')
const insert = database.prepare('INSERT INTO item VALUES (?, ?)')
let rows = 0
database.exec('BEGIN')
for await (const line of createInterface({ input: createReadStream(file) })) {
  const item: unknown = JSON.parse(line)
  const id = typeof item === 'object' && item !== null && 'id' in item ? String(item.id) : ''
  insert.run(id, JSON.stringify(item))
  rows += 1
  if (rows % ROWS === 0) database.exec('COMMIT; BEGIN')
}
database.exec('COMMIT')
database.close()
