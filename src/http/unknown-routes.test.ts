import { pino } from 'pino'
import { expect, it, onTestFinished } from 'vitest'
import { buildApp } from './app.ts'
import type { HttpApp, HttpComponent } from './component.ts'
import { registerOpenApiPage } from './openapi-page.ts'
import { statusFalseReply } from './refusal.ts'
import { unroutedRefusal } from './unknown-routes.ts'

const OPTIONS = { logger: pino({ level: 'silent' }), publicHosts: new Set<string>() }

async function appWith(register: (app: HttpApp) => Promise<void>): Promise<HttpApp> {
  const component: HttpComponent = {
    name: 'example',
    limits: { bodyBytesMax: 100, requestTimeoutMs: 1_000 },
    sameOriginOnly: true,
    statusOf: {},
    refusalReply: statusFalseReply,
    register,
  }
  const app = await buildApp(component, OPTIONS)
  onTestFinished(() => app.close())
  return app
}

const answer = async () => 'read'
const register = async (app: HttpApp) => {
  app.get('/api/dbs', answer)
  app.get('/api/:db', answer)
  app.post('/api/:db', answer)
  app.delete('/api/:db/:id.json', answer)
  app.put('/files/*', answer)
}

async function send(app: HttpApp, method: string, url: string, headers = {}) {
  // Fastify's types allow fewer methods than its router.
  const reply = await app.inject({
    method: method as 'GET',
    url,
    headers: { host: 'a', ...headers },
  })
  return { reply, outcome: [reply.statusCode, reply.headers.allow] }
}

it.each([
  ['PUT', '/api/fruit', 405, 'GET, HEAD, POST'],
  ['PUT', '/api/fruit?a=1', 405, 'GET, HEAD, POST'],
  ['PUT', '/api/a%2Fb', 405, 'GET, HEAD, POST'],
  ['TRACE', '/api/fruit', 405, 'GET, HEAD, POST'],
  ['PROPFIND', '/api/fruit', 405, 'GET, HEAD, POST'],
  ['OPTIONS', '/api/fruit', 405, 'GET, HEAD, POST'],
  ['PUT', '/api/dbs', 405, 'GET, HEAD'],
  ['PUT', '/%61pi/dbs', 405, 'GET, HEAD'],
  ['GET', '/api/fruit/plum.json', 405, 'DELETE'],
  ['HEAD', '/files/a/b', 405, 'PUT'],
  ['GET', '/files', 404, undefined],
  ['GET', '/nowhere', 404, undefined],
  ['PUT', '/api/a/b/c', 404, undefined],
  ['HEAD', '/api/fruit', 200, undefined],
])('answers %s %s with %i and Allow: %s', async (method, url, status, allow) => {
  const { outcome } = await send(await appWith(register), method, url)
  expect(outcome).toEqual([status, allow])
})

it('rejects a wrong method with a reply in the error format of the component', async () => {
  const { reply } = await send(await appWith(register), 'PUT', '/api/dbs')
  expect(reply.headers['content-type']).toBe('application/json; charset=utf-8')
  expect(reply.json()).toEqual({
    status: false,
    code: 'METHOD_NOT_ALLOWED',
    message: 'this path accepts only GET, HEAD',
  })
})

it('names the API page, if there is one, in the reply to an unknown path', async () => {
  const page = {
    path: '/doc',
    title: 'a',
    links: [],
    description: '',
    version: '1.0.0',
    statusOf: {},
  }
  const without = await send(await appWith(register), 'GET', '/nowhere')
  const withPage = await send(
    await appWith(async (app) => void (await registerOpenApiPage(app, page))),
    'GET',
    '/nowhere',
  )
  expect([without, withPage].map(({ reply }) => reply.json().message)).toEqual([
    'nothing is served at this path',
    'nothing is served at this path; GET /doc shows the API',
  ])
})

it('checks the origin of a request before its method', async () => {
  const headers = { origin: 'http://b', 'access-control-request-method': 'POST' }
  const { reply, outcome } = await send(await appWith(register), 'OPTIONS', '/api/dbs', headers)
  expect(outcome).toEqual([403, undefined])
  expect(reply.headers['access-control-allow-origin']).toBe(undefined)
})

it('runs the hooks of a Fastify scope before its not-found handler rejects a method', async () => {
  const app = await appWith(async (root) => {
    await root.register(
      async (scope) => {
        scope.addHook('preHandler', async (request, reply) => {
          if (request.headers.token === undefined) return reply.code(403).send('no token')
        })
        scope.get('/users', answer)
        scope.setNotFoundHandler((request) => {
          throw unroutedRefusal(request)
        })
      },
      { prefix: '/api' },
    )
  })
  expect((await send(app, 'PUT', '/api/users')).outcome).toEqual([403, undefined])
  expect((await send(app, 'PUT', '/api/users', { token: 'x' })).outcome).toEqual([405, 'GET, HEAD'])
  expect((await send(app, 'PUT', '/api/other', { token: 'x' })).outcome).toEqual([404, undefined])
})
