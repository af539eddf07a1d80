import type { Json, JsonObject } from '../../base/json.ts'
import { FILTER_PARAMETERS } from '../../filter/index.ts'
import { failureStatuses } from '../../http/index.ts'
import {
  declaredReturn,
  formatParameterType,
  type Returned,
  systemType,
  type TypeDeclaration,
} from '../../network/index.ts'
import { type NamespaceStyle, routedTypes, type ServedNetwork } from '../service.ts'
import { gatewayStatuses } from './errors.ts'
import {
  documentedTypes,
  instanceExample,
  instanceSchema,
  referenceTo,
  returnedSchema,
} from './schemas.ts'

const text = { type: 'string' }
const FILTER: JsonObject = {
  name: 'filter',
  in: 'query',
  required: false,
  description: FILTER_PARAMETERS.filter.description,
  schema: { type: 'string', pattern: FILTER_PARAMETERS.filter.documentedPattern },
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
const FAILURE: JsonObject = objectSchema({
  error: objectSchema({
    statusCode: { type: 'integer' },
    name: text,
    code: text,
    message: text,
    details: arraySchema(objectSchema({ path: text, code: text, message: text })),
  }),
})
const DONE = { description: 'Done' }
const FAILED = jsonContent('The error and its reason', { $ref: '#/components/schemas/Failure' })
const STATUSES = new Set(Object.values(gatewayStatuses))

/** Returns the OpenAPI 3 document of a network whose paths start with `base`, e.g. `/api`. */
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
    const example = instanceExample(type, model)
    paths[`/${shown}`] = collectionPath(type, shown, example, declaredReturn(type, model))
    paths[`/${shown}/{id}`] = resourcePath(type, shown, example)
    paths[`/${shown}/{id}/history`] = historyPath(type, shown)
    paths[`/${shown}/aggregate`] = aggregatePath(type, shown)
  }
  for (const query of queries.values()) {
    const parameters = [...query.parameters].map(([parameter, type]) => ({
      name: parameter,
      in: 'query',
      required: true,
      description: formatParameterType(type),
      schema: text,
    }))
    const operation = describeOperations('queries')
    const summary = query.description === '' ? query.name : query.description
    const found = { 200: listReply(query.type) }
    paths[`/queries/${query.name}`] = {
      get: {
        ...operation(query.name, summary, found, [...parameters, FILTER]),
        operationId: `query.${query.name}`,
      },
    }
  }
  const selected = [...queries.values()].map(({ type }) => type)
  const schemas = documentedTypes(model, selected).map(
    (type) => [type.qualifiedName, instanceSchema(type)] as const,
  )
  return {
    openapi: '3.0.3',
    info: { title: name, description, version },
    servers: [{ url: base }],
    tags: [
      ...types.map((type) => ({ name: aliases.shown(type, style), description: `${type.kind}` })),
      ...(queries.size === 0 ? [] : [{ name: 'queries', description: 'Named queries' }]),
      { name: 'system', description: 'Identities, the historian, queries and the archive' },
    ],
    paths: { ...paths, ...systemPaths() },
    components: {
      schemas: { ...Object.fromEntries(schemas), Failure: FAILURE },
      securitySchemes: {
        key: { type: 'apiKey', in: 'header', name: 'x-api-key' },
        bearer: { type: 'http', scheme: 'bearer' },
      },
    },
    security: [{}, { key: [] }, { bearer: [] }],
  }
}

function objectSchema(properties: JsonObject): JsonObject {
  return { type: 'object', properties }
}

function arraySchema(items: JsonObject): JsonObject {
  return { type: 'array', items }
}

function jsonContent(description: string, schema: JsonObject): JsonObject {
  return { description, content: { 'application/json': { schema } } }
}

function listReply(type: TypeDeclaration): JsonObject {
  return jsonContent('The matching resources', arraySchema(referenceTo(type)))
}

function jsonBody(schema: JsonObject, example: Json): JsonObject {
  return { required: true, content: { 'application/json': { schema, example } } }
}

/** Returns the error replies of an operation with these other parts. */
function describeFailures(
  replies: JsonObject,
  parameters: readonly JsonObject[],
  requestBody: JsonObject | null,
): JsonObject {
  const isChange = requestBody !== null || '204' in replies
  const causes = {
    ...{ isChange, isGuarded: true, hasTarget: true, hasBody: requestBody !== null },
    hasPrecondition: isChange && parameters.includes(ID),
    hasFilter: parameters.includes(FILTER),
  }
  return Object.fromEntries(failureStatuses(causes, STATUSES).map((status) => [status, FAILED]))
}

/** Returns a function that describes an operation with `tag`, including the error replies. */
function describeOperations(tag: string) {
  return (
    id: string,
    summary: string,
    replies: JsonObject,
    parameters: JsonObject[] | null = null,
    requestBody: JsonObject | null = null,
  ): JsonObject => ({
    tags: [tag],
    summary,
    operationId: `${tag}.${id}`,
    ...(parameters === null ? {} : { parameters }),
    ...(requestBody === null ? {} : { requestBody }),
    responses: { ...describeFailures(replies, parameters ?? [], requestBody), ...replies },
  })
}

function collectionPath(
  type: TypeDeclaration,
  shown: string,
  example: JsonObject,
  returned: Returned | null,
): JsonObject {
  const { kind, name } = type
  const operation = describeOperations(shown)
  const isTransaction = kind === 'transaction'
  const one = referenceTo(type)
  const all = arraySchema(one)
  const find = `List and filter the ${kind}s of type ${name}`
  const create = isTransaction ? `Submit a ${name}` : `Add one ${name}, or an array of them`
  const created =
    returned === null
      ? jsonContent('The stored resource', one)
      : jsonContent('The return value of the transaction', returnedSchema(returned))
  const schema = isTransaction ? one : { oneOf: [one, { ...all, minItems: 1 }] }
  const content = {
    'application/json': { schema, example },
    'application/x-www-form-urlencoded': { schema: one },
  }
  const paths = {
    get: operation('find', find, { 200: listReply(type) }, [FILTER]),
    post: operation('create', create, { 200: created }, null, { required: true, content }),
  }
  if (isTransaction) return paths
  const replace = `Replace several resources of type ${name}, all or none`
  const stored = { 200: jsonContent('The stored resources', all) }
  const remove = `Remove several resources of type ${name} by their ids, all or none`
  const removed = { 204: { description: 'Removed' } }
  return {
    ...paths,
    put: operation('replaceAll', replace, stored, null, jsonBody(all, [example])),
    delete: operation('deleteAll', remove, removed, null, jsonBody(arraySchema(text), ['id-1'])),
  }
}

function resourcePath(type: TypeDeclaration, shown: string, example: JsonObject): JsonObject {
  const { kind, name } = type
  const operation = describeOperations(shown)
  const one = referenceTo(type)
  const found = { 200: jsonContent('The stored resource', one) }
  const reads = {
    get: operation('findById', `Read one ${name}`, found, [ID, FILTER]),
    head: {
      tags: [shown],
      summary: `Check whether a ${name} exists`,
      operationId: `${shown}.exists`,
      parameters: [ID],
      responses: {
        200: { description: 'The resource exists' },
        404: { description: 'The resource does not exist' },
      },
    },
  }
  if (kind === 'transaction') return reads
  const change = `Change members of one ${name} (RFC 7396)`
  const removed = { 204: { description: 'Removed' } }
  return {
    ...reads,
    put: operation('replaceById', `Replace one ${name}`, found, [ID], jsonBody(one, example)),
    patch: operation('patchById', change, found, [ID], jsonBody({ type: 'object' }, {})),
    delete: operation('deleteById', `Remove one ${name}`, removed, [ID]),
  }
}

const HISTORY = arraySchema(
  objectSchema({
    revision: text,
    timestamp: { type: 'string', format: 'date-time' },
    change: { type: 'string', enum: ['create', 'update', 'delete'] },
    transaction: { ...text, nullable: true },
    participant: { ...text, nullable: true },
  }),
)
const HISTORY_PARAMETERS: JsonObject[] = [
  queryParameter('limit', 'Maximum number of revisions, 1 to 1000; default 100'),
  queryParameter('order', 'Revisions to list first, oldest or newest; default oldest'),
  queryParameter('after', 'The revision after which the list starts, in the chosen order'),
]

function historyPath({ name }: TypeDeclaration, shown: string): JsonObject {
  const found = { 200: jsonContent('The revisions that the caller may read', HISTORY) }
  const summary = `List the revisions of one ${name}, with their transactions and participants`
  return { get: describeOperations(shown)('history', summary, found, [ID, ...HISTORY_PARAMETERS]) }
}

const RESULTS: JsonObject = { type: 'object', additionalProperties: true }
const GROUPS = arraySchema(
  objectSchema({
    ...{ group: RESULTS, count: { type: 'integer' } },
    ...{ sum: RESULTS, avg: RESULTS, min: RESULTS, max: RESULTS },
  }),
)
const AGGREGATION: JsonObject[] = [
  queryParameter('count', '`true` counts the resources; required without all other parameters'),
  queryParameter('group', 'Up to two properties, separated by a comma'),
  queryParameter('sum', 'Properties to add up, separated by commas'),
  queryParameter('avg', 'Properties whose average is computed'),
  queryParameter('min', 'Properties whose smallest number or text is returned'),
  queryParameter('max', 'Properties whose greatest number or text is returned'),
  { ...FILTER, description: 'Filter that selects the resources; only `where` is allowed' },
]

function aggregatePath({ kind, name }: TypeDeclaration, shown: string): JsonObject {
  const summary = `Count the ${kind}s of type ${name}, and compute sums, averages and extremes`
  const found = { 200: jsonContent('The groups, in the order of their values', GROUPS) }
  return { get: describeOperations(shown)('aggregate', summary, found, AGGREGATION) }
}

function queryParameter(name: string, description: string): JsonObject {
  return { name, in: 'query', required: false, description, schema: text }
}

const systemOperation = describeOperations('system')

function systemRead(id: string, summary: string, type: string, inList: boolean): JsonObject {
  const one = { $ref: `#/components/schemas/${systemType(type)}` }
  const found = { 200: jsonContent('Found', inList ? arraySchema(one) : one) }
  return { get: systemOperation(id, summary, found, inList ? [FILTER] : [ID, FILTER]) }
}

/** Describes a POST whose body has the strings `fields`, all required, and the optional members `more`. */
function systemPost(
  id: string,
  summary: string,
  fields: string[],
  status: number,
  more: JsonObject = {},
): JsonObject {
  const texts = Object.fromEntries(fields.map((name) => [name, { type: 'string', minLength: 1 }]))
  const schema = { type: 'object', required: fields, properties: { ...texts, ...more } }
  const example = Object.fromEntries(fields.map((name) => [name, '']))
  const requestBody = jsonBody(schema, example)
  return { post: systemOperation(id, summary, { [status]: DONE }, null, requestBody) }
}

function systemPaths(): JsonObject {
  const archive = {
    description: 'The archive, a .bna file',
    content: { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } },
  }
  const summary = 'Run the query in the request body'
  const results = jsonContent('The results', arraySchema({ type: 'object' }))
  const query = { query: 'SELECT org.example.Thing', parameters: {} }
  const issue = 'Issue an identity for a participant; only this reply contains its secret'
  const bind =
    'Create an identity for a secret that only the participant knows (sha256:<hash of the secret>), or for an ' +
    'account of an OpenID Connect issuer (oidc:<issuer> <subject>)'
  const revoke = 'Revoke an identity permanently'
  return {
    '/system/ping': {
      get: {
        tags: ['system'],
        summary: 'Show the version of daicho and the caller',
        operationId: 'system.ping',
        responses: {
          200: jsonContent('The version, participant and identity', { type: 'object' }),
        },
      },
    },
    '/system/archive': {
      get: systemOperation('archive', 'Download the deployed archive', { 200: archive }),
    },
    '/system/query': {
      post: systemOperation('query', summary, { 200: results }, [FILTER], jsonBody(QUERY, query)),
    },
    '/system/historian': systemRead(
      'historian',
      'List the historian records',
      'HistorianRecord',
      true,
    ),
    '/system/historian/{id}': systemRead(
      'historianById',
      'Read one historian record',
      'HistorianRecord',
      false,
    ),
    '/system/identities': systemRead('identities', 'List the identities', 'Identity', true),
    '/system/identities/{id}': systemRead('identityById', 'Read one identity', 'Identity', false),
    '/system/identities/issue': systemPost('issueIdentity', issue, ['participant', 'userID'], 200, {
      issuer: { type: 'boolean', default: false },
    }),
    '/system/identities/bind': systemPost(
      'bindIdentity',
      bind,
      ['participant', 'certificate'],
      204,
    ),
    '/system/identities/{id}/revoke': {
      post: systemOperation('revokeIdentity', revoke, { 204: DONE }, [ID]),
    },
  }
}
