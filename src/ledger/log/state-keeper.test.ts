// The file of the state after crashes and damage. Whatever the file has, the state that is signed and proven next is the
// one of the chain.
import {
  copyFileSync,
  existsSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { Dice } from '../../../test/support/ledger-load.ts'
import { startLedgerNode, temporaryFolder } from '../../../test/support/ledger-node.ts'
import { nodeVerifySignature, verifyStateProof } from '../../chain/index.ts'
import { openStoreReader, STATE_FILE, StateFile, type StoreReader } from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import { openNodeKey } from './node-key.ts'
import { recomputeState } from './recomputed-state.ts'
import { type LogKey, toLogKey } from './signed-head.ts'
import { LedgerState } from './state.ts'
import { StateFollower } from './state-follower.ts'
import { StateKeeper, stateSigner } from './state-keeper.ts'

/** Bytes that are flipped in each page of the file. */
const FLIPS = Number(process.env.FLIPS ?? 6)
const PAGE_BYTES = 8_192
const IDS = Array.from({ length: 120 }, (_, n) => `i${n}`)
/** Attempts after which a failed file must have been replaced. */
const ATTEMPTS_MAX = 60

const removals: (() => void)[] = []
const folder = () => temporaryFolder((remove) => removals.push(remove))
let store: StoreReader
let key: LogKey
/** Sizes of the chain before and after the last changes, with the notes and files of their states. */
let early: { size: number; note: string; file: Buffer }
let late: typeof early

async function stateAt(size: number) {
  const target = folder()
  const keeper = new StateKeeper(target, store, stateSigner(key))
  expect(await keeper.advance(size, true)).toBe(size)
  const { note } = keeper
  keeper.close()
  expect(note).toBe(stateSigner(key)(await recomputeState(store, size)))
  return { size, note: note ?? '', file: readFileSync(join(target, STATE_FILE)) }
}

beforeAll(async () => {
  const path = folder()
  const node = await startLedgerNode({ folder: path })
  for (const db of ['a', 'b']) await node.send('POST', `/api/${db}`)
  await node.send(
    'POST',
    '/api/a',
    IDS.map((id) => ({ id })),
  )
  await node.send(
    'POST',
    '/api/b',
    IDS.slice(0, 40).map((id) => ({ id })),
  )
  for (const id of IDS.slice(0, 9)) await node.send('POST', `/api/a/${id}`, { n: 2 })
  await node.send('DELETE', '/api/b')
  const entries = IDS.slice(0, 80).map((id) => ({ method: 'delete_item', db: 'a', id }))
  await node.send('POST', '/api/ledgers', { entries })
  await node.close()
  key = toLogKey(openNodeKey(path, false))
  store = await openStoreReader(path, { frozen: false })
  const size = ((await store.head(store.serverId))?.height ?? -1) + 1
  expect(size).toBe(15)
  early = await stateAt(4)
  late = await stateAt(size)
})

afterAll(async () => {
  await store.close()
  for (const remove of removals) remove()
})

/** Advances until the state has all blocks. */
async function advance(keeper: StateKeeper): Promise<void> {
  let size = -1
  for (let n = 0; n < ATTEMPTS_MAX && size < late.size; n += 1)
    size = await keeper.advance(late.size, true)
  expect(size).toBe(late.size)
}

/** Requires that a node that starts with the files of `target` signs the right state. */
async function expectRight(target: string): Promise<void> {
  const keeper = new StateKeeper(target, store, stateSigner(key))
  await advance(keeper)
  const { note } = keeper
  keeper.close()
  expect(note).toBe(late.note)
}

/** Copies the files that a crash would leave now. */
function crashed(path: string): string {
  const target = folder()
  for (const suffix of ['', '-wal']) {
    if (existsSync(path + suffix)) copyFileSync(path + suffix, join(target, STATE_FILE + suffix))
  }
  return target
}

/** Follows the chain from the state in `path` up to `size` blocks. Returns the files after a crash at each step. */
async function crashAtEachStep(path: string, size: number): Promise<string[]> {
  const file = StateFile.open(path)
  const crashes: string[] = [crashed(path)]
  const pages = file.pages.bind(file)
  file.pages = (map) => {
    const { read, write, remove } = pages(map)
    const withCrash = <Arguments extends unknown[]>(change: (...of: Arguments) => void) => {
      return (...of: Arguments) => {
        change(...of)
        crashes.push(crashed(path))
      }
    }
    return { read, write: withCrash(write), remove: withCrash(remove) }
  }
  const follower = new StateFollower(file, store.serverId)
  while (follower.size < size) {
    for (const block of await store.blocks(store.serverId, follower.size, 1)) follower.push(block)
    const { log } = await recomputeState(store, follower.size)
    follower.commit((root) => {
      crashes.push(crashed(path))
      return stateSigner(key)({ size: follower.size, root, log })
    })
    crashes.push(crashed(path))
  }
  file.close()
  return crashes
}

it('continues or computes the state again after a crash at each step of a commit and of an interrupted first computation', async () => {
  const path = join(folder(), STATE_FILE)
  const crashes = await crashAtEachStep(path, late.size)
  expect(crashes.length).toBeGreaterThan(60)
  for (const crash of crashes) await expectRight(crash)
})

it('ignores a write-ahead log whose file a crash has removed before it, and a file whose log is lost', async () => {
  const path = join(folder(), STATE_FILE)
  const crashes = await crashAtEachStep(path, early.size)
  for (const suffix of ['', '-wal']) {
    for (const crash of crashes) {
      rmSync(join(crash, STATE_FILE + suffix), { force: true })
      await expectRight(crash)
    }
  }
})

/** Every kind of damage, as a change of the file. */
function* damages(file: Buffer): Generator<[what: string, harm: (path: string) => void]> {
  const dice = new Dice(7)
  yield ['removed', (path) => rmSync(path)]
  yield ['other content', (path) => writeFileSync(path, 'not a database')]
  for (let page = 0; page < file.length / PAGE_BYTES; page += 1) {
    const start = page * PAGE_BYTES
    for (const length of [start, start + 1_000]) {
      yield [`truncated to ${length}`, (path) => truncateSync(path, length)]
    }
    yield [
      `page ${page} empty`,
      (path) => writeFileSync(path, Buffer.from(file).fill(0, start, start + PAGE_BYTES)),
    ]
    const used = Array.from(file.subarray(start, start + PAGE_BYTES).entries()).filter(
      ([, byte]) => byte > 0,
    )
    for (let n = 0; n < FLIPS; n += 1) {
      // Half of the flips hit a byte that is used.
      const at = n % 2 === 0 ? dice.below(PAGE_BYTES) : (used[dice.below(used.length)]?.[0] ?? 0)
      const bit = dice.below(8)
      const flipped = Buffer.from(file)
      flipped[start + at] = (flipped[start + at] ?? 0) ^ (1 << bit)
      yield [`byte ${start + at}, bit ${bit}`, (path) => writeFileSync(path, flipped)]
    }
  }
}

it('finds a file that was removed, truncated, or changed in any page, when it continues the state', async () => {
  for (const [what, harm] of damages(early.file)) {
    const target = folder()
    writeFileSync(join(target, STATE_FILE), early.file)
    harm(join(target, STATE_FILE))
    await expectRight(target).catch((cause: unknown) => {
      throw new Error(what, { cause })
    })
    removals.pop()?.()
  }
})

it('gives only right proofs of a file that was removed, truncated, or changed in any page, and computes it again', async () => {
  let renewals = 0
  for (const [what, harm] of damages(late.file)) {
    const target = folder()
    writeFileSync(join(target, STATE_FILE), late.file)
    harm(join(target, STATE_FILE))
    const keeper = new StateKeeper(target, store, stateSigner(key))
    const state = new LedgerState(target, store, {
      stateCovering: () => advance(keeper),
      renewState() {
        renewals += 1
        keeper.remove()
      },
    })
    for (const id of IDS.filter((_, n) => n % 7 === 0)) {
      const read = () => state.proof('a', id)
      const file = await read().catch((error: unknown) => {
        expect([what, error]).toEqual([what, expect.any(LedgerError)])
        return read()
      })
      const { kind } = await verifyStateProof(nodeVerifySignature, key.verifier, file)
      expect([what, id, kind]).toEqual([what, id, IDS.indexOf(id) < 80 ? 'absent' : 'current'])
    }
    state.close()
    keeper.close()
    removals.pop()?.()
  }
  expect(renewals).toBeGreaterThan(0)
})

it('keeps its file when the disk is full or the process has no more files or memory, and continues it later', async () => {
  for (const errcode of [5, 7, 13, 14]) {
    const target = folder()
    writeFileSync(join(target, STATE_FILE), early.file)
    const keeper = new StateKeeper(target, store, stateSigner(key))
    expect(await keeper.advance(early.size, true)).toBe(early.size)
    const commit = vi.spyOn(StateFile.prototype, 'transaction').mockImplementationOnce(() => {
      throw Object.assign(new Error('simulated'), { errcode })
    })
    expect([errcode, await keeper.advance(late.size, true)]).toEqual([errcode, early.size])
    commit.mockRestore()
    const blocks = vi.spyOn(store, 'blocks')
    await advance(keeper)
    // The last committed block is compared with that of the file.
    expect([errcode, Math.min(...blocks.mock.calls.map(([, from]) => from))]).toEqual([
      errcode,
      early.size - 1,
    ])
    blocks.mockRestore()
    expect(keeper.note).toBe(late.note)
    keeper.close()
  }
})
