// Sends the attempts of `attempts.ts` to one listener, and checks the replies and the state after the attack.
import { connect } from 'node:net'
import fc from 'fast-check'
import { startProgram } from '../support/program.ts'
import { exchange, type RawReply } from '../support/raw-socket.ts'
import { type Attempt, attemptsOf } from './attempts.ts'
import { type ListenerName, PLANS, type Served, serve } from './served.ts'

/** Attempts per seed. Each further batch uses the next seed. */
const BATCH = 500
/** Number of concurrent connections. */
const TOGETHER = 24
/** Maximum time of a connection whose `end` is `asked` or `fin`, milliseconds. */
const HANG_MS = 60_000
/**
 * Maximum time of a connection whose `end` is `open`, milliseconds. Longer than HANG_MS, because the listener waits
 * until its time limit for the rest of the request.
 */
const OPEN_MS = 150_000
/** Maximum number of concurrent connections whose `end` is `open`. */
const OPEN_MAX = 200
/** Texts that replies must not contain: source locations and folders of this computer. */
const INSIDE = /node_modules|\.ts:\d|\bat \S+ \(|\/tmp\//
/** Maximum memory growth of a listener between the first quarter of the attempts and the end, MiB. */
const GROWTH_MIB_MAX = 192
/** Maximum number of findings that are stored. Further findings are only counted. */
const NOTED_MAX = 30

export interface Outcome {
  readonly sent: number
  /** Number of replies by status. */
  readonly statuses: ReadonlyMap<number, number>
  /** Violations, each with its seed. */
  readonly findings: readonly string[]
  readonly sizes: readonly ReturnType<Served['size']>[]
}

/**
 * Sends `count` attempts to the listener `name`, from `seed` on. `folder` is the data folder of the listener. Calls
 * `onBatch` with the number of sent attempts after each batch.
 */
export async function attack(
  name: ListenerName,
  count: number,
  seed: number,
  folder: string,
  onBatch: (sent: number) => void = () => {},
): Promise<Outcome> {
  const served = await serve(name, folder)
  const run = new Run(name, served)
  const document = await documentOf(name, served.url)
  const attempts = attemptsOf(document, PLANS[name].known, new URL(served.url).host)
  const sizes: ReturnType<Served['size']>[] = []
  for (let from = 0; from < count; from += BATCH) {
    const batch = Math.min(BATCH, count - from)
    const ofSeed = seed + from / BATCH
    const list = fc.sample(attempts, { numRuns: batch, seed: ofSeed })
    await run.all(list, ofSeed)
    await run.expectAlive(ofSeed)
    onBatch(from + batch)
    const quarter = Math.floor((4 * (from + batch)) / count)
    if (quarter > sizes.length) sizes.push(served.size())
  }
  await run.allEnded()
  const [first] = sizes
  const last = sizes.at(-1)
  if (first && last && last.memoryMiB > first.memoryMiB + GROWTH_MIB_MAX) {
    run.note(seed, `memory grew from ${first.memoryMiB} to ${last.memoryMiB} MiB`)
  }
  served.daicho.child.kill('SIGTERM')
  const { code, stderr } = await served.daicho.ended
  if (code !== 0) run.note(seed, `exit code ${code}`)
  if (stderr !== '') run.note(seed, `logged errors: ${stderr.slice(0, 2_000)}`)
  if (name === 'ledger' || name === 'gateway') await run.expectKept(folder, seed)
  const { statuses, findings } = run
  return { sent: count, statuses, findings, sizes }
}

async function documentOf(name: ListenerName, url: string): Promise<unknown> {
  const { document, without } = PLANS[name]
  const json = await jsonAt(url + document)
  for (const path of without) delete json.paths[path]
  return json
}

// biome-ignore lint/suspicious/noExplicitAny: asserted where it is read
async function jsonAt(address: string): Promise<any> {
  return (await fetch(address)).json()
}

class Run {
  readonly statuses = new Map<number, number>()
  readonly findings: string[] = []
  /** `Ledger-Position` of each acknowledged change. */
  readonly #positions = new Set<string>()
  /** Connections whose `end` is `open`. */
  readonly #open = new Set<Promise<void>>()
  readonly #name: ListenerName
  readonly #url: string

  constructor(name: ListenerName, { url }: Served) {
    this.#name = name
    this.#url = url
  }

  note(seed: number, problem: string): void {
    if (this.findings.length < NOTED_MAX)
      this.findings.push(`${this.#name}, seed ${seed}: ${problem}`)
  }

  /** Sends all attempts of `list`, up to TOGETHER at a time. Does not wait for connections whose `end` is `open`. */
  async all(list: readonly Attempt[], seed: number): Promise<void> {
    const left = list.values()
    const lanes = Array.from({ length: TOGETHER }, async () => {
      for (const attempt of left) {
        if (attempt.end !== 'open') {
          await this.#one(attempt, seed)
          continue
        }
        while (this.#open.size >= OPEN_MAX) await Promise.race(this.#open)
        const ended = this.#one(attempt, seed).finally(() => this.#open.delete(ended))
        this.#open.add(ended)
      }
    })
    await Promise.all(lanes)
  }

  /** Waits until all connections have ended. */
  async allEnded(): Promise<void> {
    await Promise.all(this.#open)
  }

  /** Throws an error unless the listener answers. */
  async expectAlive(seed: number): Promise<void> {
    const path = PLANS[this.#name].document
    const reply = await fetch(this.#url + path).catch((error: unknown) => String(error))
    const status = typeof reply === 'string' ? reply : reply.status
    if (typeof reply !== 'string') await reply.arrayBuffer()
    if (status !== 200) throw new Error(`${this.#name}, seed ${seed}: no longer answers: ${status}`)
  }

  /** Checks that the store verifies and contains all acknowledged changes. */
  async expectKept(folder: string, seed: number): Promise<void> {
    const verified = await startProgram(['verify', folder]).ended
    if (verified.code !== 0) this.note(seed, `verify: ${verified.stdout}${verified.stderr}`)
    const again = await serve('ledger', folder)
    const counts: number[] = []
    const { serverid } = await jsonAt(`${again.url}/api/serverid`)
    for (;;) {
      const query = `serverid=${serverid}&offset=${counts.length}&limit=200`
      const { ledgers } = await jsonAt(`${again.url}/api/ledgers?${query}`)
      if (ledgers.length === 0) break
      for (const { body } of ledgers) counts.push(body.length)
    }
    for (const position of this.#positions) {
      const [, height, index] = /^\d+\/(\d+)\.(\d+)$/.exec(position) ?? []
      if (Number(index) < (counts[Number(height)] ?? 0)) continue
      this.note(seed, `${position} was acknowledged but is missing`)
    }
    again.daicho.child.kill('SIGTERM')
    await again.daicho.ended
  }

  async #one(attempt: Attempt, seed: number): Promise<void> {
    const description = `${attempt.kind} ${shown(Buffer.concat(attempt.pieces))}`
    if (attempt.end === 'reset') return sendAndReset(this.#url, attempt.pieces)
    const isOpen = attempt.end === 'open'
    const answered = await exchange(this.#url, attempt.pieces, {
      halfClose: attempt.end === 'fin',
      methods: attempt.methods,
      hangMs: isOpen ? OPEN_MS : HANG_MS,
    }).catch((error: unknown) => String(error))
    if (typeof answered === 'string')
      return this.note(seed, `${description}\nno end of the reply: ${answered}`)
    const { replies, rest } = answered
    for (const reply of replies) this.#look(reply, description, seed)
    // An incomplete last reply is a fault. Exceptions: a reply to HTTP/1.0, or to a request line without a version,
    // ends when the connection closes, and an upgrade changes the protocol.
    const sent = Buffer.concat(attempt.pieces).toString('latin1')
    const isOther = /HTTP\/1\.0|upgrade/i.test(sent) || !/^\S+ \S+ HTTP/.test(sent)
    if (rest !== '' && !isOther) this.note(seed, `${description}\nhalf a reply: ${shown(rest)}`)
    const closes = replies.some(({ headers }) => headers.get('connection') === 'close')
    if (attempt.sound && !closes && replies.length !== attempt.methods.length) {
      this.note(
        seed,
        `${description}\n${replies.length} replies to ${attempt.methods.length} requests`,
      )
    }
  }

  #look(reply: RawReply, description: string, seed: number): void {
    const { status, headers, body } = reply
    this.statuses.set(status, (this.statuses.get(status) ?? 0) + 1)
    const position = headers.get('ledger-position')
    const isChange = !/^\S+ (GET|HEAD) /.test(description)
    if (status < 300 && position !== undefined && isChange) this.#positions.add(position)
    if (status < 400) return
    const answered = () => `${description}\n${status} ${shown(body)}`
    if (status >= 500 && status !== 503) this.note(seed, answered())
    if (INSIDE.test(body)) this.note(seed, `the reply shows internals: ${answered()}`)
    const isHead = body === '' && headers.has('content-length')
    if (!isHead && !this.#hasForm(reply)) this.note(seed, `wrong format: ${answered()}`)
  }

  #hasForm(reply: RawReply): boolean {
    try {
      return PLANS[this.#name].isRefusal(reply)
    } catch {
      return false
    }
  }
}

function shown(content: string | Buffer): string {
  const text = typeof content === 'string' ? content : content.toString('latin1')
  return text.length <= 600 ? text : `${text.slice(0, 600)}… (${text.length})`
}

/** Sends all pieces and resets the connection immediately. */
function sendAndReset(url: string, pieces: readonly Buffer[]): Promise<void> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname)
    socket.on('error', () => {})
    socket.on('close', () => resolve())
    for (const piece of pieces) socket.write(piece)
    socket.end(Buffer.alloc(0), () => socket.resetAndDestroy())
  })
}
