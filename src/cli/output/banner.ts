import { resolve } from 'node:path'
import type { Settings } from '../composition/settings.ts'
import { VERSION } from '../version.ts'

/** Lines after which `HeldLog` writes all lines even before `release`, so that warnings cannot fill the memory. */
const HELD_LINES_MAX = 1_000

/** A log that keeps its lines back during the start, so that a terminal shows the banner before the lines. */
export class HeldLog {
  readonly #out: { write(line: string): unknown }
  #held: string[] | null

  constructor(out: { write(line: string): unknown }, isHeld: boolean) {
    this.#out = out
    this.#held = isHeld ? [] : null
    if (isHeld) process.once('exit', () => this.release())
  }

  write(line: string): void {
    if (this.#held === null) {
      this.#out.write(line)
      return
    }
    this.#held.push(line)
    if (this.#held.length === HELD_LINES_MAX) this.release()
  }

  /** Writes the held lines. After that, `write` writes at once. */
  release(): void {
    for (const line of this.#held ?? []) this.#out.write(line)
    this.#held = null
  }
}

/** Data that each component loses at a restart if there is no folder. */
const DATA: Readonly<Record<string, string>> = {
  ledger: 'databases and ledger',
  gateway: 'networks',
  rates: 'accepted rates',
  samples: 'token keys',
}

interface Started {
  readonly listeners: readonly { readonly name: string; readonly url: string }[]
  readonly settings: Pick<Settings, 'SYSTEM_FOLDER' | 'STORE'>
  /** Lines that the components add to the banner, such as preset credentials. */
  readonly notices: readonly string[]
}

/** Returns the text for a terminal after the start: addresses of the pages, place of the data, how to stop. */
export function bannerText({ listeners, settings, notices }: Started): string {
  const ledger = listeners.find(({ name }) => name === 'ledger')
  const lines = [`daicho ${VERSION}`]
  if (ledger !== undefined) {
    lines.push(`Dashboard: ${ledger.url}/`, `API documentation: ${ledger.url}/doc`)
  }
  const { SYSTEM_FOLDER: folder, STORE } = settings
  const lost = listeners.flatMap(({ name }) => DATA[name] ?? [])
  if (folder !== null) {
    const label =
      STORE === null ? 'Data folder' : 'Data in the database of STORE, key in the folder'
    lines.push(`${label}: ${resolve(folder)}`)
  } else if (lost.length > 0) {
    lines.push(`Not persistent: ${lost.join(', ')}. To keep the data: --folder <path>`)
  }
  lines.push(...notices, 'Press Ctrl-C to stop.')
  return `\n${lines.map((line) => `  ${line}\n`).join('')}\n`
}
