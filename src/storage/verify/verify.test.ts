import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, it } from 'vitest'
import { FILE, inCopy } from '../contract/test-copy.ts'
import { filledFolder, findingIn } from '../contract/test-filled.ts'
import { describeVerify } from '../contract/verify-contract.ts'

describeVerify('SQLite', async (also) => {
  const location = await filledFolder(also)
  return {
    location,
    tamper: (sql) => {
      const database = new DatabaseSync(join(location, FILE))
      database.exec(sql)
      database.close()
    },
  }
})

it('finds an index in which a row is missing', async () => {
  const folder = await filledFolder()
  const { path } = inCopy(folder, (copy) => {
    // Removes the row from the index only, like a damaged page.
    copy.enableDefensive(false)
    copy.exec(
      "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = sql || ' WHERE id <> ''c''' WHERE name = 'items_in_order'",
    )
    copy.exec('PRAGMA writable_schema = RESET')
    copy.exec('REINDEX items_in_order')
    copy.exec(
      "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, ' WHERE id <> ''c''', '') WHERE name = 'items_in_order'",
    )
  })
  const finding = await findingIn(path)
  expect(finding?.what).toContain('holds 2 items, but the chain gives 3')
})
