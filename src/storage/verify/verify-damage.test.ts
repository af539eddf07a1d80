import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { SQLOutputValue } from 'node:sqlite'
import { expect, it } from 'vitest'
import { FILE, inCopy } from '../contract/test-copy.ts'
import { ERASING, filledFolder, findingIn } from '../contract/test-filled.ts'

const PAGE_BYTES = 4096

/**
 * Flips one bit in the last or first byte of a text or BLOB. In a number, flips bit 20 or 30, so that the result is not
 * an adjacent number, which could be valid.
 */
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

/** Whether no request can read the row any more, because its database or index was deleted. */
const isRemnant = (table: string, row: Record<string, SQLOutputValue>) =>
  (table === 'items' && row.db === 0) || (table === 'index_entries' && row.number === 1)

it('finds one flipped bit in each column of each row of each table, and reports its location', async () => {
  const folder = await filledFolder(ERASING)
  const { tables, columnsOf, rowsOf } = inCopy(folder, (copy) => {
    const names = (sql: string) =>
      copy
        .prepare(sql)
        .all()
        .map(({ name }) => String(name))
    const all = names("SELECT name FROM sqlite_schema WHERE type = 'table'")
    const byTable = <Value>(of: (table: string) => Value) =>
      new Map(all.map((table) => [table, of(table)]))
    return {
      tables: all,
      columnsOf: byTable((table) => names(`SELECT name FROM pragma_table_info('${table}')`)),
      rowsOf: byTable((table) => copy.prepare(`SELECT * FROM ${table}`).all()),
    }
  }).result
  let flips = 0
  for (const table of tables) {
    const columns = columnsOf.get(table) ?? []
    const rows = (rowsOf.get(table) ?? []).filter((row) => !isRemnant(table, row))
    // Fails for a new table until `fillStore` adds a row to it.
    expect([table, rows.length > 0]).toEqual([table, true])
    for (const [at, row] of rows.entries()) {
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

it('finds one flipped bit in each index, and reports the name of the index', async () => {
  const folder = await filledFolder(ERASING)
  const { result: indexes } = inCopy(folder, (copy) =>
    copy
      .prepare(
        `SELECT name, (SELECT max(pageno) FROM dbstat d WHERE d.name = s.name AND pagetype = 'leaf' AND ncell > 0) AS page
          FROM sqlite_schema s WHERE type = 'index'`,
      )
      .all()
      .map(({ name, page }) => ({ name: String(name), page: Number(page) })),
  )
  expect(indexes.length).toBeGreaterThan(8)
  for (const { name, page } of indexes) {
    // Fails for a new index until `fillStore` adds an entry to it.
    expect([name, page > 0]).toEqual([name, true])
    const { path } = inCopy(folder, () => null)
    const bytes = readFileSync(join(path, FILE))
    // A page without child pages begins with a header of 8 bytes and the offsets of its cells; a cell begins with the
    // length of its content, whose last byte belongs to an indexed value or a row id.
    const start = (page - 1) * PAGE_BYTES
    const cell = start + bytes.readUInt16BE(start + 8)
    const last = cell + bytes.readUInt8(cell)
    bytes.writeUInt8(bytes.readUInt8(last) ^ 1, last)
    writeFileSync(join(path, FILE), bytes)
    const finding = await findingIn(path)
    expect([name, finding?.what]).toEqual([name, expect.stringContaining(name)])
  }
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
