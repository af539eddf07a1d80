import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'

/** Paths of the programs `ip` and `tc` of iproute2. */
const [IP, TC] = ['ip', 'tc'].map((name) => {
  return ['/usr/sbin', '/sbin', '/usr/bin', '/bin']
    .map((folder) => `${folder}/${name}`)
    .find((path) => existsSync(path))
})
const PREFIX = 'daicho-test'

function run(...args: string[]): string {
  const { status, stdout, stderr, error } = spawnSync(IP ?? 'ip', args, { encoding: 'utf8' })
  if (status === 0) return stdout
  throw new Error(`ip ${args.join(' ')}: ${stderr || error}`)
}

/** Returns why network namespaces are unavailable, or null if they are available. */
export function whyNoNamespaces(): string | null {
  if (IP === undefined || TC === undefined) return 'iproute2 is not installed'
  const name = `${PREFIX}-${process.pid}-try`
  try {
    run('netns', 'add', name)
    run('-n', name, 'link', 'add', 'try0', 'type', 'veth', 'peer', 'name', 'try1')
    shape(name, 'add', 'try0', '1mbit')
    return null
  } catch (error) {
    return `namespaces cannot be created: ${error instanceof Error ? error.message.trim() : error}`
  } finally {
    spawnSync(IP, ['netns', 'del', name])
  }
}

/**
 * Hosts in separate network namespaces. Links between each pair of hosts can be cut. A permanent link
 * connects each host to this computer. Needs root.
 */
export class Namespaces {
  readonly #hosts: readonly string[]

  constructor(hosts: readonly string[]) {
    this.#hosts = hosts
    sweep()
    for (const [n, host] of hosts.entries()) {
      run('netns', 'add', nameOf(host))
      run('-n', nameOf(host), 'link', 'set', 'lo', 'up')
      const outer = outerLink(n)
      run('link', 'add', outer, 'type', 'veth', 'peer', 'name', 'ctl', 'netns', nameOf(host))
      run('addr', 'add', `10.231.${n}.1/30`, 'dev', outer)
      run('link', 'set', outer, 'up')
      run('-n', nameOf(host), 'addr', 'add', `${this.address(host)}/30`, 'dev', 'ctl')
      run('-n', nameOf(host), 'link', 'set', 'ctl', 'up')
      for (const other of hosts.slice(0, n)) this.#join(other, host)
    }
  }

  /** Returns the address at which this computer reaches `host`. */
  address(host: string): string {
    return `10.231.${this.#hosts.indexOf(host)}.2`
  }

  /** Returns the address at which `from` reaches `host`. */
  addressFor(from: string, host: string): string {
    const [low, high] = this.#sorted(from, host)
    return `10.232.${low * 16 + high}.${this.#hosts.indexOf(host) === low ? 1 : 2}`
  }

  /** Returns a command prefix that runs a program on `host`. */
  at(host: string): string[] {
    return [IP ?? 'ip', 'netns', 'exec', nameOf(host)]
  }

  /** Cuts the link between two hosts in both directions. */
  cut(one: string, other: string): void {
    run('-n', nameOf(one), 'link', 'set', `to-${other}`, 'down')
  }

  mend(one: string, other: string): void {
    run('-n', nameOf(one), 'link', 'set', `to-${other}`, 'up')
  }

  /** Silently drops messages from `from` to `to`. Messages in the other direction arrive. */
  cutOneWay(from: string, to: string): void {
    run('-n', nameOf(from), 'route', 'add', 'blackhole', `${this.addressFor(from, to)}/32`)
  }

  mendOneWay(from: string, to: string): void {
    run('-n', nameOf(from), 'route', 'del', 'blackhole', `${this.addressFor(from, to)}/32`)
  }

  /** Limits the rate of messages from `from` to `to`. `rate` has the syntax of `tc`. */
  slow(from: string, to: string, rate: string): void {
    shape(nameOf(from), 'add', `to-${to}`, rate)
  }

  quicken(from: string, to: string): void {
    shape(nameOf(from), 'del', `to-${to}`)
  }

  /** Removes the hosts. Their programs must have exited. */
  remove(): void {
    for (const [n, host] of this.#hosts.entries()) {
      // Linux removes the links of a deleted namespace later, so the next hosts would find this one.
      run('link', 'del', outerLink(n))
      run('netns', 'del', nameOf(host))
    }
  }

  #join(one: string, other: string): void {
    const there = ['peer', 'name', `to-${one}`, 'netns', nameOf(other)]
    run('-n', nameOf(one), 'link', 'add', `to-${other}`, 'type', 'veth', ...there)
    for (const [from, to] of [
      [one, other],
      [other, one],
    ] as const) {
      const address = this.addressFor(to, from)
      run('-n', nameOf(from), 'addr', 'add', `${address}/30`, 'dev', `to-${to}`)
      run('-n', nameOf(from), 'link', 'set', `to-${to}`, 'up')
    }
  }

  #sorted(one: string, other: string): [number, number] {
    const [a, b] = [this.#hosts.indexOf(one), this.#hosts.indexOf(other)]
    return a < b ? [a, b] : [b, a]
  }
}

function shape(namespace: string, change: 'add' | 'del', device: string, rate?: string): void {
  const limits =
    rate === undefined ? [] : ['tbf', 'rate', rate, 'burst', '64kb', 'latency', '400ms']
  const args = ['-n', namespace, 'qdisc', change, 'dev', device, 'root', ...limits]
  const { status, stderr, error } = spawnSync(TC ?? 'tc', args, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`tc ${args.join(' ')}: ${stderr || error}`)
}

/** Returns the name of this computer's end of its link to host `n`. */
function outerLink(n: number): string {
  return `dch${process.pid % 100_000}-${n}`
}

function nameOf(host: string): string {
  return `${PREFIX}-${process.pid}-${host}`
}

/** Removes the hosts and processes of killed test runs. Old nodes would otherwise answer requests to new nodes. */
function sweep(): void {
  for (const line of run('netns', 'list').split('\n')) {
    const [name = '', pid = ''] = /^daicho-test-(\d+)-\S+/.exec(line) ?? []
    if (name === '' || Number(pid) === process.pid || existsSync(`/proc/${pid}`)) continue
    for (const left of run('netns', 'pids', name).split('\n').filter(Boolean)) end(Number(left))
    spawnSync(IP ?? 'ip', ['netns', 'del', name])
  }
}

function end(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    // Ignored: the process has exited.
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error
  }
}
