import { createConnection } from 'node:net'
import { text } from 'node:stream/consumers'
import { PostgresPrograms } from './programs.ts'
import { queryOnce } from './server.ts'

/** Environment variable with the socket on which `setup.ts` reports the URL of the server. */
export const SHARED_SERVER = 'DAICHO_TEST_PG_SOCKET'

/** The server of this test run, or the reason why there is none. */
export type SharedServer =
  /** `installed` has the programs of PostgreSQL. It is null if tests cannot start more servers. */
  { readonly url: string; readonly installed: string | null } | { readonly missing: string }

/** A database for one test. `await using` drops the database at the end of the test. */
export interface TestDatabase extends AsyncDisposable {
  readonly url: string
}

const databases = { count: 0 }

/** PostgreSQL for a test file. */
export interface SharedPostgres {
  /** The reason why there is no server, or null. */
  readonly missing: string | null
  /** Whether tests can start more servers. False if DAICHO_TEST_PG_URL sets the shared server. */
  readonly canLaunch: boolean
  /** Suffix for the names of tests, which gives the reason if they are skipped. */
  readonly note: string
  /** Creates an empty database, or a copy of `template`, to which nothing may be connected. */
  newDatabase(template?: TestDatabase): Promise<TestDatabase>
  /** Returns a folder for more servers. The caller removes it. */
  newPrograms(): Promise<PostgresPrograms>
}

/**
 * Returns the server that all test files of a run share. The first call starts the server. A test file calls
 * this at its top level, because the result decides which tests run: `describe.skipIf(postgres.missing !==
 * null)(`the store${postgres.note}`, …)`.
 */
export async function sharedPostgres(): Promise<SharedPostgres> {
  const server = await askForServer()
  if ('missing' in server) {
    const { missing } = server
    return {
      missing,
      canLaunch: false,
      note: ` (skipped: ${missing})`,
      newDatabase: () => Promise.reject(new Error(missing)),
      newPrograms: () => Promise.reject(new Error(missing)),
    }
  }
  const { url, installed } = server
  return {
    ...{ missing: null, canLaunch: installed !== null, note: '' },
    newDatabase: (template) => createDatabase(url, template),
    newPrograms: () => PostgresPrograms.create({ installed }),
  }
}

async function askForServer(): Promise<SharedServer> {
  const path = process.env[SHARED_SERVER]
  if (path === undefined) return { missing: 'the test runner did not run test/postgres/setup.ts' }
  return JSON.parse(await text(createConnection(path)))
}

async function createDatabase(server: string, template?: TestDatabase): Promise<TestDatabase> {
  databases.count += 1
  const name = `daicho_test_${process.pid}_${databases.count}`
  // PostgreSQL cannot copy a template that has connections, and template0 never has any.
  const source = template === undefined ? 'template0' : new URL(template.url).pathname.slice(1)
  // Copying files takes half of the processor time of writing them to the log.
  await queryOnce(server, `CREATE DATABASE ${name} TEMPLATE ${source} STRATEGY file_copy`)
  const url = new URL(server)
  url.pathname = `/${name}`
  return {
    url: url.href,
    [Symbol.asyncDispose]: async () => {
      await queryOnce(server, `DROP DATABASE ${name} WITH (FORCE)`)
    },
  }
}
