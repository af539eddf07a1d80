// The baseline for a store on PostgreSQL: a Fastify server with the ledger's schemas that inserts one row per request.
import { randomUUID } from 'node:crypto'
import fastify from 'fastify'
import pg from 'pg'
import {
  CreateBody,
  DatabaseParams,
  ErrorReply,
  ItemParams,
  ItemReply,
  TokenQuery,
  WrittenReply,
} from '../../src/ledger/api/schemas.ts'

/** Number of database connections. More connections would make the baseline slower on a small computer. */
const CONNECTIONS = 32

const pool = new pg.Pool({ connectionString: process.argv[2] ?? '', max: CONNECTIONS })
await pool.query('CREATE TABLE rows (id text PRIMARY KEY, item text NOT NULL)')
const failures = { '4xx': ErrorReply, '5xx': ErrorReply }
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
  async ({ body }) => {
    const id = randomUUID()
    const text = 'INSERT INTO rows (id, item) VALUES ($1, $2)'
    await pool.query({
      name: 'insert',
      text,
      values: [id, JSON.stringify({ id, ...Object(body) })],
    })
    return { status: true, id }
  },
)
app.get<{ Params: { id: string } }>(
  '/api/:db/:id',
  {
    schema: {
      params: ItemParams,
      querystring: TokenQuery,
      response: { 200: ItemReply, ...failures },
    },
  },
  async ({ params }) => {
    const text = 'SELECT item FROM rows WHERE id = $1'
    const { rows } = await pool.query({ name: 'select', text, values: [params.id] })
    return { status: true, item: JSON.parse(rows[0].item) }
  },
)
console.log(JSON.stringify({ ledger: await app.listen({ port: 0 }) }))
