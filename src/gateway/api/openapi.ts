import type { Json, JsonObject } from '../../base/json.ts'
import { FILTER_PARAMETERS } from '../../filter/index.ts'
import {
  parameterTypeText,
  type Returned,
  returnedBy,
  systemType,
  type TypeDeclaration,
} from '../../network/index.ts'
import { type NamespaceStyle, routedTypes, type ServedNetwork } from '../service.ts'
import { documentedTypes, exampleOf, referenceTo, returnedSchema, schemaOf } from './schemas.ts'

const text = { type: 'string' }
const FILTER: JsonObject = {
  name: 'filter',
  in: 'query',
  required: false,
  description: FILTER_PARAMETERS.filter.description,
  schema: { type: 'string', pattern: FILTER_PARAMETERS.filter.shownPattern },
}
const ID: JsonObject = {
  name: 'id',
  in: 'path',
  required: true,
  schema: { type: 'string', minLength: 1 },
}
const QUERY: JsonObject = {
  type: 'object',
  required: ['query'],
  properties: {
    query: { type: 'string', maxLength: 10_000 },
    parameters: { type: 'object', additionalProperties: true },
  },
}
const FAILURE: JsonObject = object({
  error: object({
    statusCode: { type: 'integer' },
    name: text,
    code: text,
    message: text,
    details: listOf(object({ path: text, code: text, message: text })),
  }),
})
const FAILURES: JsonObject = {
  default: json('What was refused, and why', { $ref: '#/components/schemas/Failure' }),
}

/** Returns the OpenAPI 3 document of a network whose paths begin with `base`, e.g. `/api`. */
export function openApiDocument(
  { network, aliases }: ServedNetwork,
  base: string,
  style: NamespaceStyle,
): JsonObject {
  const { name, version, description, model, queries } = network.definition
  const types = routedTypes(model)
  const paths: JsonObject = {}
  for (const type of types) {
    const shown = aliases.shown(type, style)
    const example = exampleOf(type, model)
    paths[`/${shown}`] = collectionPath(type, shown, example, returnedBy(type, model))
    paths[`/${shown}/{id}`] = resourcePath(type, shown, example)
  }
  for (const query of queries.values()) {
    const parameters = [...query.parameters].map(([parameter, type]) => ({
      name: parameter,
      in: 'query',
      required: true,
      description: parameterTypeText(type),
      schema: text,
    }))
    paths[`/queries/${query.name}`] = {
      get: {
        tags: ['queries'],
        summary: query.description === '' ? query.name : query.description,
        operationId: `query.${query.name}`,
        parameters: [...parameters, FILTER],
        responses: { 200: listReply(query.type), ...FAILURES },
      },
    }
  }
  const selected = [...queries.values()].map(({ type }) => type)
  const schemas = documentedTypes(model, selected).map(
    (type) => [type.qualifiedName, schemaOf(type)] as const,
  )
  return {
    openapi: '3.0.3',
    info: { title: name, description, version },
    servers: [{ url: base }],
    tags: [
      ...types.map((type) => ({ name: aliases.shown(type, style), description: `${type.kind}` })),
      ...(queries.size === 0 ? [] : [{ name: 'queries', description: 'Named queries' }]),
      { name: 'system', description: 'The network itself' },
    ],
    paths: { ...paths, ...systemPaths() },
    components: {
      schemas: { ...Object.fromEntries(schemas), Failure: FAILURE },
      securitySchemes: {
        key: { type: 'apiKey', in: 'header', name: 'x-api-key' },
        identity: { type: 'http', scheme: 'bearer' },
      },
    },
    security: [{}, { key: [] }, { identity: [] }],
  }
}

function object(properties: JsonObject): JsonObject {
  return { type: 'object', properties }
}

function listOf(items: JsonObject): JsonObject {
  return { type: 'array', items }
}

function json(description: string, schema: JsonObject): JsonObject {
  return { description, content: { 'application/json': { schema } } }
}

function listReply(type: TypeDeclaration): JsonObject {
  return json('Those that match', listOf(referenceTo(type)))
}

function body(schema: JsonObject, example: Json): JsonObject {
  return { required: true, content: { 'application/json': { schema, example } } }
}

/** Returns a function that describes operations with one tag: id, summary, successful replies, further members. */
function operations(tag: string) {
  return (id: string, summary: string, replies: JsonObject, more: JsonObject = {}): JsonObject => ({
    tags: [tag],
    summary,
    operationId: `${tag}.${id}`,
    ...more,
    responses: { ...replies, ...FAILURES },
  })
}

function collectionPath(
  type: TypeDeclaration,
  shown: string,
  example: JsonObject,
  returned: Returned | null,
): JsonObject {
  const { kind, name } = type
  const operation = operations(shown)
  const isTransaction = kind === 'transaction'
  const one = referenceTo(type)
  const answer =
    returned === null
      ? json('As it is kept', one)
      : json('What its processors return', returnedSchema(returned))
  const schema = isTransaction ? one : { oneOf: [one, { ...listOf(one), minItems: 1 }] }
  const content = {
    'application/json': { schema, example },
    'application/x-www-form-urlencoded': { schema: one },
  }
  const create = isTransaction ? `Submit a ${name}` : `Add one ${name}, or an array of them`
  const find = operation(
    'find',
    `List and filter the ${kind}s of type ${name}`,
    { 200: listReply(type) },
    { parameters: [FILTER] },
  )
  const post = operation(
    'create',
    create,
    { 200: answer },
    { requestBody: { required: true, content } },
  )
  if (isTransaction) return { get: find, post }
  return {
    get: find,
    post,
    put: operation(
      'replaceAll',
      `Replace several resources of type ${name}, all or none`,
      { 200: json('The stored resources', listOf(one)) },
      { requestBody: body(listOf(one), [example]) },
    ),
    delete: operation(
      'deleteAll',
      `Remove several resources of type ${name} by their ids, all or none`,
      { 204: { description: 'Removed' } },
      { requestBody: body(listOf(text), ['id-1']) },
    ),
  }
}

function resourcePath(type: TypeDeclaration, shown: string, example: JsonObject): JsonObject {
  const { kind, name } = type
  const operation = operations(shown)
  const parameters = [ID]
  const found = { 200: json('As it is kept', referenceTo(type)) }
  const reads = {
    get: operation('findById', `Read one ${name}`, found, { parameters: [ID, FILTER] }),
    head: {
      tags: [shown],
      summary: `Whether there is such a ${name}`,
      operationId: `${shown}.exists`,
      parameters,
      responses: { 200: { description: 'There is' }, 404: { description: 'There is none' } },
    },
  }
  if (kind === 'transaction') return reads
  return {
    ...reads,
    put: operation('replaceById', `Replace one ${name}`, found, {
      parameters,
      requestBody: body(referenceTo(type), example),
    }),
    patch: operation('patchById', `Change members of one ${name} (RFC 7396)`, found, {
      parameters,
      requestBody: body({ type: 'object' }, {}),
    }),
    delete: operation(
      'deleteById',
      `Remove one ${name}`,
      { 204: { description: 'It is gone' } },
      { parameters },
    ),
  }
}

function systemPaths(): JsonObject {
  const operation = operations('system')
  const read = (summary: string, operationId: string, type: string, inList: boolean) => {
    const one = { $ref: `#/components/schemas/${systemType(type)}` }
    return {
      get: operation(
        operationId,
        summary,
        { 200: json('Found', inList ? listOf(one) : one) },
        { parameters: inList ? [FILTER] : [ID, FILTER] },
      ),
    }
  }
  const done = { description: 'Done' }
  const post = (
    summary: string,
    operationId: string,
    fields: string[],
    status: number,
    more: JsonObject = {},
  ) => {
    const texts = Object.fromEntries(fields.map((name) => [name, { type: 'string', minLength: 1 }]))
    const schema = { type: 'object', required: fields, properties: { ...texts, ...more } }
    const example = Object.fromEntries(fields.map((name) => [name, '']))
    const replies = { [status]: done }
    return {
      post: operation(operationId, summary, replies, { requestBody: body(schema, example) }),
    }
  }
  const archive = { schema: { type: 'string', format: 'binary' } }
  return {
    '/system/ping': {
      get: {
        tags: ['system'],
        summary: 'Who is asking, and whom',
        operationId: 'system.ping',
        responses: { 200: json('The version, participant and identity', { type: 'object' }) },
      },
    },
    '/system/archive': {
      get: operation('archive', 'Download the deployed archive', {
        200: { description: 'The .bna', content: { 'application/octet-stream': archive } },
      }),
    },
    '/system/query': {
      post: operation(
        'query',
        'Run a query of your own',
        { 200: json('The results', listOf({ type: 'object' })) },
        {
          parameters: [FILTER],
          requestBody: body(QUERY, { query: 'SELECT org.example.Thing', parameters: {} }),
        },
      ),
    },
    '/system/historian': read('List the historian’s records', 'historian', 'HistorianRecord', true),
    '/system/historian/{id}': read('Read one of them', 'historianById', 'HistorianRecord', false),
    '/system/identities': read('List the identities', 'identities', 'Identity', true),
    '/system/identities/{id}': read('Read one of them', 'identityById', 'Identity', false),
    '/system/identities/issue': post(
      'Give a participant an identity; the reply holds its secret, once',
      'issueIdentity',
      ['participant', 'userID'],
      200,
      { issuer: { type: 'boolean', default: false } },
    ),
    '/system/identities/bind': post(
      'Give a participant an identity whose secret the client keeps',
      'bindIdentity',
      ['participant', 'certificate'],
      204,
    ),
    '/system/identities/{id}/revoke': {
      post: operation(
        'revokeIdentity',
        'Take an identity its right to speak, for good',
        { 204: done },
        { parameters: [ID] },
      ),
    },
  }
}
