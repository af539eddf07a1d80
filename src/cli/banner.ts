import { resolve } from 'node:path'
import type { Settings } from './settings.ts'
import { VERSION } from './version.ts'

/** Maximum number of held lines, so that a start with many warnings does not fill the memory. */
const HELD_LINES_MAX = 1_000

/** A log that holds its lines during the start, so that a terminal shows the banner before them. */
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

  /** Writes the held lines, and each further line at once. */
  release(): void {
    for (const line of this.#held ?? []) this.#out.write(line)
    this.#held = null
  }
}

/** Data of each component that needs a folder to survive a restart. */
const DATA: Readonly<Record<string, string>> = {
  ledger: 'databases and ledger',
  gateway: 'networks',
  rates: 'accepted rates',
  samples: 'token keys',
}

interface Started {
  readonly listeners: readonly { readonly name: string; readonly url: string }[]
  readonly settings: Pick<Settings, 'SYSTEM_FOLDER' | 'STORE'>
  /** Lines of the components, such as preset credentials. */
  readonly notices: readonly string[]
}

/** The text for a terminal after the start: where the pages and the data are, and how to stop. */
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
