import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import { BlobStage, sha256OfText } from '../contract/test-blobs.ts'

let stage: BlobStage
beforeEach(async () => {
  stage = await BlobStage.open()
})

describe('a blob that arrives in parts', () => {
  const text = 'from elsewhere'
  const content = { sha256: sha256OfText(text), length: text.length }
  const add = (from: number, part: string, of = content) =>
    stage.blobs.addPart(of, from, Buffer.from(part))

  beforeEach(() => stage.recordAttachment('n', text))

  it('gets its final name only after its last part has arrived', async () => {
    expect(await stage.blobs.progress(content)).toEqual({ isComplete: false, bytes: 0 })
    expect(await add(0, text.slice(0, 4))).toBe(4)
    expect(await stage.blobs.progress(content)).toEqual({ isComplete: false, bytes: 4 })
    expect(existsSync(stage.pathOf(text))).toBe(false)
    expect(await add(4, text.slice(4))).toBe(text.length)
    expect(await stage.blobs.progress(content)).toEqual({ isComplete: true, bytes: text.length })
    expect(readFileSync(stage.pathOf(text), 'utf8')).toBe(text)
    expect(stage.incoming()).toEqual([])
    // A repeated part changes nothing.
    expect(await add(0, 'x')).toBe(text.length)
    expect(readFileSync(stage.pathOf(text), 'utf8')).toBe(text)
    expect(await stage.finding()).toBeNull()
  })

  it('a blob that arrives in parts is synced before it gets its final name', async () => {
    await add(0, text.slice(0, 4))
    expect(await stage.recordSyncs(text, () => add(4, text.slice(4)))).toEqual([
      `${text.length} bytes, not named`,
      'a folder, named',
      'a folder, named',
    ])
  })

  it('continues after a crash if an entry still refers to the blob', async () => {
    await add(0, text.slice(0, 4))
    const other = { sha256: sha256OfText('nobody'), length: 6 }
    await add(0, 'nob', other)
    expect(stage.incoming().sort()).toEqual([content.sha256, other.sha256].sort())
    stage.blobs = stage.again()
    await stage.blobs.recover()
    expect(stage.incoming()).toEqual([content.sha256])
    expect(await stage.blobs.progress(content)).toEqual({ isComplete: false, bytes: 4 })
    // The transfer continues even after the store was closed in between.
    await stage.blobs.close()
    stage.blobs = stage.again()
    await stage.blobs.recover()
    expect(await add(4, text.slice(4))).toBe(text.length)
    expect(readFileSync(stage.pathOf(text), 'utf8')).toBe(text)
  })

  it('starts again after a failed sync, because a second sync would wrongly succeed', async () => {
    const file = await open(join(stage.folder, 'ledger.db'))
    const sync = vi.spyOn(Object.getPrototypeOf(file), 'sync')
    await file.close()
    sync.mockRejectedValueOnce(new Error('EIO: simulated'))
    await expect(add(0, text)).rejects.toMatchObject({ code: 'STORE_FAILED' })
    expect(await stage.blobs.progress(content)).toEqual({ isComplete: false, bytes: 0 })
    expect(stage.incoming()).toEqual([])
    sync.mockRestore()
    expect(await add(0, text)).toBe(text.length)
  })

  it('a blob that arrives in parts is replaced by the right bytes if its length is wrong', async () => {
    mkdirSync(join(stage.folder, 'attachments', content.sha256.slice(0, 2)), { recursive: true })
    writeFileSync(stage.pathOf(text), 'cut')
    expect(await stage.blobs.progress(content)).toEqual({ isComplete: false, bytes: 0 })
    expect(await add(0, text)).toBe(text.length)
    expect(readFileSync(stage.pathOf(text), 'utf8')).toBe(text)
  })
})
