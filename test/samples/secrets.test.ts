import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { basic } from '../support/basic.ts'
import { form, json, startSamples, unmistakable } from '../support/samples-listener.ts'

it('shows no password, hash, key or token in a log line, an error body, a list of users or a decoded token', async () => {
  const [password, wrong, pairPassword] = [unmistakable(), unmistakable(), unmistakable()]
  const samples = await startSamples({
    users: [{ name: 'ada', password, admin: true }],
    pairs: { one: { name: 'bob', password: pairPassword } },
  })
  try {
    const token = await samples.login('ada', password)
    const jsonType = { 'content-type': 'application/json' }
    const headers = { 'x-access-token': token }
    const answers = [
      await samples.call('POST', '/api/authenticate', json({ name: 'ada', password: wrong })),
      await samples.call('POST', '/api/authenticate', json({ name: wrong, password })),
      await samples.call('POST', '/api/authenticate', form({ name: 'ada', password: wrong })),
      // The body is malformed, and error messages of JSON parsers often quote malformed text.
      await samples.call('POST', '/api/authenticate', { headers: jsonType, body: wrong }),
      await samples.call('POST', '/api/authenticate', {
        headers: jsonType,
        body: `{"p":"${wrong}"`,
      }),
      await samples.call('POST', '/api/authenticate', {
        headers: jsonType,
        body: `{"${wrong}":1,"${wrong}":2}`,
      }),
      await samples.call('POST', '/api/authenticate', {
        headers: jsonType,
        body: '{"password":12345678901234567890123}',
      }),
      await samples.call('POST', `/api/authenticate?password=${password}`),
      await samples.call('GET', `/api/users?token=${token}`),
      await samples.call('GET', `/api/users?token=${token}x`),
      await samples.call('GET', `/nothing?token=${token}`),
      await samples.call('GET', `/api/nothing?%74oken=${token}`),
      await samples.call('GET', `/%zz?token=${token}`),
      await samples.call('GET', '/api/users', { headers }),
      await samples.call('GET', '/api/users', { headers: { authorization: `Bearer ${token}x` } }),
      await samples.call('GET', '/hello?id=one', { headers: basic('bob', wrong) }),
      await samples.call('GET', '/hello?id=one', { headers: basic('bob', pairPassword) }),
      await samples.call('GET', `/hello?id=one&password=${pairPassword}`),
      await samples.call('GET', '/doc/json'),
    ]
    const keys: { keys: { secret: string }[] } = JSON.parse(
      await readFile(join(samples.folder, 'token-keys.json'), 'utf8'),
    )
    const [head = '', claims = ''] = token.split('.')
    const decoded = [head, claims].map((part) => Buffer.from(part, 'base64url').toString())
    const shown = [
      ...samples.logs,
      ...decoded,
      ...answers.flatMap(({ text, headers: sent }) => [text, JSON.stringify(sent)]),
    ]
    const secrets = [
      password,
      wrong,
      pairPassword,
      token,
      '12345678901234567890123',
      '$argon2',
      'argon2id',
      keys.keys[0]?.secret ?? 'no key',
      basic('bob', wrong).authorization ?? '',
      basic('bob', pairPassword).authorization ?? '',
    ]
    // Checks that the logs contain the requests. Without them, the next check could not find a logged secret.
    expect(samples.logs.filter((line) => line.includes('"answered"')).length).toBeGreaterThan(15)
    for (const secret of secrets) {
      expect(shown.filter((text) => text.includes(secret))).toEqual([])
    }
  } finally {
    await samples.close()
  }
})

it('logs the id of the token at each login, so that the token can be revoked', async () => {
  const samples = await startSamples()
  try {
    const token = await samples.login()
    const { jti } = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())
    const line = samples.logs.find((text) => text.includes('session token issued')) ?? ''
    expect(JSON.parse(line)).toMatchObject({ jti, level: 30 })
  } finally {
    await samples.close()
  }
})
