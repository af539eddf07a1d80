// Runs the console commands of a documentation page in a shell and returns their output.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { NODE_FLAGS } from './node-flags.mjs'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
/** Pause before a command is repeated. Shorter pauses would slow the node down for which the page waits. */
const REPEAT_MS = 300
/** Timeout of one step, including repetitions of its command while the page waits for an event. */
const STEP_MS = 60_000
/** Each component with the flag that sets its port, and its default port, which the pages use. */
const PORTS = [
  ['ledger', 'port', '4126'],
  ['converter', 'converter-port', '4127'],
  ['rates', 'rates-port', '4128'],
  ['samples', 'sample-port', '4129'],
  ['gateway', 'gateway-port', '4130'],
] as const

/** Settings of nodes that pages start: log only errors, and send no requests to other sites. */
const QUIET = 'LOG_LEVEL=error RATES_SOURCES=lastgood,snapshot'

/** A command of a page. */
export interface Step {
  readonly command: string
  /** Output shown in the page. */
  readonly says: string
  /** Offset of `says` in the page, in UTF-16 units. */
  readonly from: number
  readonly to: number
}

/** Patterns of values that differ between runs, by kind. The first matching alternative wins. */
const VOLATILE = new RegExp(
  [
    String.raw`(?<key>daicho\/\d+\+[0-9a-f]{8}\+[\w+/=]+)`,
    String.raw`(?<token>eyJ[\w-]+\.[\w-]+\.[\w-]+)`,
    String.raw`(?<hash>\b[0-9a-f]{64,128}\b)`,
    String.raw`(?<uuid>\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b)`,
    String.raw`(?<folder>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}Z)`,
    String.raw`(?<time>\d{4}-\d\d-\d\d[T ][\d:.]+(?:Z|\+0))`,
    '(?<date>Date: .* GMT)',
    String.raw`(?<length>content-length: \d+)`,
    String.raw`(?<base64>(?<![\w+/=-])(?:[\w+/-]{43}=?|[\w+/]{80,}={0,2})(?![\w+/=-]))`,
    String.raw`(?<port>\b127\.0\.0\.1:\d{5}\b)`,
    String.raw`(?<id>\b(?:\d{9,17}|[0-9a-f]{16})\b)`,
    // The size of the log differs between runs, because the node signs the log at varying times.
    String.raw`(?<size>in a log of \d+)`,
    String.raw`(?<pace>\d+\.\d s(?:, \d+ (?:entries|records)\/s)?)`,
    String.raw`(?<seconds>"seconds":[\d.]+|"uptime":\d+|"ms":[\d.]+)`,
  ].join('|'),
  'g',
)

/** Replaces values that differ between runs with their kinds. */
export function kindsIn(text: string): string {
  return text.replace(VOLATILE, (...all) => {
    const groups: Record<string, string | undefined> = all.at(-1)
    return `<${Object.keys(groups).find((name) => groups[name] !== undefined)}>`
  })
}

/**
 * Returns the commands of a page in order: the commands in blocks of console text, and the commands in HTML comments
 * that start with `run`, which readers do not see.
 */
export function stepsIn(page: string): Step[] {
  const blocks = page.matchAll(/^```console\n([\s\S]*?)^```$|^<!-- run\n([\s\S]*?)^-->$/gm)
  return [...blocks].flatMap((block) => {
    const text = block[1] ?? block[2] ?? ''
    const start = (block.index ?? 0) + block[0].indexOf(text)
    return [
      ...text.matchAll(/^\$ ((?:.*\\\n|.*'\[?\n(?: {2}.*\n)*? {2}.*')*.*)\n((?:(?!\$ ).*\n)*)/gm),
    ].map((found) => {
      const [all, command = '', says = ''] = found
      const to = start + (found.index ?? 0) + all.length
      return { command, says, from: to - says.length, to }
    })
  })
}

/** A shell in a folder with the files of a clone. Ports in commands of the page are replaced by free ports. */
export class PageShell {
  readonly #folder: string
  readonly #shell: ChildProcess
  /** Values in the page, and the values of this run that replace them. */
  readonly #here = new Map<string, string>()
  readonly #ports = new Map<string, string>()
  #steps = 0

  /** Copies the files that pages need to `folder`, which must be empty, and starts the shell. */
  constructor(folder: string) {
    this.#folder = folder
    cpSync(join(ROOT, 'examples'), join(folder, 'examples'), { recursive: true })
    for (const name of ['node_modules', 'test', 'docs', 'clients']) {
      symlinkSync(join(ROOT, name), join(folder, name))
    }
    const programs = join(folder, '.shell/bin')
    mkdirSync(programs, { recursive: true })
    const program = [process.execPath, ...NODE_FLAGS, join(ROOT, 'dist/cli/main.js')]
    const line = `exec ${program.map((word) => `'${word}'`).join(' ')} "$@"`
    writeFileSync(join(programs, 'daicho'), `#!/bin/sh\n${line}\n`, { mode: 0o755 })
    // `npm run -s daicho --` runs the built program too, because it starts in half the time of the sources.
    writeFileSync(join(programs, 'npm'), `#!/bin/sh\nshift 4; ${line}\n`, { mode: 0o755 })
    const { PATH = '', NODE_COMPILE_CACHE } = process.env
    this.#shell = spawn('bash', ['--noprofile', '--norc'], {
      cwd: folder,
      env: {
        PATH: `${programs}:${PATH}`,
        HOME: folder,
        LANG: 'C.UTF-8',
        ...(NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE }),
      },
      stdio: ['pipe', 'pipe', 'inherit'],
      // `detached` starts a process group, so that `close` can end all processes of the shell.
      detached: true,
    })
  }

  /** Runs a step. Returns the output, in which the addresses of this run are replaced by those of the page. */
  async run({ command, says }: Step): Promise<string> {
    const endMs = Date.now() + STEP_MS
    for (;;) {
      const output = await this.#once(command)
      // The command is repeated if the page waits for an event, such as a mirror that becomes current.
      const comes = /^timeout /.test(command) || /current|"state":"ready"/.test(says)
      if (comes && kindsIn(output) !== kindsIn(says) && Date.now() < endMs) {
        await pause(REPEAT_MS)
        continue
      }
      this.#learn(says, output)
      return output
    }
  }

  /** Replaces text of the page with the values of this run. */
  translated(text: string): string {
    let here = text
    // The longest text is replaced first, because a key contains an id, which must not be replaced inside the key.
    const known = [...this.#here].toSorted(([one], [other]) => other.length - one.length)
    for (const [there, value] of known) here = here.replaceAll(there, value)
    return here
  }

  /** Ends the shell and its background processes. */
  async close(): Promise<void> {
    const { pid } = this.#shell
    if (this.#shell.exitCode !== null || pid === undefined) return
    const ended = once(this.#shell, 'exit')
    process.kill(-pid, 'SIGKILL')
    await ended
  }

  #learn(documented: string, output: string): void {
    const values = [...output.matchAll(VOLATILE)]
    for (const [at, [written]] of [...documented.matchAll(VOLATILE)].entries()) {
      const value = values[at]?.[0]
      if (value !== undefined && !/ /.test(written)) this.#here.set(written, value)
    }
  }

  async #once(command: string): Promise<string> {
    const translated = this.translated(command).replace(
      /(127\.0\.0\.1|localhost):(\d{4})\b/g,
      (all, host, port) => {
        const here = this.#ports.get(port)
        return here === undefined ? all : `${host}:${here}`
      },
    )
    const start = /^((?:\w+=\S+ )*)(npm start(?: --)?|daicho serve)([^&]*)(&?)$/.exec(translated)
    if (start !== null) {
      const [, variables = '', program = '', flags = '', isBehind] = start
      const serve = program.startsWith('npm') ? 'npm run -s daicho -- serve' : 'daicho serve'
      const lines = await this.#serve(`${variables} ${serve}`, flags)
      return isBehind === '&' ? '' : lines
    }
    return this.#asInPage(
      await this.#shellRun(translated.replace(/^kill (%\d+)$/, 'kill $1; wait $1')),
    )
  }

  /** Starts a node in the background, waits until it listens, and returns its output. */
  async #serve(serve: string, flags: string): Promise<string> {
    const addresses = join(this.#folder, '.shell', `addresses-${this.#steps}`)
    const free = PORTS.map(([, flag]) => `--${flag} 0`).join(' ')
    writeFileSync(addresses, '')
    const failed = await this.#shellRun(
      `${QUIET} ${serve} ${flags} ${free} --json > ${addresses} 2>> .shell/log &
      serving=$!; until [ -s ${addresses} ]; do kill -0 $serving || break; sleep 0.1; done`,
    )
    const line = readFileSync(addresses, 'utf8')
    if (line === '')
      throw new Error(
        `${serve} ${flags}: ${failed}${readFileSync(join(this.#folder, '.shell/log'), 'utf8')}`,
      )
    const urls: Record<string, string> = JSON.parse(line)
    for (const [name, flag, preset] of PORTS) {
      const url = urls[name]
      const port = new RegExp(`--${flag} (\\d+)`).exec(flags)?.[1] ?? preset
      if (url !== undefined) this.#ports.set(port, new URL(url).port)
    }
    return this.#asInPage(
      Object.entries(urls)
        .map(([name, url]) => `${name} ${url}\n`)
        .join(''),
    )
  }

  #asInPage(said: string): string {
    let text = said
    for (const [there, here] of this.#ports) text = text.replaceAll(`:${here}`, `:${there}`)
    return text
  }

  /** Runs `command` in the shell. Returns the output without progress lines. */
  async #shellRun(command: string): Promise<string> {
    this.#steps += 1
    const name = join(this.#folder, '.shell', `${this.#steps}`)
    writeFileSync(name, `${command}\n`)
    const { stdin, stdout } = this.#shell
    if (stdin === null || stdout === null) throw new Error('the shell has no pipes')
    const ended = once(stdout, 'data', { signal: AbortSignal.timeout(STEP_MS) })
    // Of the shell's own output, there is only the line at the end of each step.
    stdin.write(`. ${name} > ${name}.said 2>&1 < /dev/null; echo\n`)
    await ended.catch((cause: unknown) => {
      throw new Error(`timed out: ${command}`, { cause })
    })
    return readFileSync(`${name}.said`, 'utf8')
      .replaceAll('\r\n', '\n')
      .replace(/^[a-z ]+ +\d+ % {2}.*\n/gm, '')
      .replace(/([^\n])$/, '$1\n')
  }
}
