import autocannon from 'autocannon'

export interface Run {
  readonly perSecond: number
  readonly p99Ms: number
}

/** Sends one request repeatedly on `connections` connections for `seconds`. */
export async function load(request: {
  url: string
  method: 'GET' | 'POST'
  body?: string
  headers?: Readonly<Record<string, string>>
  connections: number
  seconds: number
  /** Maximum requests per second. Unlimited if absent. */
  overallRate?: number
}): Promise<Run> {
  const { url, method, body, headers, connections, seconds, overallRate } = request
  const result = await autocannon({
    url,
    method,
    connections,
    duration: seconds,
    ...(overallRate === undefined ? {} : { overallRate }),
    headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    ...(body === undefined ? {} : { body }),
  })
  if (result.non2xx > 0 || result.errors > 0) {
    throw new Error(`${method} ${url}: ${result.non2xx} refusals, ${result.errors} errors`)
  }
  return { perSecond: result.requests.total / result.duration, p99Ms: result.latency.p99 }
}

/** Returns the middle value, or the mean of the two middle values of an even number of values. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length / 2
  return ((sorted[Math.ceil(middle) - 1] ?? 0) + (sorted[Math.floor(middle)] ?? 0)) / 2
}

/** Runs every case once per round. Returns the runs of each case. */
export async function interleaved(
  rounds: number,
  cases: Record<string, () => Promise<Run>>,
): Promise<Record<string, Run[]>> {
  const runs: Record<string, Run[]> = {}
  for (let round = 0; round < rounds; round += 1) {
    for (const [name, run] of Object.entries(cases)) {
      runs[name] = [...(runs[name] ?? []), await run()]
    }
  }
  return runs
}

export function perSecond(runs: readonly Run[] | undefined): number {
  return median((runs ?? []).map((run) => run.perSecond))
}

export function p99(runs: readonly Run[] | undefined): number {
  return median((runs ?? []).map((run) => run.p99Ms))
}

/** Prints rows as a table with aligned columns. The first row is the heading. */
export function printTable(rows: readonly (readonly string[])[]): void {
  const width = (column: number) => Math.max(...rows.map((row) => row[column]?.length ?? 0))
  for (const row of rows) {
    const cells = row.map((cell, at) =>
      at === 0 ? cell.padEnd(width(at)) : cell.padStart(width(at)),
    )
    console.log(cells.join('  '))
  }
}
