// Writes `docs/reference/errors.md` from the tables of error codes in the source.
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
export const ERRORS_PAGE = 'docs/reference/errors.md'

const ALL = 'all'
/** The listeners that send the codes of a module. Codes of other modules do not reach clients. */
const LISTENERS: Readonly<Record<string, string>> = {
  http: ALL,
  base: 'all but converter and rates',
  filter: 'ledger, gateway',
  tokens: 'ledger',
  ledger: 'ledger',
  network: 'gateway',
  gateway: 'gateway',
  converter: 'converter',
  'rate-feed': 'rates',
  'sample-api': 'samples',
}

/** The advice for clients, by status. A more specific row of `BY_CODE` takes precedence. */
const BY_STATUS: Readonly<Record<string, string>> = {
  400: 'correct the request',
  401: 'send valid credentials or a valid token',
  403: 'use a caller with this access',
  404: 'check the name',
  405: 'use a method of `Allow`',
  408: 'send faster',
  409: 'read the current state, then decide',
  410: 'do not repeat',
  412: 'read the current state, then decide',
  413: 'send less',
  414: 'send less',
  415: 'correct the request',
  416: 'correct the request',
  417: 'correct the request',
  421: 'use a known host name',
  422: 'correct the request',
  429: 'wait for `Retry-After`',
  431: 'send less',
  500: 'tell the operator, who reads the log',
  503: 'repeat later',
  504: 'do less in one request',
  507: 'tell the operator, who makes room',
}
const OPERATOR = 'tell the operator: repeating does not help'
const CHECK_FIRST = 'check whether it was recorded, or repeat with the same `Idempotency-Key`'
const BY_CODE: Readonly<Record<string, string>> = {
  OUTCOME_UNKNOWN: CHECK_FIRST,
  WRITER_STOPPED: `${CHECK_FIRST}; if it stays, tell the operator`,
  ...{ STORE_DAMAGED: OPERATOR, STORE_FAILED: OPERATOR, STORE_ROLLED_BACK: OPERATOR },
  ...{ CHAIN_DOUBTED: OPERATOR, MIRROR_FROZEN: OPERATOR, LOG_CONTRADICTED: OPERATOR },
}

interface Row {
  status: string
  meaning: string
  listeners: Set<string>
}

/** A status in a table of errors, with the comment that ends the line. */
const STATUS = /\b([A-Z][A-Z\d]*(?:_[A-Z\d]+)+|BUSY|CLOSING): ([45]\d\d)\b(?:,? \/\/ (.*)$)?/gm
/** A row of the table of `src/http/refusal.ts`. */
const HTTP_ROW = /^ +([A-Z][A-Z\d_]+): \[\s*([45]\d\d),\s*'(.*)',?\s*\],$/gm
/** An error that is thrown with its status. */
const REFUSAL = /new HttpRefusal\(\s*([45]\d\d),\s*'([A-Z\d_]+)',\s*(?:'([^']*)')?/g

function readRows(): Map<string, Row> {
  const rows = new Map<string, Row>()
  const files = globSync('src/**/*.ts', { cwd: root }).sort()
  const scan = (form: RegExp, order: (match: RegExpExecArray) => (string | undefined)[]) => {
    for (const path of files) {
      const listeners = LISTENERS[path.split(/[/\\]/)[1] ?? '']
      if (listeners === undefined || /\.test\.ts$/.test(path)) continue
      for (const match of readFileSync(join(root, path), 'utf8').matchAll(form)) {
        const [code = '', status = '', meaning = ''] = order(match)
        const row = rows.get(code) ?? { status, meaning: '', listeners: new Set() }
        if (row.meaning === '') row.meaning = meaning
        rows.set(code, row)
        row.listeners.add(listeners)
      }
    }
  }
  scan(STATUS, ([, code, status, comment]) => [code, status, comment])
  scan(HTTP_ROW, ([, code, status, message]) => [code, status, message])
  scan(REFUSAL, ([, status, code, message]) => [code, status, message])
  return rows
}

type Page = readonly [path: string, text: string]

/** Returns the meaning of `code` in a table of the manual, without links; empty if the table only refers to others. */
function findMeaning(code: string, status: string, pages: readonly Page[]): string {
  const cell = `[^|\\n]*\`${code}\`[^|\\n]*`
  const row = new RegExp(`^\\| (?:${status} \\| ${cell}|${cell}\\| ${status} )\\| (.*) \\|$`, 'm')
  const found = pages.flatMap(([, text]) => row.exec(text)?.[1] ?? [])
  const plain = found.map((text) => text.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1'))
  return plain.find((text) => !/^(?:see|as) /.test(text)) ?? ''
}

/** Returns links to the pages of the manual that have `code` in a table. */
function linkPages(code: string, pages: readonly Page[]): string {
  const row = new RegExp(`^\\|.*\`${code}\``, 'm')
  return pages
    .filter(([, text]) => row.test(text))
    .map(([path]) => `[${path.replace(/^.*\/|\.md$/g, '')}](${path})`)
    .join(', ')
}

/** Returns the text of the page. */
export function errorsPage(): string {
  const folder = join(root, 'docs/reference')
  const pages = globSync('**/*.md', { cwd: folder })
    .map((path) => path.replaceAll('\\', '/'))
    .filter((path) => path !== 'errors.md')
    .sort()
    .map((path) => [path, readFileSync(join(folder, path), 'utf8')] as const)
  const lines = [...readRows()]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([code, { status, meaning, listeners }]) => {
      const words = code.toLowerCase().replaceAll('_', ' ')
      const shown = meaning || findMeaning(code, status, pages) || words
      const from = listeners.has(ALL) ? ALL : [...listeners].join(', ')
      const action = BY_CODE[code] ?? BY_STATUS[status] ?? ''
      const cells = [`\`${code}\``, status, shown.replaceAll('<', '&lt;'), action, from]
      return `| ${[...cells, linkPages(code, pages)].join(' | ')} |`
    })
  return `# Error codes

Every error code that a listener sends, its status and what to do. The shape of the body differs: \`status\`, \`code\`
and \`message\` from the ledger, the converter and the rates; \`error.code\` from the gateway; only \`message\` from the
samples.

This page is written from the tables in the source by \`npm run -s pages -- ${ERRORS_PAGE}\`.

| Code | Status | Meaning | What to do | From | Page |
|---|---|---|---|---|---|
${lines.join('\n')}
`
}
