import { turn } from '../../base/turn.ts'
import { serveThread, type ThreadPort } from '../../base/worker/worker.ts'
import { isDatabaseUrl, LedgerReader } from '../../ledger/core.ts'
import { readDefinition } from '../definition/definition.ts'
import type { Target } from '../model/model.ts'
import {
  ResourceDatabase,
  type ResourceReader,
  type Selection,
  type StoredResource,
} from '../resources/database.ts'
import { createRegistries, NO_RESOURCES } from '../resources/overlay.ts'
import { GuestClock } from '../runtime/guest-clock.ts'
import { Decider } from './decider.ts'
import {
  type FromThread,
  type LogLine,
  type ThreadStart,
  type ToThread,
  toThreadFailure,
  type VerificationProgress,
} from './messages.ts'
import { verifyNetwork } from './replay.ts'
import { Scripts } from './scripts.ts'

// The entry point of a network's thread, which decides all changes of the network; see `Decider`.

const NS_PER_MS = 1_000_000
/** Maximum number of messages that are processed in one iteration of the event loop. */
const MESSAGES_MAX = 16

type Port = ThreadPort<ToThread, FromThread>

/** Decides requests in the order in which their messages arrive. */
async function serve(
  start: ThreadStart,
  task: ServeTask,
  port: Port,
  take: () => ToThread | undefined,
): Promise<void> {
  const ledger = await LedgerReader.open(start.location)
  const definition = readDefinition(Buffer.from(task.archive))
  const settings = guestSettings(start)
  const { clock } = settings
  const scripts = new Scripts(definition, settings)
  await scripts.load()
  const registries = createRegistries(definition.model)
  const stored = new ResourceDatabase(definition.name, ledger, registries)
  // Reads of files are work of this thread, which counts as time of the guest.
  const database = isDatabaseUrl(start.location) ? new WaitingReader(stored, clock) : stored
  const { deployment } = task
  const log = (logged: LogLine) => port.postMessage({ logged })
  const decider = new Decider({ definition, scripts, database, deployment, log })

  const answerTo = async (message: ToThread): Promise<FromThread | null> => {
    if ('durable' in message) {
      ledger.refresh()
      decider.durable(message.durable)
      return null
    }
    if ('timeline' in message) {
      ledger.requireTimeline(message.timeline)
      return null
    }
    const { id } = message
    clock.begin()
    try {
      if ('condition' in message) return { id, values: await decider.evaluate(message.condition) }
      return { id, decision: await decider.decide(id, message) }
    } catch (error) {
      return { id, failure: toThreadFailure(error) }
    }
  }
  const inbox: ToThread[] = []
  let isHandling = false
  const handleAll = async (): Promise<void> => {
    isHandling = true
    for (let count = 1; ; count += 1) {
      // Takes messages that have arrived without an event for each of them.
      const message = inbox.shift() ?? take()
      if (message === undefined) break
      const answer = await answerTo(message)
      if (answer !== null) port.postMessage(answer)
      // Lets the event loop end the read transaction of the store.
      if (count % MESSAGES_MAX === 0) await turn()
    }
    isHandling = false
  }
  port.on('message', (message) => {
    inbox.push(message)
    if (!isHandling) void handleAll()
  })
}

/** Reads from a database server, and stops the clock of the guests meanwhile. */
class WaitingReader implements ResourceReader {
  readonly #below: ResourceReader
  readonly #clock: GuestClock

  constructor(below: ResourceReader, clock: GuestClock) {
    this.#below = below
    this.#clock = clock
  }

  read(target: Target): Promise<StoredResource | null> {
    return this.#clock.stopped(() => this.#below.read(target))
  }

  exists(target: Target): Promise<boolean> {
    return this.#clock.stopped(() => this.#below.exists(target))
  }

  async *select(selection: Selection): AsyncGenerator<StoredResource[]> {
    const pages = this.#below.select(selection)[Symbol.asyncIterator]()
    try {
      for (;;) {
        const page = await this.#clock.stopped(() => pages.next())
        if (page.done === true) return
        yield page.value
      }
    } finally {
      await pages.return?.()
    }
  }

  count(selection: Selection): Promise<number> {
    return this.#clock.stopped(() => this.#below.count(selection))
  }
}

type VerifyTask = Extract<ThreadStart['task'], { kind: 'verify' }>
type ServeTask = Extract<ThreadStart['task'], { kind: 'serve' }>

/** Replays a network, then exits. */
async function verify(
  start: ThreadStart,
  { name, restoredHeight }: VerifyTask,
  port: Port,
): Promise<void> {
  const ledger = await LedgerReader.open(start.location)
  const database = new ResourceDatabase(name, ledger, NO_RESOURCES)
  const onProgress = (progress: VerificationProgress) => port.postMessage({ progress })
  const settings = guestSettings(start)
  const verified = await verifyNetwork(database, { settings, restoredHeight, onProgress })
  await ledger.close()
  port.postMessage({ verified })
}

function guestSettings({ engine, deadlineMs, bootMs, stopAt }: ThreadStart) {
  const clock = new GuestClock()
  const watch = (untilMs: number | null) => {
    // `process.hrtime` is the only clock that is the same in all threads of a process.
    const inNs = Math.ceil(((untilMs ?? 0) - clock.now()) * NS_PER_MS)
    Atomics.store(stopAt, 0, untilMs === null ? 0n : process.hrtime.bigint() + BigInt(inNs))
  }
  return { engine, clock, deadlineMs, bootMs, watch }
}

// The engine of the sandbox reads the time zone offset from `Date` of this thread. All nodes use UTC, so that a
// replayed transaction gives the same result everywhere.
Date.prototype.getTimezoneOffset = () => 0

await serveThread(async (start: ThreadStart, port: Port, take: () => ToThread | undefined) => {
  try {
    if (start.task.kind === 'verify') {
      port.postMessage({ ready: true })
      await verify(start, start.task, port)
    } else {
      await serve(start, start.task, port, take)
      port.postMessage({ ready: true })
    }
  } catch (error) {
    port.postMessage({ failed: toThreadFailure(error) })
  }
})
