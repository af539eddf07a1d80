// Runs once, in the process that starts all test files. Offers one PostgreSQL server to the test files, and starts it
// on the first request.
import { rmSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PostgresPrograms } from './programs.ts'
import { PostgresServer } from './server.ts'
import { SHARED_SERVER, type SharedServer } from './shared.ts'

let programs: PostgresPrograms | undefined
let listener: Server
let folder: string

async function start(): Promise<SharedServer> {
  const given = process.env.DAICHO_TEST_PG_URL
  if (given !== undefined) return { url: given, installed: null }
  try {
    programs = await PostgresPrograms.create()
    const server = await PostgresServer.create(programs, 'shared')
    await server.start()
    return { url: server.url(), installed: programs.folder }
  } catch (error) {
    return { missing: error instanceof Error ? error.message : String(error) }
  }
}

export async function setup(): Promise<void> {
  let started: Promise<SharedServer> | undefined
  folder = await mkdtemp(join(tmpdir(), 'daicho-tests-'))
  listener = createServer(async (socket) => {
    socket.on('error', () => {})
    started ??= start()
    socket.end(JSON.stringify(await started))
  })
  const path = join(folder, 'postgres')
  await new Promise<void>((resolve) => listener.listen(path, resolve))
  process.env[SHARED_SERVER] = path
}

export async function teardown(): Promise<void> {
  listener.close()
  rmSync(folder, { recursive: true, force: true })
  await programs?.remove()
}
