import { existsSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { itemIdFor, type LoadIdentity, LoadStateFile, newLoad, readStamp } from './load-state.ts'

it('the stamp of a file changes with its size and with its modification time', () => {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-test-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'items.json')
  const stampAt = (seconds: number, text: string) => {
    writeFileSync(path, text)
    utimesSync(path, seconds, seconds)
    return readStamp(path)
  }
  const stamp = stampAt(1_000, 'aaa')
  expect(stampAt(1_000, 'aaa')).toBe(stamp)
  expect(stampAt(1_000, 'aaaa')).not.toBe(stamp)
  expect(stampAt(1_001, 'bbb')).not.toBe(stamp)
  expect(readStamp('-')).toBe('stdin')
})

it('the ids of records without id are UUIDs of version 7, equal in a resumed load, and sort like the records', () => {
  const load = newLoad(1_800_000_000_000)
  const ids = Array.from({ length: 5_000 }, (_, n) => itemIdFor(load, n))
  expect(
    ids.every((id) => /^[\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/.test(id)),
  ).toBe(true)
  expect(ids.toSorted()).toEqual(ids)
  expect(new Set(ids).size).toBe(ids.length)
  expect(itemIdFor({ ...load }, 7)).toBe(ids[7])
  expect(itemIdFor(newLoad(1_800_000_000_000), 7)).not.toBe(ids[7])
})

it('leaves no state file of a load that could not begin, because the file would block the next load', () => {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-test-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'items.json.load')
  const full = () => {
    throw Object.assign(new Error('no space'), { code: 'ENOSPC' })
  }
  const identity: LoadIdentity = {
    ...{ db: 'fruit', target: folder, files: ['items.json'], stamps: ['1 1'] },
    ...{ format: null, id: null, schema: null, attachments: true },
  }
  const unwritable = { ...identity, toJSON: full }
  expect(() => LoadStateFile.create(path, unwritable, newLoad(1))).toThrow('cannot be written')
  expect(existsSync(path)).toBe(false)
  LoadStateFile.create(path, identity, newLoad(1)).close(true)
  expect(() => LoadStateFile.create(path, identity, newLoad(1))).toThrow('did not finish')
})
