// The counts and their nouns in the output of `daicho load` and `daicho verify`.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { runDaicho } from './support/daicho.ts'
import { temporaryFolder, usedNodeFolder } from './support/ledger-node.ts'
import { tamper } from './support/tampered.ts'

/** Replaces server ids, hashes and durations, which differ in each run, and shortens the gaps between columns. */
const masked = (text: string) =>
  text
    .replace(/(server id +)\d+/g, '$1#')
    .replace(/(head +)[0-9a-f]+/g, '$1#')
    .replace(/(time +).*/g, '$1#')
    .replace(/ {2,}/g, '  ')

it('load and verify print each count with its noun, and omit counts of zero', async () => {
  const work = temporaryFolder()
  const folder = join(work, 'data')
  mkdirSync(folder)
  const run = async (...args: string[]) => {
    const { code, stdout } = await runDaicho(args, { SYSTEM_FOLDER: folder })
    return [code, masked(stdout)]
  }
  const load = (rows: readonly unknown[], ...more: string[]) => {
    const file = join(work, 'in.json')
    writeFileSync(file, JSON.stringify({ rows: rows.map((doc) => ({ doc })) }))
    return run('load', 'fruit', file, '--format', 'couchdb', ...more)
  }
  const note = { content_type: 'text/plain', data: 'aGVsbG8=' }
  expect(
    await load([
      { _id: 'fig', _attachments: { note } },
      { _id: 'plum' },
      { _id: '_design/a' },
      null,
    ]),
  ).toEqual([
    1,
    'Loaded: 2 new items into fruit.\ncreated  fruit\nattached  1 attachment\nleft out  1 design documents\nREFUSED  1 record\ntime  #\n',
  ])
  const again = [
    { _id: 'fig', n: 1 },
    { _id: 'plum', _attachments: { note, other: note } },
  ]
  expect(await load(again, '--on-conflict', 'replace')).toEqual([
    0,
    'Loaded: 0 new items into fruit.\nupdated  2 times\nattached  2 attachments\ntime  #\n',
  ])
  expect(await load(again.slice(1), '--on-conflict', 'skip')).toEqual([
    0,
    'Nothing was loaded.\nskipped  1 record\ntime  #\n',
  ])
  expect(await run('verify', folder)).toEqual([
    0,
    'Everything is valid: 6 blocks, 8 entries, 1 database with 2 items.\nserver id  #\nhead  #\nattached  1 blob of 5 bytes\ntime  #\n',
  ])
  const json = JSON.parse((await runDaicho(['verify', folder, '--json'])).stdout)
  expect(json).toMatchObject({ status: true, blocks: 6, entries: 8, databases: 1, items: 2 })
})

it('`backup` itself reports a store that cannot be read, although its head cannot be compared with the signed head', async () => {
  const folder = await usedNodeFolder()
  tamper(folder, 'DROP TABLE blocks')
  const { code, stdout, stderr } = await runDaicho([
    'backup',
    folder,
    join(temporaryFolder(), 'to'),
  ])
  expect([code, stdout]).toEqual([1, ''])
  expect(stderr).toMatch(/^daicho: [^\n]*ledger\.db cannot be copied: no such table: blocks\n$/)
})
