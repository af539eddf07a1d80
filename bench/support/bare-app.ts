// The baseline for the ledger: Fastify with the ledger's schemas and handlers that store nothing.
import { randomUUID } from 'node:crypto'
import fastify from 'fastify'
import {
  CreateBody,
  DatabaseParams,
  ErrorReply,
  ItemParams,
  ItemReply,
  TokenQuery,
  WrittenReply,
} from '../../src/ledger/api/schemas.ts'
import { sampleItem } from './sample-item.ts'

const failures = { '4xx': ErrorReply, '5xx': ErrorReply }
const item = { id: randomUUID(), ...sampleItem() }
// The schemas of the ledger have a keyword for documents only.
const app = fastify({ ajv: { customOptions: { keywords: ['documentedPattern'] } } })
app.post(
  '/api/:db',
  {
    schema: {
      params: DatabaseParams,
      querystring: TokenQuery,
      body: CreateBody,
      response: { 200: WrittenReply, ...failures },
    },
  },
  async () => ({ status: true, id: randomUUID() }),
)
app.get(
  '/api/:db/:id',
  {
    schema: {
      params: ItemParams,
      querystring: TokenQuery,
      response: { 200: ItemReply, ...failures },
    },
  },
  async () => ({ status: true, item }),
)
console.log(JSON.stringify({ ledger: await app.listen({ port: 0 }) }))
