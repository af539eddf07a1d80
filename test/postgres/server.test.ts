import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { PostgresPrograms } from './programs.ts'
import { PostgresServer, queryOnce } from './server.ts'
import { sharedPostgres } from './shared.ts'

const postgres = await sharedPostgres()

describe.skipIf(postgres.missing !== null)(`the shared server${postgres.note}`, () => {
  it('gives each caller an empty database', async () => {
    await using one = await postgres.newDatabase()
    await using other = await postgres.newDatabase()
    await queryOnce(one.url, 'CREATE TABLE t (n int)')
    const tables = "SELECT relname FROM pg_class WHERE relname = 't'"
    expect(await queryOnce(one.url, tables)).toEqual([{ relname: 't' }])
    expect(await queryOnce(other.url, tables)).toEqual([])
  })
})

describe.skipIf(!postgres.canLaunch)(`servers of a test${postgres.note}`, () => {
  let programs: PostgresPrograms
  beforeAll(async () => {
    programs = await postgres.newPrograms()
  })
  afterAll(() => programs.remove())

  it('servers of a test keep committed data after a kill', async () => {
    const server = await PostgresServer.create(programs, 'killed')
    await server.start()
    await server.query('CREATE TABLE t (n int)')
    await server.query('INSERT INTO t VALUES (7)')
    await server.kill9()
    await expect(server.query('SELECT n FROM t')).rejects.toMatchObject({ code: 'ECONNREFUSED' })
    await server.start()
    expect(await server.query('SELECT n FROM t')).toEqual([{ n: 7 }])
    await server.stop()
  })

  it('servers of a test replicate to standbys that were created before or after the first start, and these can take over', async () => {
    const one = await PostgresServer.create(programs, 's1', {
      synchronous_standby_names: 'ANY 1 (s2, s3)',
    })
    const two = await PostgresServer.createStandby(one, { folder: 's2', name: 's2' })
    await Promise.all([one.start(), two.start()])
    await one.query('CREATE TABLE t (n int)')
    const three = await PostgresServer.createStandby(one, { folder: 's3', name: 's3' })
    await three.start()
    await one.query('INSERT INTO t VALUES (1)')
    await two.stop('immediate')
    await one.query('INSERT INTO t VALUES (2)')
    await one.kill9()
    await three.promote({ synchronous_standby_names: '' })
    await three.query('INSERT INTO t VALUES (3)')
    expect(await three.query('SELECT n FROM t ORDER BY n')).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }])
    await three.stop()
  })

  it('servers of a test leave no process and no file after the program that started them is killed', async () => {
    const code = `
      import { PostgresPrograms } from '${import.meta.resolve('./programs.ts')}'
      import { PostgresServer } from '${import.meta.resolve('./server.ts')}'
      const programs = await PostgresPrograms.create()
      const server = await PostgresServer.create(programs, 'left')
      await server.start()
      console.log(JSON.stringify({ folder: programs.folder, url: server.url() }))
      setInterval(() => {}, 1_000)`
    const program = spawn(process.execPath, ['--input-type=module', '-e', code])
    const [line] = await once(program.stdout, 'data')
    const { folder, url } = JSON.parse(String(line))
    expect(await queryOnce(url, 'SELECT 1 AS n')).toEqual([{ n: 1 }])
    program.kill('SIGKILL')
    await expect.poll(() => existsSync(folder)).toBe(false)
    await expect(queryOnce(url, 'SELECT 1')).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  })
})
