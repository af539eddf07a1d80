import { hash } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import fc from 'fast-check'
import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { Contents } from './contents.ts'
import { openStore, openStoreReader } from './open.ts'
import { attachmentEraser } from './sqlite/attachments.ts'
import type { Store, StoreReader } from './store.ts'
import { appendEntries, CONTRACT_SERVER_ID, entry } from './store-contract.ts'
import { verifyContents } from './verify-contents.ts'

let folder: string
let store: Store
let reader: StoreReader
let contents: Contents

const sure = { isRecorded: () => true, mayBeRecorded: () => false }

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'daicho-test-'))
  store = openStore({ folder, serverId: CONTRACT_SERVER_ID, durable: true })
  await appendEntries(store, [entry.createDb('fruit'), entry.create('fruit', 'a')])
  reader = openStoreReader(folder, { frozen: false })
  contents = new Contents(folder, reader.attachments, true)
  onTestFinished(async () => {
    await contents.close()
    await reader.close()
    await store.close()
    rmSync(folder, { recursive: true, force: true })
  })
})

async function* chunksOf(...texts: string[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield Buffer.from(text)
}

const shaOf = (text: string) => hash('sha256', text, 'hex')
const pathOf = (text: string) =>
  join(folder, 'attachments', shaOf(text).slice(0, 2), shaOf(text).slice(2))
const incoming = () => readdirSync(join(folder, 'attachments', 'incoming'))

/** Takes `text` and records it as attachment `name` of the item. */
function put(name: string, text: string): Promise<void> {
  return contents.take(
    chunksOf(text.slice(0, 3), text.slice(3)),
    async ({ sha256, length }) => {
      expect([sha256, length]).toEqual([shaOf(text), Buffer.byteLength(text)])
      expect(readFileSync(pathOf(text), 'utf8')).toBe(text)
      await appendEntries(store, [entry.attach('fruit', 'a', name, text)])
      reader.refresh()
    },
    sure,
  )
}

async function findingIn(): Promise<string | null> {
  const frozen = openStoreReader(folder, { frozen: true })
  try {
    return (await verifyContents(frozen, folder)).finding?.what ?? null
  } finally {
    await frozen.close()
  }
}

it('a content is whole and in its place before its entry is recorded, and kept once', async () => {
  await Promise.all([put('one', 'the same'), put('two', 'the same'), put('three', 'another')])
  expect(incoming()).toEqual([])
  await contents.close()
  expect(readdirSync(join(folder, 'attachments')).toSorted()).toEqual(
    [shaOf('the same').slice(0, 2), shaOf('another').slice(0, 2)].toSorted(),
  )
  expect(await findingIn()).toBeNull()
})

it('content of any length, in pieces of any length, is kept byte for byte', async () => {
  for (const length of [0, 1, 262_143, 262_144, 262_145, 900_000]) {
    const bytes = Buffer.from(Array.from({ length }, (_, at) => (at * 7 + length) & 255))
    const pieces = async function* () {
      for (let at = 0; at < length; at += 77_777) yield bytes.subarray(at, at + 77_777)
    }
    const sha256 = await contents.take(pieces(), async (content) => content.sha256, sure)
    expect([length, sha256]).toEqual([length, hash('sha256', bytes, 'hex')])
    const file = await contents.read(sha256)
    expect((await file?.readFile())?.equals(bytes)).toBe(true)
    await file?.close()
  }
})

it('a damaged file is whole again when its content is sent again', async () => {
  await put('one', 'precious')
  writeFileSync(pathOf('precious'), 'precioux')
  expect(await findingIn()).toContain('has other bytes')
  await put('two', 'precious')
  expect(await findingIn()).toBeNull()
})

describe('nothing is left', () => {
  it('of bytes that break off, and of entries that are refused', async () => {
    async function* broken(): AsyncGenerator<Uint8Array> {
      yield Buffer.alloc(600_000)
      throw new Error('broken off')
    }
    await expect(contents.take(broken(), async () => {}, sure)).rejects.toThrow('broken off')
    const refused = contents.take(chunksOf('refused'), () => Promise.reject(new Error('no')), sure)
    await expect(refused).rejects.toThrow('no')
    expect(incoming()).toEqual([])
    expect(existsSync(pathOf('refused'))).toBe(false)
  })

  it('of an upload for which the disk has no room: STORE_FULL', async () => {
    const probe = await open(join(folder, 'node.key'), 'w')
    const kind = Object.getPrototypeOf(probe)
    await probe.close()
    const full = Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
    for (const method of ['write', 'sync']) {
      const spy = vi.spyOn(kind, method).mockRejectedValueOnce(full)
      await expect(put('x', `without room to ${method}`)).rejects.toMatchObject({
        code: 'STORE_FULL',
      })
      spy.mockRestore()
      expect(incoming()).toEqual([])
    }
    await put('x', 'with room')
    expect(await findingIn()).toBeNull()
  })
})

it('a refused upload does not take away what another one has recorded or is about to', async () => {
  const steps: string[] = []
  let goOn = () => {}
  const halted = new Promise<void>((resolve) => {
    goOn = resolve
  })
  // The first has placed the content and waits; the second is refused meanwhile.
  const first = contents.take(
    chunksOf('shared'),
    async () => {
      steps.push('placed')
      await halted
      await appendEntries(store, [entry.attach('fruit', 'a', 'n', 'shared')])
      reader.refresh()
    },
    sure,
  )
  await vi.waitUntil(() => steps.length === 1)
  const refuse = () =>
    contents.take(chunksOf('shared'), () => Promise.reject(new Error('no')), sure)
  await expect(refuse()).rejects.toThrow('no')
  expect(existsSync(pathOf('shared'))).toBe(true)
  goOn()
  await first
  await expect(refuse()).rejects.toThrow('no')
  expect(readFileSync(pathOf('shared'), 'utf8')).toBe('shared')
})

it('a content for which nothing was recorded goes again, unless others name it', async () => {
  await put('one', 'named')
  const nothing = { isRecorded: () => false, mayBeRecorded: () => false }
  for (const text of ['named', 'named by nobody']) {
    expect(await contents.take(chunksOf(text), async () => 'answered before', nothing)).toBe(
      'answered before',
    )
  }
  expect(existsSync(pathOf('named'))).toBe(true)
  expect(existsSync(pathOf('named by nobody'))).toBe(false)
  await contents.close()
  expect(await findingIn()).toBeNull()
})

it('where nobody knows whether the entry was recorded, the content stays for the next start to judge', async () => {
  const unknown = contents.take(chunksOf('who knows'), () => Promise.reject(new Error('unknown')), {
    isRecorded: () => true,
    mayBeRecorded: () => true,
  })
  await expect(unknown).rejects.toThrow('unknown')
  await contents.close()
  expect(existsSync(pathOf('who knows'))).toBe(true)
  expect(await findingIn()).toBeNull()
  const next = new Contents(folder, reader.attachments, true)
  await next.recover()
  expect(existsSync(pathOf('who knows'))).toBe(false)
})

it('after a crash, recovery removes what arrived in part and what no entry names, and nothing else', async () => {
  await put('kept', 'kept')
  mkdirSync(join(folder, 'attachments', 'aa'), { recursive: true })
  const stray = join(folder, 'attachments', 'aa', 'b'.repeat(62))
  writeFileSync(stray, 'no entry')
  writeFileSync(join(folder, 'attachments', 'incoming', '7'), 'half')
  const notes = join(folder, 'attachments', 'notes.txt')
  // While a process may be at work, or was killed, this is no difference.
  expect(await findingIn()).toBeNull()
  const next = new Contents(folder, reader.attachments, true)
  await next.recover()
  expect(existsSync(stray)).toBe(false)
  expect(existsSync(join(folder, 'attachments', 'incoming'))).toBe(false)
  expect(readFileSync(pathOf('kept'), 'utf8')).toBe('kept')
  writeFileSync(notes, 'not ours')
  expect(await findingIn()).toContain('notes.txt')
})

it('verification finds what is missing, too short, changed, or without an entry', async () => {
  await put('n', 'content')
  await contents.close()
  const path = pathOf('content')
  const whole = readFileSync(path)
  rmSync(path)
  expect(await findingIn()).toBe(`content ${shaOf('content')} is missing`)
  writeFileSync(path, whole.subarray(1))
  expect(await findingIn()).toBe(`content ${shaOf('content')} has 6 bytes, not 7`)
  for (let bit = 0; bit < whole.length * 8; bit += 5) {
    const changed = Buffer.from(whole)
    changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7))
    writeFileSync(path, changed)
    expect(await findingIn()).toContain('has other bytes')
  }
  writeFileSync(path, whole)
  expect(await findingIn()).toBeNull()
  const stray = join(folder, 'attachments', 'ab')
  mkdirSync(stray, { recursive: true })
  writeFileSync(join(stray, 'c'.repeat(62)), '')
  expect(await findingIn()).toBe(`content ab${'c'.repeat(62)} is stored, but no entry names it`)
})

it('an erased entry takes its content along, unless another one names it', async () => {
  await put('one', 'mine')
  await put('two', 'shared')
  await put('three', 'shared')
  const erase = (...names: string[]) =>
    contents.erasing(async () => {
      const database = new DatabaseSync(join(folder, 'ledger.db'))
      const forget = attachmentEraser(database)
      const rows = await reader.attachments.byPosition(-1, 10)
      for (const { name, position } of rows) if (names.includes(name)) forget(position)
      database.close()
      reader.refresh()
      return { result: null, freed: [shaOf('mine'), shaOf('shared')] }
    }, sure.mayBeRecorded)
  await erase('one', 'two')
  expect([existsSync(pathOf('mine')), existsSync(pathOf('shared'))]).toEqual([false, true])
  await erase('three')
  expect(existsSync(pathOf('shared'))).toBe(false)
  expect(await findingIn()).toBeNull()
})

it('uploads, refusals and erasures of few contents at once: what is named is there, the rest is not', async () => {
  const text = fc.constantFrom('a', 'b')
  const kind = fc.constantFrom('recorded', 'refused', 'erased')
  const crowd = fc.array(fc.record({ kind, text, turns: fc.nat({ max: 12 }) }), { maxLength: 24 })
  await fc.assert(
    fc.asyncProperty(crowd, async (list) => {
      const own = mkdtempSync(join(tmpdir(), 'daicho-test-'))
      const rows: string[] = []
      const namedAt = async (sha256: string) => (rows.includes(sha256) ? 0 : null)
      const together = new Contents(own, { namedAt }, false)
      const pause = async (turns: number) => {
        for (let turn = 0; turn < turns; turn += 1) await new Promise(setImmediate)
      }
      const run = async ({ kind: what, text: of, turns }: (typeof list)[number]) => {
        await pause(turns)
        const sha = shaOf(of)
        if (what === 'erased') {
          return together.erasing(async () => {
            await pause(turns)
            for (let at = rows.indexOf(sha); at !== -1; at = rows.indexOf(sha)) rows.splice(at, 1)
            return { result: null, freed: [sha] }
          }, sure.mayBeRecorded)
        }
        return together.take(
          chunksOf(of),
          async () => {
            await pause(turns)
            if (what === 'refused') throw new Error('no')
            rows.push(sha)
          },
          sure,
        )
      }
      await Promise.allSettled(list.map(run))
      await together.close()
      for (const of of ['a', 'b']) {
        const file = await together.read(shaOf(of))
        const content = (await file?.readFile('utf8')) ?? null
        await file?.close()
        expect(content).toBe(rows.includes(shaOf(of)) ? of : null)
      }
      rmSync(own, { recursive: true, force: true })
    }),
    { numRuns: 60, endOnFailure: true, interruptAfterTimeLimit: 5_000 },
  )
})

describe('a content that comes in parts', () => {
  const text = 'from elsewhere'
  const content = { sha256: shaOf(text), length: text.length }
  const name = async (named: string) => {
    await appendEntries(store, [entry.attach('fruit', 'a', 'n', named)])
    reader.refresh()
  }
  const add = (from: number, part: string, of = content) =>
    contents.addPart(of, from, Buffer.from(part))

  beforeEach(() => name(text))

  it('is in its place when the last part has come, and not before', async () => {
    expect(await contents.arrived(content)).toEqual({ isWhole: false, bytes: 0 })
    expect(await add(0, text.slice(0, 4))).toBe(4)
    expect(await contents.arrived(content)).toEqual({ isWhole: false, bytes: 4 })
    expect(existsSync(pathOf(text))).toBe(false)
    expect(await add(4, text.slice(4))).toBe(text.length)
    expect(await contents.arrived(content)).toEqual({ isWhole: true, bytes: text.length })
    expect(readFileSync(pathOf(text), 'utf8')).toBe(text)
    expect(incoming()).toEqual([])
    // The same again changes nothing.
    expect(await add(0, 'x')).toBe(text.length)
    expect(readFileSync(pathOf(text), 'utf8')).toBe(text)
    expect(await findingIn()).toBeNull()
  })

  it('takes a part that does not begin where the parts end as no part, and says where they end', async () => {
    expect(await add(2, text.slice(2))).toBe(0)
    expect(await add(0, text.slice(0, 4))).toBe(4)
    expect(await add(0, text.slice(0, 6))).toBe(4)
    expect(await add(5, text.slice(5))).toBe(4)
    expect(await Promise.all([add(4, text.slice(4, 9)), add(4, text.slice(4, 9))])).toEqual([9, 9])
    expect(await add(9, text.slice(9))).toBe(text.length)
    expect(readFileSync(pathOf(text), 'utf8')).toBe(text)
  })

  it('goes on where it was after a crash, unless no entry names it any more', async () => {
    await add(0, text.slice(0, 4))
    const other = { sha256: shaOf('nobody'), length: 6 }
    await add(0, 'nob', other)
    expect(incoming().sort()).toEqual([content.sha256, other.sha256].sort())
    contents = new Contents(folder, reader.attachments, true)
    await contents.recover()
    expect(incoming()).toEqual([content.sha256])
    expect(await contents.arrived(content)).toEqual({ isWhole: false, bytes: 4 })
    // Closed in between, too.
    await contents.close()
    contents = new Contents(folder, reader.attachments, true)
    await contents.recover()
    expect(await add(4, text.slice(4))).toBe(text.length)
    expect(readFileSync(pathOf(text), 'utf8')).toBe(text)
  })

  it('is refused when it has other bytes or more of them, and then begins anew', async () => {
    for (const parts of [
      ['from elsewherE'],
      ['from', ' elsewherE'],
      [`${text}!`],
      ['', 'x'.repeat(14)],
    ]) {
      const all = async () => {
        let here = 0
        for (const part of parts) here = await add(here, part)
        return here
      }
      const outcome = await all().catch(({ code }) => code)
      expect([parts, outcome]).toEqual([parts, parts[0] === `${text}!` ? 0 : 'CONTENT_DIFFERS'])
      expect(await contents.arrived(content)).toEqual({ isWhole: false, bytes: 0 })
    }
    expect(await add(0, text)).toBe(text.length)
  })

  it('of no bytes is there with its first part', async () => {
    const empty = { sha256: shaOf(''), length: 0 }
    await name('')
    expect(await contents.arrived(empty)).toEqual({ isWhole: false, bytes: 0 })
    expect(await add(0, '', empty)).toBe(0)
    expect(await contents.arrived(empty)).toEqual({ isWhole: true, bytes: 0 })
  })

  it('does not come back when its entry was erased meanwhile', async () => {
    const forget = () =>
      contents.erasing(
        async () => {
          const database = new DatabaseSync(join(folder, 'ledger.db'))
          const [row] = await reader.attachments.byPosition(-1, 1)
          attachmentEraser(database)(row?.position ?? -1)
          database.close()
          reader.refresh()
          return { result: undefined, freed: [content.sha256] }
        },
        () => false,
      )
    await add(0, text.slice(0, 4))
    await forget()
    expect(incoming()).toEqual([])
    expect(await add(0, text)).toBe(text.length)
    expect(existsSync(pathOf(text))).toBe(false)
    expect(await findingIn()).toBeNull()
  })

  it('of the wrong length is exchanged for the right bytes', async () => {
    mkdirSync(join(folder, 'attachments', content.sha256.slice(0, 2)), { recursive: true })
    writeFileSync(pathOf(text), 'cut')
    expect(await contents.arrived(content)).toEqual({ isWhole: false, bytes: 0 })
    expect(await add(0, text)).toBe(text.length)
    expect(readFileSync(pathOf(text), 'utf8')).toBe(text)
  })
})
