import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { MAIN } from '../support/program.ts'

interface Ended {
  readonly code: number
  readonly out: string
  readonly err: string
}

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'daicho-commands-'))
})
afterAll(() => rm(folder, { recursive: true }))

const start = (args: readonly string[], env: Record<string, string>) =>
  spawn(process.execPath, [MAIN, ...args], { env: { PATH: process.env.PATH ?? '', ...env } })

async function daicho(
  args: string,
  { env = {}, input = '' }: { env?: Record<string, string>; input?: string } = {},
): Promise<Ended> {
  const child = start(args.split(' '), env)
  let [out, err] = ['', '']
  child.stdout.on('data', (part) => {
    out += part
  })
  child.stderr.on('data', (part) => {
    err += part
  })
  child.stdin.on('error', () => {}) // The command may exit before it reads stdin.
  child.stdin.end(input)
  const [code]: unknown[] = await once(child, 'close')
  return { code: Number(code), out, err }
}

describe('daicho serve --only samples', () => {
  const serve = (env: Record<string, string>, host = '0.0.0.0') =>
    daicho(`serve --only samples --sample-port 0 --host ${host}`, { env })

  it('refuses preset credentials on a public address with exit code 78, and names the variables to set', async () => {
    const nobody = await serve({})
    expect([nobody.code, nobody.out]).toEqual([78, ''])
    expect(nobody.err).toMatch(/^daicho: .*USERS_FILE.*\n$/)

    const users = join(folder, 'declared.json')
    await writeFile(users, '[{"name":"ada","password":"correct horse"}]')
    const noPairs = await serve({ USERS_FILE: users })
    expect(noPairs.code).toBe(78)
    expect(noPairs.err).toMatch(/^daicho: .*HELLO_FILE.*\n$/)
  })

  it('refuses a secret of 6 bytes with exit code 78', async () => {
    const path = join(folder, 'secret')
    await writeFile(path, '123456\n')
    const { code, err } = await serve({ SECRET_FILE: path }, '127.0.0.1')
    expect(code).toBe(78)
    expect(err).toContain('6 bytes')
    expect(err).not.toContain('123456')
  })

  it('applies revocations, new keys and new users while it runs', async () => {
    const env = { SYSTEM_FOLDER: join(folder, 'node') }
    const child = start(['serve', '--only', 'samples', '--sample-port', '0', '--json'], env)
    try {
      const [line]: unknown[] = await once(child.stdout, 'data')
      const { samples }: { samples: string } = JSON.parse(String(line))
      const login = async (name: string, password: string) => {
        const body = new URLSearchParams({ name, password })
        const answer = await fetch(`${samples}/api/authenticate`, { method: 'POST', body })
        const reply: { token?: string } = JSON.parse(await answer.text())
        return reply.token ?? ''
      }
      const read = async (token: string) =>
        (await fetch(`${samples}/api`, { headers: { 'x-access-token': token } })).text()
      const invalid = '{"success":false,"message":"Invalid token."}'
      const welcome = '{"message":"Welcome to the sample API."}'

      const added = await daicho('user add ada --admin', { env, input: 'correct horse\n' })
      expect(added).toEqual({ code: 0, out: 'added ada\n', err: '' })
      const token = await login('ada', 'correct horse')
      expect(await read(token)).toBe(welcome)

      const { jti } = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())
      expect((await daicho(`token revoke ${jti}`, { env })).out).toBe(`revoked ${jti}\n`)
      expect(await read(token)).toBe(invalid)

      const second = await login('ada', 'correct horse')
      expect((await daicho('token keys rotate', { env })).code).toBe(0)
      expect(await read(second)).toBe(welcome)
      const third = await login('ada', 'correct horse')
      expect(third.split('.')[0]).not.toBe(second.split('.')[0])
      expect((await daicho('token keys rotate --drop-old', { env })).code).toBe(0)
      expect([await read(second), await read(third)]).toEqual([invalid, invalid])

      expect((await daicho('user passwd ada', { env, input: 'battery\n' })).code).toBe(0)
      expect(await login('ada', 'correct horse')).toBe('')
      expect(await read(await login('ada', 'battery'))).toBe(welcome)
      expect((await daicho('user remove ada', { env })).out).toBe('removed ada\n')
      expect(await login('ada', 'battery')).toBe('')
    } finally {
      child.kill('SIGTERM')
      const [code]: unknown[] = await once(child, 'exit')
      expect(code).toBe(0)
    }
  })
})

describe('daicho user and daicho token', () => {
  it('daicho user and daicho token report errors with their exit codes', async () => {
    const env = { SYSTEM_FOLDER: join(folder, 'other') }
    const cases: [string, Record<string, string>, number, string][] = [
      ['user list', {}, 78, 'set the folder of the node'],
      ['token keys rotate', env, 78, 'there is no folder'],
      ['user', env, 2, 'Usage: daicho user'],
      ['user add ada correct-horse', env, 2, 'too many arguments'],
      [
        'user add ada',
        env,
        2,
        'no password was given: write it as the first line of standard input',
      ],
    ]
    for (const [args, input, code, reason] of cases) {
      const ended = await daicho(args, { env: input })
      expect([args, ended.code, ended.out]).toEqual([args, code, ''])
      expect(ended.err).toContain(reason)
    }
    expect((await daicho('user add ada', { env, input: 'one\r\ntwo\n' })).code).toBe(0)
    const again = await daicho('user add ada', { env, input: 'x\n' })
    expect([again.code, again.err]).toEqual([1, 'daicho: the user ada already exists\n'])
    expect((await daicho('token revoke x', { env })).code).toBe(2)
    const listed = await daicho('user list --json', { env })
    expect(listed.out).toBe('[{"name":"ada","admin":false}]\n')
    expect(await readFile(join(env.SYSTEM_FOLDER, 'users.json'), 'utf8')).not.toContain('one')
  })
})
