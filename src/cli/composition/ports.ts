import { createServer } from 'node:net'
import { Option } from 'commander'
import { EXIT, Exit } from '../exit.ts'
import { COMPONENT_NAMES, type ComponentName } from './components.ts'

/** Flag and default port of each component. */
const PORTS: Readonly<Record<ComponentName, { readonly flag: string; readonly port: number }>> = {
  ledger: { flag: '--port', port: 4126 },
  converter: { flag: '--converter-port', port: 4127 },
  rates: { flag: '--rates-port', port: 4128 },
  samples: { flag: '--sample-port', port: 4129 },
  gateway: { flag: '--gateway-port', port: 4130 },
}

/** Returns the flags that set the ports of the components. */
export function portOptions(parse: (text: string) => number): Option[] {
  return COMPONENT_NAMES.map((name) => {
    const { flag, port } = PORTS[name]
    const fallback = name === 'ledger' ? `PORT, else ${port}` : `default ${port}`
    return new Option(
      `${flag} <number>`,
      `port of ${name} (${fallback}); 0 picks a free one`,
    ).argParser(parse)
  })
}

/** Returns the port of component `name` from its flag, or else its default. `ledgerPort`: the setting PORT. */
export function choosePort(
  name: ComponentName,
  flags: Readonly<Record<string, unknown>>,
  ledgerPort: number,
): number {
  const { flag, port } = PORTS[name]
  const given = flags[new Option(`${flag} <number>`).attributeName()]
  if (typeof given === 'number') return given
  return name === 'ledger' ? ledgerPort : port
}

/** Throws Exit (configuration) for the first component that cannot listen on its port of `host`. */
export async function requireFreePorts(
  host: string,
  ports: ReadonlyMap<ComponentName, number>,
): Promise<void> {
  const taken: (() => Promise<void>)[] = []
  try {
    // Opens all ports at the same time, so that two components with the same port are detected.
    for (const [name, port] of ports) {
      try {
        taken.push(await takePort(host, port))
      } catch (error) {
        throw listenFailure(error, name, host, port)
      }
    }
  } finally {
    await Promise.all(taken.map((release) => release()))
  }
}

/** Listens on a port; returns a function that stops listening. */
export function takePort(host: string, port: number): Promise<() => Promise<void>> {
  // Closes connections, because an open connection would keep the server from closing.
  const server = createServer((socket) => socket.destroy())
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host, port }, () => {
      resolve(() => new Promise((closed) => server.close(() => closed())))
    })
  })
}

/** Returns the error to report when component `name` cannot listen. Returns `error` itself if it has another cause. */
export function listenFailure(
  error: unknown,
  name: ComponentName,
  host: string,
  port: number,
): unknown {
  if (!(error instanceof Error) || !('code' in error) || !('syscall' in error)) return error
  const refuse = (message: string) => new Exit(EXIT.configuration, message, { cause: error })
  if (error.syscall === 'getaddrinfo' || error.code === 'EADDRNOTAVAIL') {
    return refuse(`HOST: ${host} is not an address of this computer`)
  }
  if (error.syscall !== 'listen') return error
  const advice = `choose another with ${PORTS[name].flag}`
  if (error.code === 'EADDRINUSE') return refuse(`${name}: port ${port} is in use: ${advice}`)
  if (error.code === 'EACCES')
    return refuse(`${name}: this user may not listen on port ${port}: ${advice}`)
  return refuse(`${name}: cannot listen on port ${port}: ${error.message}`)
}
