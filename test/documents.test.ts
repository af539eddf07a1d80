// The documents and the program must agree on names, codes, flags, paths and links.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Command } from 'commander'
import { expect, it } from 'vitest'
import { ERRORS_PAGE, errorsPage } from '../scripts/errors-page.ts'
import { createCommands } from '../src/cli/command-list.ts'
import { readSettings, shownSettings } from '../src/cli/composition/settings.ts'
import { converterStatuses } from '../src/converter/errors.ts'
import { gatewayStatuses as statusOfGateway } from '../src/gateway/api/errors.ts'
import { statusOfLedgerApi as statusOfLedger } from '../src/ledger/api/replies.ts'
import { rateFeedStatuses } from '../src/rate-feed/errors.ts'
import { startLedgerNode } from './support/ledger-node.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

function filesBelow(folder: string, form: RegExp): string[] {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name)
    if (statSync(path).isDirectory()) return filesBelow(path, form)
    return form.test(name) ? [path] : []
  })
}

const textOf = (path: string) => readFileSync(path, 'utf8')
const pages = [
  ...readdirSync(root)
    .filter((name) => name.endsWith('.md'))
    .map((name) => join(root, name)),
  ...filesBelow(join(root, 'docs'), /\.md$/),
]
/** The manual: the reference and the how-to pages. */
const manual = pages.filter((path) => /docs\/(?:reference|how-to)\/.*\.md$/.test(path))
const manualText = manual.map(textOf).join('\n')
const sources = filesBelow(join(root, 'src'), /\.(?:tsx?|js)$/).filter(
  (path) => !/\.test\.tsx?$|-contract\.ts$|test-world/.test(path),
)
const sourceText = sources.map(textOf).join('\n')
/** Source of the other programs of the repository. CONTRIBUTING.md documents their variables. */
const otherText = ['test', 'bench', 'scripts', 'packaging']
  .flatMap((name) => filesBelow(join(root, name), /\.(?:m?ts|mjs|yaml|service)$/))
  .filter((path) => path !== fileURLToPath(import.meta.url))
  .map(textOf)
  .join('\n')

const withoutBlocks = (text: string) => text.replace(/^```[\s\S]*?^```$/gm, '')
const missing = (wanted: Iterable<string>, there: (name: string) => boolean) =>
  [...new Set(wanted)].filter((name) => !there(name)).toSorted()
/** Returns a function that tells whether `text` contains a name as a whole word. */
const names = (text: string) => {
  const words = new Set(text.match(/[A-Za-z0-9_]+/g))
  return (name: string) => words.has(name)
}

/** Returns the anchors of the headings of a page, as GitHub generates them. */
function anchorsOf(path: string): Set<string> {
  const headings = withoutBlocks(textOf(path)).matchAll(/^#+ (.*)$/gm)
  const anchors = new Set<string>()
  for (const [, heading = ''] of headings) {
    const plain = heading
      .toLowerCase()
      .replace(/[^\p{Letter}\p{Number} _-]/gu, '')
      .replaceAll(' ', '-')
    for (let n = 0; ; n += 1) {
      const anchor = n === 0 ? plain : `${plain}-${n}`
      if (anchors.has(anchor)) continue
      anchors.add(anchor)
      break
    }
  }
  return anchors
}

it('links between documents lead to existing files and headings', () => {
  const links = pages.flatMap((page) =>
    [...withoutBlocks(textOf(page)).matchAll(/\]\(([^)\s]+)\)/g)].map(
      ([, target = '']) => [page, target] as const,
    ),
  )
  const broken = links.filter(([page, target]) => {
    if (/^(?:https?|mailto):/.test(target)) return false
    const [path = '', anchor] = target.split('#', 2)
    const file = path === '' ? page : resolve(dirname(page), path)
    if (!existsSync(file)) return true
    return anchor !== undefined && !anchorsOf(file).has(anchor)
  })
  expect(links.length).toBeGreaterThan(100)
  expect(broken.map(([page, target]) => `${relative(root, page)}: ${target}`)).toEqual([])
})

it('files named in documents exist', () => {
  const named = pages.flatMap((page) =>
    [
      ...textOf(page).matchAll(/`((?:src|test|docs|examples|scripts|bench|packaging)\/[\w./-]+)`/g),
    ].map(([, path = '']) => `${relative(root, page)}: ${path}`),
  )
  const isThere = (name: string) =>
    name.includes('NNNN') || existsSync(join(root, name.split(': ')[1] ?? ''))
  expect(missing(named, isThere)).toEqual([])
})

it('decision records name only source files that exist', () => {
  const all = ['src', 'test'].flatMap((name) => filesBelow(join(root, name), /\.tsx?$/))
  const named = pages
    .filter((page) => /docs\/decisions\/|ARCHITECTURE/.test(page))
    .flatMap((page) =>
      [...textOf(page).matchAll(/`([\w./-]+\.tsx?)`/g)].map(
        ([, path = '']) => `${relative(root, page)}: ${path}`,
      ),
    )
  expect(named.length).toBeGreaterThan(40)
  const isThere = (name: string) => all.some((path) => path.endsWith(`/${name.split(': ')[1]}`))
  const others = missing(named, isThere).filter(
    (name) => !existsSync(join(root, name.split(': ')[1] ?? '')),
  )
  expect(others).toEqual([])
})

const settings = shownSettings(readSettings({})).map(({ name }) => name)

it('the manual describes every environment variable', () => {
  const rows = names(manualText.replace(/^(?!\|).*$/gm, ''))
  expect(missing(settings, rows)).toEqual([])
})

/** Codes that users never see, because the program shows only the message or sends another code. */
const INSIDE = new Set(
  `CHAIN_DAMAGED COPY_OVER_STORE DATABASE_CHANGED COPY_REFUSED EXPORT_DAMAGED EXPORT_FOREIGN EXPORT_TOO_NEW IMPORT_OVER_STORE IMPORT_WITHOUT_KEY
  RESTORE_OVER_STORE RESTORE_REFUSED RESTORE_WITHOUT_KEY
  EFFECT_IMPOSSIBLE HEAD_MOVED FOLDER_IN_USE FOLDER_KEY_MISSING FOLDER_UNUSABLE LOG_HEAD_DAMAGED
  STORE_FOREIGN STORE_FORMAT STORE_NOT_FOUND STORE_UNSAFE
  FILE_DAMAGED FILE_LOCKED FILE_UNREADABLE HELLO_FILE_UNUSABLE HELLO_NOT_CONFIGURED
  USERS_FILE_UNUSABLE USERS_FULL USERS_NOT_CONFIGURED USER_EXISTS USER_NAME_UNUSABLE USER_UNKNOWN
  KEYS_FIXED KEY_RING_FULL PASSWORD_HASH_UNUSABLE PASSWORD_UNUSABLE SCOPE_RULES_INVALID
  ERR_STREAM_PREMATURE_CLOSE SECRET_TOO_SHORT TOKEN_ID_MALFORMED SOURCES_INVALID HASHING_BUSY
  GIVEN_UP ERR_HTTP_REQUEST_TIMEOUT HPE_HEADER_OVERFLOW URL_INVALID
  FORMAT_UNSUITABLE INPUT_INVALID SCHEMA_INVALID`.split(/\s+/),
)
const CODE = /'([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)'/g
const codes = [...sourceText.matchAll(CODE)]
  .map(([, code = '']) => code)
  .filter((code) => !settings.includes(code))

it('the manual lists every error code that users can receive', () => {
  const known = names(manualText)
  expect(codes.length).toBeGreaterThan(200)
  expect(missing(codes, (code) => INSIDE.has(code) || known(code))).toEqual([])
  expect(missing(INSIDE, (code) => codes.includes(code))).toEqual([])
})

it('every variable and code that a document names exists in the source', () => {
  const inSource = names(sourceText)
  const inOther = names(otherText)
  const named = pages.flatMap((page) =>
    [...textOf(page).matchAll(/`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)(?:[=` ])/g)].map(
      ([, name = '']) => `${relative(root, page)}: ${name}`,
    ),
  )
  expect(named.length).toBeGreaterThan(300)
  const isOne = (name: string) =>
    inSource(name) || inSource(name.replace(/_FILE$/, '')) || inOther(name)
  expect(missing(named, (name) => isOne(name.split(': ')[1] ?? ''))).toEqual([])
})

it('the manual states, for each error code, the status that the node sends', () => {
  const ofPage: Record<string, Readonly<Record<string, number>>> = {
    'converter.md': converterStatuses,
    'gateway/api.md': statusOfGateway,
    'rates.md': rateFeedStatuses,
    'ledger/items.md': statusOfLedger,
    'ledger/attachments.md': statusOfLedger,
    'ledger/history.md': statusOfLedger,
    'ledger/changes.md': statusOfLedger,
    'ledger/proofs.md': statusOfLedger,
    'ledger/queries.md': statusOfLedger,
    'ledger/peers.md': statusOfLedger,
  }
  const seen: string[] = []
  const wrong = Object.entries(ofPage).flatMap(([name, statusOf]) =>
    [
      ...textOf(manual.find((path) => path.endsWith(`/reference/${name}`)) ?? name).matchAll(
        /^\|.*\|$/gm,
      ),
    ].flatMap(([row]) => {
      const [status] = /(?<=\| )[45]\d\d(?= )/.exec(row) ?? []
      const cells = row.split('|').slice(1, 3)
      return [...cells.join().matchAll(/`([A-Z][A-Z0-9_]+)`/g)].flatMap(([, code = '']) => {
        const sent = statusOf[code]
        if (status === undefined || sent === undefined) return []
        seen.push(code)
        return sent === Number(status) ? [] : [`${name}: ${code} is ${sent}, not ${status}`]
      })
    }),
  )
  expect(seen.length).toBeGreaterThan(100)
  expect(wrong).toEqual([])
})

it('the page of error codes is current; if not, run `npm run -s pages -- docs/reference/errors.md`', () => {
  expect(textOf(join(root, ERRORS_PAGE))).toBe(errorsPage())
})

/** Returns the names of metrics in `text`, without `daicho_schema`, which is a database table. */
const metricNames = (text: string) => new Set(text.match(/\bdaicho_(?!schema\b)[a-z_]+[a-z]\b/g))

it('the manual and /metrics list the same metrics', () => {
  const inSource = metricNames(sourceText)
  expect(inSource.size).toBeGreaterThan(15)
  expect(missing(inSource, (name) => metricNames(manualText).has(name))).toEqual([])
  expect(missing(metricNames(manualText), (name) => inSource.has(name))).toEqual([])
})

it('the alerts and the Grafana dashboard use only metrics of /metrics', () => {
  const inSource = metricNames(sourceText)
  const isMetric = (name: string) =>
    inSource.has(name) || inSource.has(name.replace(/_(?:bucket|count|sum)$/, ''))
  const dashboard = join(root, 'packaging/grafana/daicho.json')
  for (const path of [dashboard, ...filesBelow(join(root, 'packaging/prometheus'), /\.yml$/)]) {
    const used = metricNames(textOf(path))
    expect([path, used.size]).toEqual([path, expect.toSatisfy((count) => count > 5)])
    expect([path, missing(used, isMetric)]).toEqual([path, []])
  }
  const { panels }: { panels: { targets?: { expr: string }[] }[] } = JSON.parse(textOf(dashboard))
  const queries = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))
  expect(queries.length).toBeGreaterThan(5)
  expect(queries.filter((query) => !/\bdaicho_|\bup\b|\bprocess_|\bnodejs_/.test(query))).toEqual(
    [],
  )
})

it('the manual lists every path of the ledger', async () => {
  const node = await startLedgerNode()
  const { json } = await node.send('GET', '/doc/json')
  await node.close()
  // Pages may abbreviate the prefix of a path, as in `…/history`.
  const known = new Set(
    [...manualText.matchAll(/(?:\/[\w{}.…*-]+)+/g)].map(([path]) =>
      path.replace(/\{\w+\}|<\w+>/g, '{}'),
    ),
  )
  const paths = Object.keys(json.paths).map((path) =>
    path.replace('/{path}', '/…').replace(/\{\w+\}/g, '{}'),
  )
  expect(paths.length).toBeGreaterThan(20)
  expect(missing(paths, (path) => known.has(path))).toEqual([])
})

/** Returns all commands by the name that users type, for example `network list`. */
function commandsByName(): Map<string, Command> {
  const found = new Map<string, Command>()
  const add = (command: Command, before: string) => {
    const name = `${before}${command.name()}`
    found.set(name, command)
    for (const part of command.commands) add(part, `${name} `)
  }
  for (const command of createCommands()) add(command, '')
  return found
}
const flagsOf = (command: Command) => command.options.map(({ long }) => long ?? '')

it('the manual lists every command and every flag', async () => {
  const commands = commandsByName()
  expect(commands.size).toBeGreaterThan(25)
  const shown = manualText.replace(/^```console\n\$ [^\n]*--help\n[\s\S]*?^```$/gm, '')
  const wanted = [...commands].flatMap(([name, command]) => [
    ...(command.commands.length > 0 ? [] : [name]),
    ...flagsOf(command),
  ])
  const says = (text: string) => new RegExp(`(?<![\\w-])${text}(?![\\w-])`).test(shown)
  const isListed = (name: string) => {
    const [first = '', ...rest] = name.split(' ')
    const last = rest.at(-1) ?? first
    return says(name) || new RegExp(`\`[^\`]*\\b${last}\\b[^\`]*\``).test(shown)
  }
  expect(missing(wanted, (name) => (name.startsWith('--') ? says(name) : isListed(name)))).toEqual(
    [],
  )
})

it('every command in a document exists with the flags that the document shows', async () => {
  const commands = commandsByName()
  const written = pages.flatMap((page) =>
    [
      ...textOf(page).matchAll(
        /(?:npm run -s daicho -- |(?<=[`$] )daicho |(?<=`)daicho |cli\/main\.[jt]s |npm start -- )((?:\\\n|[^`\n])*)/g,
      ),
    ].map(
      ([all, rest = '']) =>
        [relative(root, page), `${all.startsWith('npm start') ? 'serve ' : ''}${rest}`] as const,
    ),
  )
  expect(written.length).toBeGreaterThan(80)
  const wrong = written.flatMap(([page, line]) => {
    const [alone = ''] = line.split(/[;|&]/)
    const words = alone.split(/\s+/)
    const name = [words.slice(0, 3), words.slice(0, 2), words.slice(0, 1)]
      .map((some) => some.join(' '))
      .find((some) => commands.has(some))
    if (name === undefined) return /^[-<]|^needs Node|^$/.test(alone) ? [] : [`${page}: ${line}`]
    const command = commands.get(name)
    const known = command === undefined ? [] : [command, ...command.commands].flatMap(flagsOf)
    const flags = [...alone.matchAll(/(?<=[\s[])--[a-z-]+/g)].map(([flag]) => flag)
    return flags
      .filter((flag) => flag !== '--help' && !known.includes(flag))
      .map((flag) => `${page}: ${name} ${flag}`)
  })
  expect(wrong.filter((text) => !text.includes('--prot'))).toEqual([])
})
