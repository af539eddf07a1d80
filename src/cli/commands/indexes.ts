import { setTimeout as pause } from 'node:timers/promises'
import { Command } from 'commander'
import { systemClock } from '../../base/clock.ts'
import { CodedError } from '../../base/coded-error.ts'
import { type OpenLedger, openLedger } from '../../ledger/core.ts'
import { openStoreReader } from '../../storage/index.ts'
import { EXIT, Exit } from '../exit.ts'
import { callNode, type NodeReply } from '../node-call.ts'
import { exitingWith, nodeFolder } from '../node-folder.ts'
import { ProgressLine } from '../progress.ts'
import { readSettings, type Settings } from '../settings.ts'
import { textOrFile } from '../text-or-file.ts'

const EXITS = {
  FOLDER_UNUSABLE: EXIT.configuration,
  STORE_NOT_FOUND: EXIT.configuration,
  STORE_TOO_NEW: EXIT.configuration,
  STORE_TOO_OLD: EXIT.configuration,
  STORE_FOREIGN: EXIT.configuration,
  STORE_DAMAGED: EXIT.finding,
  DATABASE_NOT_FOUND: EXIT.finding,
  INDEX_EXISTS: EXIT.finding,
  INDEX_NOT_FOUND: EXIT.finding,
  INDEXES_TOO_MANY: EXIT.finding,
  INDEX_PATH_INVALID: EXIT.usage,
} as const

/** How often a node is asked how far it is. */
const POLL_MS = 200
/** Building goes in short pieces: longer without one, and something is in the way. */
const STILL_MS = 30_000

interface IndexState {
  readonly db: string
  readonly path: string
  readonly state: 'building' | 'ready'
  readonly done: number
  readonly total: number
}

/** Where the indexes are: in a running node, or in the folder of one that rests. */
interface Indexes {
  list(): Promise<IndexState[]>
  change(action: 'add' | 'remove', db: string, path: string): Promise<void>
  close(): Promise<void>
}

interface Flags {
  readonly url?: string
  readonly token?: string
  readonly json?: boolean
  readonly wait?: boolean
}

/** `daicho index`. */
export function indexCommand(): Command {
  const command = new Command('index')
  const sub = (name: string, about: string) =>
    command
      .command(name)
      .description(about)
      .option('--url <url>', 'the running node, like http://127.0.0.1:4126')
      .option('--token <token>', 'where the node asks for one; or a file that holds it', textOrFile)
      .option('--json', 'print the result as one line of JSON')
  sub('list', 'show the indexes, and how far they are built').action((flags: Flags) => list(flags))
  sub('add', 'declare an index, and wait until it is built')
    .argument('<database>')
    .argument('<path>', 'a member of the items; names with dots between them')
    .option('--no-wait', 'only declare it: the node builds it in the background')
    .action((db: string, path: string, flags: Flags) => add(db, path, flags))
  sub('remove', 'remove an index')
    .argument('<database>')
    .argument('<path>')
    .action((db: string, path: string, flags: Flags) => remove(db, path, flags))
  return command
}

async function list(flags: Flags): Promise<void> {
  const states = await withIndexes(flags, true, (indexes) => indexes.list())
  if (flags.json === true) {
    process.stdout.write(`${JSON.stringify({ status: true, indexes: states })}\n`)
    return
  }
  for (const { db, path, state, done, total } of states) {
    const how = state === 'ready' ? 'ready' : `building, ${done} of ${total} blocks`
    process.stdout.write(`${db}  ${path}  ${how}\n`)
  }
  if (states.length === 0) process.stdout.write('there are no indexes\n')
}

async function add(db: string, path: string, flags: Flags): Promise<void> {
  await withIndexes(flags, false, async (indexes) => {
    await indexes.change('add', db, path)
    if (flags.wait !== false) await built(indexes, db, path)
  })
  say(flags, flags.wait === false ? 'declared' : 'ready', db, path)
}

async function remove(db: string, path: string, flags: Flags): Promise<void> {
  await withIndexes(flags, false, (indexes) => indexes.change('remove', db, path))
  say(flags, 'removed', db, path)
}

function say(flags: Flags, what: string, db: string, path: string): void {
  const json = JSON.stringify({ status: true, db, path, index: what })
  process.stdout.write(flags.json === true ? `${json}\n` : `index on ${path} of ${db}: ${what}\n`)
}

async function built(indexes: Indexes, db: string, path: string): Promise<void> {
  const line = new ProgressLine('indexing', process.stderr)
  let grown = { done: -1, atMs: systemClock.now() }
  for (;;) {
    const index = (await indexes.list()).find((each) => each.db === db && each.path === path)
    if (index === undefined) throw new Exit(EXIT.finding, 'the index was removed meanwhile')
    const { state, done, total } = index
    line.update(total === 0 ? 1 : done / total, `${done} of ${total} blocks`, systemClock.now())
    if (state === 'ready') break
    const nowMs = systemClock.now()
    if (done !== grown.done) grown = { done, atMs: nowMs }
    if (nowMs - grown.atMs > STILL_MS) {
      const why = `the index has not grown for ${STILL_MS / 1000} s; is there room on the disk?`
      throw new Exit(EXIT.finding, `${why} The node goes on building it as soon as it can`)
    }
    await pause(POLL_MS)
  }
  line.end()
}

/** Runs `work` on the node that the flags, or SYSTEM_FOLDER, name. */
async function withIndexes<Result>(
  flags: Flags,
  isReading: boolean,
  work: (indexes: Indexes) => Promise<Result>,
): Promise<Result> {
  return exitingWith(EXITS, async () => {
    const indexes = await openIndexes(flags, isReading)
    try {
      return await work(indexes)
    } finally {
      await indexes.close()
    }
  })
}

async function openIndexes({ url, token }: Flags, isReading: boolean): Promise<Indexes> {
  if (url !== undefined) return remoteIndexes(url, token)
  const settings = readSettings(process.env)
  const folder = nodeFolder(settings, { mayBeNew: false })
  if (isReading) {
    // Reading goes beside a running node.
    const store = openStoreReader(folder, { frozen: false })
    const list = async () => (await store.indexes()).map(stateOf)
    const change = async () => {}
    return { list, change, close: () => store.close() }
  }
  const { service, close } = await openAtRest(settings, folder)
  return {
    list: async () => (await service.queries.indexes()).map(stateOf),
    change: (action, db, path) =>
      action === 'add'
        ? service.queries.addIndex({ db, path })
        : service.queries.removeIndex({ db, path }),
    close,
  }
}

async function openAtRest(settings: Settings, folder: string): Promise<OpenLedger> {
  try {
    return await openLedger({ folder, difficulty: settings.LEDGER_DIFFICULTY, clock: systemClock })
  } catch (error) {
    if (!(error instanceof CodedError)) throw error
    const told =
      error.code === 'FOLDER_IN_USE'
        ? `a node runs in ${folder}: name it by --url`
        : `SYSTEM_FOLDER: ${error.message}`
    throw new Exit(EXIT.configuration, told, { cause: error })
  }
}

function stateOf(index: {
  readonly db: string
  readonly path: string
  readonly isReady: boolean
  readonly done: number
  readonly total: number
}): IndexState {
  const { db, path, isReady, done, total } = index
  return { db, path, state: isReady ? 'ready' : 'building', done, total }
}

function remoteIndexes(url: string, token: string | undefined): Indexes {
  const path = '/api/config/indexes'
  const node = { url, token }
  return {
    list: async () => (await callNode<IndexesReply>(node, path, 'GET')).indexes ?? [],
    change: async (action, db, member) => {
      await callNode(node, path, action === 'add' ? 'POST' : 'DELETE', { db, path: member })
    },
    close: async () => {},
  }
}

interface IndexesReply extends NodeReply {
  readonly indexes?: IndexState[]
}
