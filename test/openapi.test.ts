// The OpenAPI documents of all components are valid and complete, so that client generators accept them.
import { Validator } from '@seriousme/openapi-schema-validator'
import { pino } from 'pino'
import { expect, it, onTestFinished } from 'vitest'
import { startListener } from '../src/http/index.ts'
import { rateFeedComponent } from '../src/rate-feed/index.ts'
import { openTokens } from '../src/tokens/index.ts'
import { startConverter } from './converter/service.ts'
import { depsWith, ManualClock, SourceServer } from './rates/feeds.ts'
import { startGateway } from './support/gateway.ts'
import { HandClock, startLedgerNode } from './support/ledger-node.ts'
import { startSamples } from './support/samples-listener.ts'

interface Operation {
  readonly operationId?: string
  readonly responses: Readonly<Record<string, unknown>>
  readonly security?: readonly Record<string, unknown>[]
  readonly parameters?: readonly { readonly in: string; readonly name: string }[]
  readonly requestBody?: {
    readonly content: Readonly<Record<string, { readonly example?: unknown }>>
  }
}

interface Document {
  readonly openapi: string
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components?: { readonly securitySchemes?: object }
}

const METHODS = new Set(['get', 'put', 'post', 'delete', 'patch', 'head'])

async function ledgerDocument(): Promise<unknown> {
  const node = await startLedgerNode()
  onTestFinished(() => node.close())
  return (await node.send('GET', '/doc/json')).json
}

async function ledgerDocumentWithTokens(): Promise<unknown> {
  const tokens = await openTokens({ clock: new HandClock(), folder: null, secret: null })
  const node = await startLedgerNode({ tokens })
  onTestFinished(() => node.close())
  return (await node.send('GET', '/doc/json')).json
}

async function ratesDocument(): Promise<unknown> {
  const server = new SourceServer()
  await server.open()
  onTestFinished(() => server.close())
  const deps = depsWith(server, new ManualClock(0), 'snapshot', {}, { get: server.get(100) })
  const listener = await startListener(rateFeedComponent({ ...deps, version: '0.0.0' }), {
    host: '127.0.0.1',
    port: 0,
    logger: pino({ level: 'silent' }),
    publicHosts: new Set<string>(),
  })
  onTestFinished(() => listener.close())
  return (await fetch(`${listener.url}/doc/json`)).json()
}

async function samplesDocument(): Promise<unknown> {
  const samples = await startSamples()
  onTestFinished(() => samples.close())
  return JSON.parse((await samples.call('GET', '/doc/json')).text)
}

async function converterDocument(): Promise<unknown> {
  const listener = await startConverter()
  onTestFinished(() => listener.close())
  return (await fetch(`${listener.url}/json`)).json()
}

async function gatewayDocument(): Promise<unknown> {
  const node = await startGateway()
  onTestFinished(() => node.close())
  return (await node.send('GET', '/explorer/openapi.json')).json
}

it.each([
  ['ledger', ledgerDocument],
  ['ledger with tokens', ledgerDocumentWithTokens],
  ['rates', ratesDocument],
  ['converter', converterDocument],
  ['samples', samplesDocument],
  ['gateway', gatewayDocument],
])('the OpenAPI document of %s is valid, and each operation has its own id', async (_, read) => {
  const document = (await read()) as Document
  const { valid, errors } = await new Validator().validate({ ...document })
  expect([valid, errors]).toEqual([true, undefined])

  const ids: (string | undefined)[] = []
  for (const [path, operations] of Object.entries(document.paths)) {
    expect(path).not.toContain('*')
    const inPath = [...path.matchAll(/\{([^}]*)\}/g)].map(([, name]) => name)
    for (const [method, operation] of Object.entries(operations)) {
      if (!METHODS.has(method)) continue
      ids.push(operation.operationId)
      const named = (operation.parameters ?? []).filter((one) => one.in === 'path')
      expect([path, named.map(({ name }) => name).sort()]).toEqual([path, inPath.sort()])
    }
  }
  expect(ids.length).toBeGreaterThan(1)
  for (const id of ids) expect(id).toMatch(/^[A-Za-z][\w.]*$/)
  expect(new Set(ids).size).toBe(ids.length)
})

it('the OpenAPI documents number each error that an operation may have, and have one bearer scheme', async () => {
  const { paths, components } = (await ledgerDocumentWithTokens()) as Document
  const statuses = (path: string, method: string) =>
    Object.keys(paths[path]?.[method]?.responses ?? {})
  const numbers = (text: string) => text.split(' ')
  expect(statuses('/api/{db}/{id}', 'get')).toEqual(numbers('200 400 401 403 404 412 500 503'))
  expect(statuses('/api/{db}', 'get')).toEqual(numbers('200 400 401 403 404 422 500 503'))
  expect(statuses('/api/{db}/{id}', 'patch')).toEqual(
    numbers('200 400 401 403 404 409 412 413 415 422 500 503 507'),
  )
  expect(statuses('/healthz', 'get')).toEqual(['200'])
  expect(components?.securitySchemes).toEqual({ bearer: { type: 'http', scheme: 'bearer' } })
  for (const read of [
    ledgerDocument,
    ratesDocument,
    converterDocument,
    samplesDocument,
    gatewayDocument,
  ]) {
    for (const operations of Object.values(((await read()) as Document).paths)) {
      for (const { responses } of Object.values(operations)) {
        for (const status of Object.keys(responses)) expect(status).toMatch(/^\d{3}$/)
      }
    }
  }
})

it.each([
  ['ledger', ledgerDocument],
  ['samples', samplesDocument],
])('the OpenAPI document of %s has an example for each JSON body of a request', async (_, read) => {
  const { paths } = (await read()) as Document
  const examples: [string, unknown][] = []
  for (const [path, operations] of Object.entries(paths)) {
    for (const [method, { requestBody }] of Object.entries(operations)) {
      const body = requestBody?.content['application/json']
      if (body !== undefined) examples.push([`${method} ${path}`, body.example])
    }
  }
  expect(examples.length).toBeGreaterThan(0)
  expect(examples.filter(([, example]) => example === undefined)).toEqual([])
})

it('the OpenAPI document of a ledger with tokens declares the token for each operation that needs it', async () => {
  const { components, paths } = (await ledgerDocumentWithTokens()) as Document
  expect(Object.keys(components?.securitySchemes ?? {}).length).toBeGreaterThan(0)
  expect(paths['/api/{db}']?.get?.security?.length).toBeGreaterThan(0)
  expect(paths['/healthz']?.get?.security ?? []).toEqual([])
})
