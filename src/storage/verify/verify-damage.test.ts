import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync, type SQLOutputValue } from 'node:sqlite'
import { expect, it } from 'vitest'
import { FILE, inCopy } from '../test-copy.ts'
import { ERASING, filledFolder, findingIn } from '../test-filled.ts'

const PAGE_BYTES = 4096

/** Flips one bit of the value's last or first byte; of a number, a bit that adjacent numbers have in common. */
function flipped(value: SQLOutputValue, last: boolean): SQLOutputValue {
  if (typeof value === 'number') {
    const bit = last ? 2 ** 20 : 2 ** 30
    return value + (Math.floor(value / bit) % 2 === 0 ? bit : -bit)
  }
  if (typeof value === 'string') {
    const at = last ? value.length - 1 : 0
    const unit = String.fromCharCode(value.charCodeAt(at) ^ 16)
    return value.slice(0, at) + unit + value.slice(at + 1)
  }
  if (value instanceof Uint8Array) {
    const at = last ? value.length - 1 : 0
    return value.map((byte, i) => (i === at ? byte ^ 1 : byte))
  }
  return 'x'
}

it('finds one flipped bit in every column of every row of every table, and its location', async () => {
  const folder = await filledFolder(ERASING)
  const database = new DatabaseSync(join(folder, FILE))
  const names = (sql: string) =>
    database
      .prepare(sql)
      .all()
      .map((row) => String(row.name))
  const tables = names("SELECT name FROM sqlite_schema WHERE type = 'table'")
  expect(tables).toEqual([
    ...['node', 'databases', 'dropped', 'blocks', 'items', 'attachments', 'superseded', 'answers'],
    ...['indexes', 'index_entries', 'dropped_indexes'],
    ...['tree', 'erasures', 'uncompacted'],
  ])
  database.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  database.close()

  let flips = 0
  for (const table of tables) {
    const columns = inCopy(folder, (copy) =>
      copy
        .prepare(`SELECT name FROM pragma_table_info('${table}')`)
        .all()
        .map((row) => String(row.name)),
    ).result
    const rows = inCopy(folder, (copy) => copy.prepare(`SELECT * FROM ${table}`).all()).result
    expect(rows.length).toBeGreaterThan(0)
    for (const [at, row] of rows.entries()) {
      // The remnants of a deleted database are being removed and unreadable.
      if ((table === 'items' || table === 'superseded') && row.db === 0) continue
      if (table === 'items' && row.db === 0) continue
      if (table === 'index_entries' && row.number === 1) continue
      for (const column of columns) {
        for (const last of [true, false]) {
          const value =
            column === 'ended' && row.ended === null ? 7 : flipped(row[column] ?? null, last)
          const { path } = inCopy(folder, (copy) => {
            const same = columns.map((name) => `${name} IS ?`).join(' AND ')
            copy
              .prepare(`UPDATE ${table} SET ${column} = ? WHERE ${same}`)
              .run(value, ...columns.map((name) => row[name] ?? null))
          })
          const finding = await findingIn(path)
          expect(finding, `${table}.${column} of row ${at}`).not.toBeNull()
          expect(finding?.what).not.toBe('')
          if (table === 'blocks' && column === 'body') expect(finding?.height).toBe(at)
          if (table === 'items' && column === 'item')
            expect(finding?.what).toContain('another content')
          flips += 1
        }
      }
    }
  }
  expect(flips).toBeGreaterThan(100)
})

it('ends with a finding or STORE_DAMAGED, whichever page is overwritten', async () => {
  const folder = await filledFolder(ERASING)
  const whole = readFileSync(join(inCopy(folder, () => null).path, FILE))
  let found = 0
  for (let at = PAGE_BYTES; at < whole.length; at += PAGE_BYTES) {
    const { path } = inCopy(folder, () => null)
    // 0xff is not a valid page type, so this page does not merely look empty.
    writeFileSync(join(path, FILE), Buffer.from(whole).fill(0xff, at, at + PAGE_BYTES))
    try {
      const finding = await findingIn(path)
      // Damage of an empty page, or of an index that verification does not read, may be undetected.
      if (finding !== null) found += 1
    } catch (error) {
      expect(error, `page ${at / PAGE_BYTES}`).toMatchObject({ code: 'STORE_DAMAGED' })
    }
  }
  expect(found).toBeGreaterThan(5)
})
