import { expect, it } from 'vitest'
import { choosePort, listenFailure, requireFreePorts, takePort } from './ports.ts'

const HOST = '127.0.0.1'

/** Returns an error like that of a failed system call. */
const failure = (code: string, syscall = 'listen') =>
  Object.assign(new Error(`${syscall} ${code}`), { code, syscall })

it('uses the flag of a component, then PORT for the ledger, then the default port', () => {
  expect(choosePort('ledger', {}, 5000)).toBe(5000)
  expect(choosePort('ledger', { port: 6000 }, 5000)).toBe(6000)
  expect(choosePort('samples', {}, 5000)).toBe(4129)
  expect(choosePort('samples', { samplePort: 0 }, 5000)).toBe(0)
})

it('rejects two components with the same port, and releases all ports afterwards', async () => {
  const port = 20_000 + (process.pid % 10_000)
  const ports = new Map([
    ['ledger', port],
    ['rates', port],
  ] as const)
  await expect(requireFreePorts(HOST, ports)).rejects.toMatchObject({
    code: 78,
    message: `rates: port ${port} is in use: choose another with --rates-port`,
  })
  await (await takePort(HOST, port))()
})

it.each([
  ['EADDRINUSE', 'gateway: port 80 is in use: choose another with --gateway-port'],
  ['EACCES', 'gateway: this user may not listen on port 80: choose another with --gateway-port'],
  ['EADDRNOTAVAIL', 'HOST: 127.0.0.1 is not an address of this computer'],
  ['EMFILE', 'gateway: cannot listen on port 80: listen EMFILE'],
])('explains the system error %s in a one-line message', (code, message) => {
  expect(listenFailure(failure(code), 'gateway', HOST, 80)).toMatchObject({ code: 78, message })
})

it('does not change an error that is not about listening', () => {
  const error = failure('ENOENT', 'open')
  expect(listenFailure(error, 'gateway', HOST, 80)).toBe(error)
})
