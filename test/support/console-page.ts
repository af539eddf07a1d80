// Runs the commands of a page of the documentation, and compares what they say with the page.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect } from 'vitest'
import { type Daicho, startDaicho } from './daicho.ts'

const run = promisify(execFile)
/** How long a command may be repeated until it says what the page says. */
const WAIT_MS = 30_000
const PAUSE_MS = 100

interface Step {
  readonly command: string
  readonly says: string
}

/** What differs from run to run, by kind; the first alternative that matches counts. */
const VOLATILE = new RegExp(
  [
    String.raw`(?<key>daicho\/\d+\+[0-9a-f]{8}\+[\w+/=]+)`,
    String.raw`(?<hash>\b[0-9a-f]{64,128}\b)`,
    String.raw`(?<uuid>\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b)`,
    String.raw`(?<time>\d{4}-\d\d-\d\dT[\d:.]+Z)`,
    String.raw`(?<secret>(?<![\w-])[\w-]{43}(?![\w-]))`,
    String.raw`(?<id>\b\d{13,17}\b)`,
    String.raw`(?<pace>\d+\.\d s, \d+ entries\/s)`,
  ].join('|'),
  'g',
)

function kindsIn(text: string): string {
  return text.replace(VOLATILE, (...all) => {
    const groups: Record<string, string | undefined> = all.at(-1)
    return `<${Object.keys(groups).find((name) => groups[name] !== undefined)}>`
  })
}

/** The commands in the blocks of console text of a page, with what it says that they print. */
export function stepsIn(page: string): Step[] {
  return [...page.matchAll(/```console\n([\s\S]*?)```/g)].flatMap(([, block = '']) =>
    block
      .split(/^\$ /m)
      .slice(1)
      .map((text) => {
        const [command = '', ...lines] = text.split('\n')
        return { command, says: lines.join('\n').trimEnd() }
      }),
  )
}

/** A shell for the commands that pages use, in `folder`. Ports are free ones, whatever the page says. */
export class PageShell {
  readonly #folder: string
  readonly #variables: Record<string, string> = {}
  readonly #jobs: Daicho[] = []
  /** What stands in the page, and what it is here. */
  readonly #here = new Map<string, string>()

  constructor(folder: string) {
    this.#folder = folder
  }

  /** Runs a step, and expects that it says what the page says. */
  async step({ command, says }: Step): Promise<void> {
    const endMs = Date.now() + WAIT_MS
    for (;;) {
      const said = this.#asInPage(await this.#run(this.#translated(command)))
      if (kindsIn(said) === kindsIn(says) || Date.now() > endMs || !says.includes('current')) {
        expect(kindsIn(said), command).toBe(kindsIn(says))
        const values = [...said.matchAll(VOLATILE)]
        for (const [at, [written]] of [...says.matchAll(VOLATILE)].entries()) {
          this.#here.set(written, values[at]?.[0] ?? '')
        }
        return
      }
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
    }
  }

  /** Ends what runs in the background. */
  async close(): Promise<void> {
    for (const { child, ended } of this.#jobs) {
      child.kill()
      await ended
    }
  }

  #translated(command: string): string {
    let text = command
    // The longest first: a key has an id in it.
    const known = [...this.#here].toSorted(([one], [other]) => other.length - one.length)
    for (const [there, here] of known) text = text.replaceAll(there, here)
    return text
  }

  /** Addresses have the ports of the page. */
  #asInPage(said: string): string {
    let text = said
    for (const [there, here] of this.#here) {
      if (there.startsWith('http:')) text = text.replaceAll(here, there)
    }
    return text
  }

  async #run(command: string): Promise<string> {
    const [, job] = /^kill %(\d+)$/.exec(command) ?? []
    if (job !== undefined) return this.#kill(Number(job))
    const words = wordsOf(command)
    if (words[0] === 'export') {
      Object.assign(this.#variables, assignmentsIn(words.slice(1)))
      return ''
    }
    const first = words.findIndex((word) => !/^\w+=/.test(word))
    const variables = { ...this.#variables, ...assignmentsIn(words.slice(0, first)) }
    const [program = '', ...args] = words.slice(first)
    const rest = args.slice(args.indexOf('--') + 1)
    if (program === 'npm' && args[0] === 'start') return this.#serve(rest, variables)
    if (program === 'npm') return this.#daicho(rest, variables)
    if (program === 'curl') return this.#request(args)
    const { stdout } = await run('sh', ['-c', command], { cwd: this.#folder })
    return stdout.trimEnd()
  }

  async #daicho(args: readonly string[], variables: Record<string, string>): Promise<string> {
    const { stdout, stderr } = await startDaicho(args, variables, { cwd: this.#folder }).ended
    const complaints = stderr.split('\n').filter((line) => !/ % {2}|\r/.test(line))
    return (stdout + complaints.join('\n')).trimEnd()
  }

  async #serve(words: readonly string[], variables: Record<string, string>): Promise<string> {
    const flags = words
      .filter((word) => word !== '&')
      .map((word) => (/^\d+$/.test(word) ? '0' : word))
    const quiet = {
      LOG_LEVEL: 'error',
      BASIC_USERNAME: 'a',
      BASIC_PASSWORD: 'a-b-c-d-e',
      ...variables,
    }
    const job = startDaicho(['serve', ...flags, '--json'], quiet, { cwd: this.#folder })
    this.#jobs.push(job)
    const addresses: Record<string, string> = JSON.parse(await job.firstLine)
    for (const [name, flag] of [
      ['ledger', '--port'],
      ['gateway', '--gateway-port'],
    ] as const) {
      const port = words[words.indexOf(flag) + 1]
      const address = addresses[name]
      if (words.includes(flag) && address !== undefined)
        this.#here.set(`http://127.0.0.1:${port}`, address)
    }
    return ''
  }

  async #kill(job: number): Promise<string> {
    const [found] = this.#jobs.splice(job - 1, 1)
    found?.child.kill()
    await found?.ended
    return ''
  }

  async #request(args: readonly string[]): Promise<string> {
    const headers = new Headers()
    const request: RequestInit = { headers }
    let address = ''
    for (let at = 0; at < args.length; at += 1) {
      const word = args[at] ?? ''
      const value = args[at + 1] ?? ''
      if (word === '-X') request.method = value
      else if (word === '-d') request.body = value
      else if (word === '-H') headers.append(...(value.split(/: /, 2) as [string, string]))
      else if (!word.startsWith('-')) address = word
      if (/^-[XdH]$/.test(word)) at += 1
    }
    return (await (await fetch(address, request)).text()).trimEnd()
  }
}

/** The words of a command line, with quotes as a shell reads them. */
function wordsOf(command: string): string[] {
  return [...command.matchAll(/(?:"[^"]*"|'[^']*'|[^\s"'])+/g)].map(([word]) =>
    word.replace(/"([^"]*)"|'([^']*)'/g, (_all, double, single) => double ?? single),
  )
}

function assignmentsIn(words: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    words.map((word) => [word.slice(0, word.indexOf('=')), word.slice(word.indexOf('=') + 1)]),
  )
}
