import type { Json, JsonObject } from '../base/json.ts'
import { FILTER_PARAMETERS } from '../filter/index.ts'
import {
  parameterTypeText,
  type Returned,
  returnedBy,
  systemType,
  type TypeDeclaration,
} from '../network/index.ts'
import { type NamespaceStyle, routedTypes } from './aliases.ts'
import { documentedTypes, exampleOf, returnedSchema, schemaName, schemaOf } from './schemas.ts'
import type { ServedNetwork } from './service.ts'

/** The OpenAPI 3 document of a network whose paths begin with `base`, e.g. `/api`. */
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
    const returned = returnedBy(type, model)
    paths[`/${shown}`] = collectionPath(type, shown, exampleOf(type, model), returned)
    paths[`/${shown}/{id}`] = resourcePath(type, shown, exampleOf(type, model))
  }
  for (const query of queries.values()) {
    const parameters = [...query.parameters].map(([parameter, type]) => ({
      name: parameter,
      in: 'query',
      required: true,
      description: parameterTypeText(type),
      schema: { type: 'string' },
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
    (type) => [schemaName(type), schemaOf(type)] as const,
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
    paths: { ...paths, ...systemPaths(systemType('HistorianRecord'), systemType('Identity')) },
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
const FAILURE: JsonObject = {
  type: 'object',
  properties: {
    error: {
      type: 'object',
      properties: {
        statusCode: { type: 'integer' },
        name: { type: 'string' },
        code: { type: 'string' },
        message: { type: 'string' },
        details: {
          type: 'array',
          items: {
            type: 'object',
            properties: {
              path: { type: 'string' },
              code: { type: 'string' },
              message: { type: 'string' },
            },
          },
        },
      },
    },
  },
}
const FAILURES: JsonObject = {
  default: json('What was refused, and why', { $ref: '#/components/schemas/Failure' }),
}

function json(description: string, schema: JsonObject): JsonObject {
  return { description, content: { 'application/json': { schema } } }
}

function reference(type: TypeDeclaration): JsonObject {
  return { $ref: `#/components/schemas/${schemaName(type)}` }
}

function listReply(type: TypeDeclaration): JsonObject {
  return json('Those that match', { type: 'array', items: reference(type) })
}

function body(schema: JsonObject, example: Json): JsonObject {
  return { required: true, content: { 'application/json': { schema, example } } }
}

/** A body that may be a form as well. */
function bodyOrForm(schema: JsonObject, one: JsonObject, example: JsonObject): JsonObject {
  const forms = { 'application/x-www-form-urlencoded': { schema: one } }
  return {
    required: true,
    content: { 'application/json': { schema, example }, ...forms },
  }
}

function collectionPath(
  type: TypeDeclaration,
  shown: string,
  example: JsonObject,
  returned: Returned | null,
): JsonObject {
  const isTransaction = type.kind === 'transaction'
  const one = reference(type)
  const answer =
    returned === null
      ? json('As it is kept', one)
      : json('What its processors return', returnedSchema(returned))
  const taken = isTransaction ? one : { oneOf: [one, { type: 'array', items: one, minItems: 1 }] }
  const reads = {
    get: {
      tags: [shown],
      summary: `List and filter the ${type.kind}s of type ${type.name}`,
      operationId: `${shown}.find`,
      parameters: [FILTER],
      responses: { 200: listReply(type), ...FAILURES },
    },
    post: {
      tags: [shown],
      summary: isTransaction
        ? `Submit a ${type.name}`
        : `Add one ${type.name}, or an array of them`,
      operationId: `${shown}.create`,
      requestBody: bodyOrForm(taken, one, example),
      responses: { 200: answer, ...FAILURES },
    },
  }
  if (isTransaction) return reads
  const ids = { type: 'array', items: { type: 'string' } }
  return {
    ...reads,
    put: {
      tags: [shown],
      summary: `Replace several resources of type ${type.name}, all or none`,
      operationId: `${shown}.replaceAll`,
      requestBody: body({ type: 'array', items: one }, [example]),
      responses: { 200: json('The stored resources', { type: 'array', items: one }), ...FAILURES },
    },
    delete: {
      tags: [shown],
      summary: `Remove several resources of type ${type.name} by their ids, all or none`,
      operationId: `${shown}.deleteAll`,
      requestBody: body(ids, ['id-1']),
      responses: { 204: { description: 'Removed' }, ...FAILURES },
    },
  }
}

function resourcePath(type: TypeDeclaration, shown: string, example: JsonObject): JsonObject {
  const tags = [shown]
  const found = { 200: json('As it is kept', reference(type)), ...FAILURES }
  const reads = {
    get: {
      tags,
      summary: `Read one ${type.name}`,
      operationId: `${shown}.findById`,
      parameters: [ID, FILTER],
      responses: found,
    },
    head: {
      tags,
      summary: `Whether there is such a ${type.name}`,
      operationId: `${shown}.exists`,
      parameters: [ID],
      responses: { 200: { description: 'There is' }, 404: { description: 'There is none' } },
    },
  }
  if (type.kind === 'transaction') return reads
  const change = { tags, parameters: [ID], responses: found }
  return {
    ...reads,
    put: {
      ...change,
      summary: `Replace one ${type.name}`,
      operationId: `${shown}.replaceById`,
      requestBody: body(reference(type), example),
    },
    patch: {
      ...change,
      summary: `Change members of one ${type.name} (RFC 7396)`,
      operationId: `${shown}.patchById`,
      requestBody: body({ type: 'object' }, {}),
    },
    delete: {
      tags,
      summary: `Remove one ${type.name}`,
      operationId: `${shown}.deleteById`,
      parameters: [ID],
      responses: { 204: { description: 'It is gone' }, ...FAILURES },
    },
  }
}

function systemPaths(historian: string, identity: string): JsonObject {
  const tags = ['system']
  const read = (summary: string, operationId: string, type: string, inList: boolean) => {
    const one = { $ref: `#/components/schemas/${type}` }
    const schema: JsonObject = inList ? { type: 'array', items: one } : one
    const parameters = inList ? [FILTER] : [ID, FILTER]
    return {
      get: {
        tags,
        summary,
        operationId,
        parameters,
        responses: { 200: json('Found', schema), ...FAILURES },
      },
    }
  }
  const post = (
    summary: string,
    operationId: string,
    fields: string[],
    status: number,
    more: JsonObject = {},
  ) => {
    const texts = Object.fromEntries(fields.map((name) => [name, { type: 'string', minLength: 1 }]))
    const properties = { ...texts, ...more }
    const example = Object.fromEntries(fields.map((name) => [name, '']))
    return {
      post: {
        tags,
        summary,
        operationId,
        requestBody: body({ type: 'object', required: fields, properties }, example),
        responses: { [status]: { description: 'Done' }, ...FAILURES },
      },
    }
  }
  const revoke = {
    tags,
    summary: 'Take an identity its right to speak, for good',
    operationId: 'system.revokeIdentity',
    parameters: [ID],
    responses: { 204: { description: 'Done' }, ...FAILURES },
  }
  return {
    '/system/ping': {
      get: {
        tags,
        summary: 'Who is asking, and whom',
        operationId: 'system.ping',
        responses: { 200: json('The version, participant and identity', { type: 'object' }) },
      },
    },
    '/system/archive': {
      get: {
        tags,
        summary: 'Download the deployed archive',
        operationId: 'system.archive',
        responses: {
          200: {
            description: 'The .bna',
            content: {
              'application/octet-stream': { schema: { type: 'string', format: 'binary' } },
            },
          },
          ...FAILURES,
        },
      },
    },
    '/system/query': {
      post: {
        tags,
        summary: 'Run a query of your own',
        operationId: 'system.query',
        parameters: [FILTER],
        requestBody: body(QUERY, { query: 'SELECT org.example.Thing', parameters: {} }),
        responses: {
          200: json('The results', { type: 'array', items: { type: 'object' } }),
          ...FAILURES,
        },
      },
    },
    '/system/historian': read('List the historian’s records', 'system.historian', historian, true),
    '/system/historian/{id}': read('Read one of them', 'system.historianById', historian, false),
    '/system/identities': read('List the identities', 'system.identities', identity, true),
    '/system/identities/{id}': read('Read one of them', 'system.identityById', identity, false),
    '/system/identities/issue': post(
      'Give a participant an identity; the reply holds its secret, once',
      'system.issueIdentity',
      ['participant', 'userID'],
      200,
      { issuer: { type: 'boolean', default: false } },
    ),
    '/system/identities/bind': post(
      'Give a participant an identity whose secret the client keeps',
      'system.bindIdentity',
      ['participant', 'certificate'],
      204,
    ),
    '/system/identities/{id}/revoke': { post: revoke },
  }
}
