// Encrypted connections to PostgreSQL. `localhost.crt` is the certificate of the server, issued by itself. `other.crt`
// is another certificate for the same name. Both are valid until 2126 and only used here.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { verifyCommand } from '../../src/cli/commands/verify.ts'
import { runHere } from '../support/command.ts'
import { PostgresServer } from './server.ts'
import { sharedPostgres } from './shared.ts'

const postgres = await sharedPostgres()
const FOLDER = fileURLToPath(new URL('tls', import.meta.url))
const certificate = (name: string) => `sslrootcert=${encodeURIComponent(join(FOLDER, name))}`

describe.skipIf(!postgres.canLaunch)(`sslmode${postgres.note}`, () => {
  it('each mode that encrypts accepts only a server with the name in the URL and a certificate from `sslrootcert`', async () => {
    const programs = await postgres.newPrograms()
    onTestFinished(() => programs.remove())
    const server = await PostgresServer.create(programs, 'tls', { ssl: 'on' })
    for (const kind of ['crt', 'key']) {
      const content = readFileSync(join(FOLDER, `localhost.${kind}`), 'utf8')
      programs.write(join(server.data, `server.${kind}`), content)
    }
    await server.start()
    onTestFinished(() => server.stop())
    const warnings: string[] = []
    const onWarning = (warning: Error) => warnings.push(warning.message)
    process.on('warning', onWarning)
    onTestFinished(() => void process.off('warning', onWarning))
    const outcome = async (host: string, query: string, mode = 'verify-full') => {
      const url = server.url().replace('127.0.0.1', host)
      const { code, stderr } = await runHere(verifyCommand(), [`${url}?sslmode=${mode}${query}`])
      return [code, stderr]
    }
    const refused = (reason: string) => [78, expect.stringContaining(reason)]
    const path = join(FOLDER, 'none.crt')
    expect([
      await outcome('localhost', `&${certificate('localhost.crt')}`),
      await outcome('localhost', ''),
      await outcome('localhost', '', 'require'),
      await outcome('localhost', '&sslrootcert=system', 'prefer'),
      await outcome('localhost', `&${certificate('other.crt')}`),
      await outcome('127.0.0.1', `&${certificate('localhost.crt')}`),
      await outcome('localhost', `&${certificate('none.crt')}`),
    ]).toEqual([
      [2, 'daicho: the database does not contain a store\n'],
      ...Array.from({ length: 4 }, () => refused('self-signed certificate')),
      refused("IP: 127.0.0.1 is not in the cert's list"),
      refused(
        `a file of the store's URL cannot be read: ENOENT: no such file or directory, open '${path}'`,
      ),
    ])
    expect(warnings.filter((message) => message.includes('SSL'))).toEqual([])
  })
})
