// LoopBack 4 with its memory connector, with the same Commodities and paths as the gateway. Prints its address.
import {
  DefaultCrudRepository,
  defineModelClass,
  Entity,
  juggler,
  ModelDefinition,
} from '@loopback/repository'
import { RestApplication, RestServer } from '@loopback/rest'

const count = Number(process.argv[2])
const text = { type: 'string', required: true }
const definition = new ModelDefinition({
  name: 'Commodity',
  properties: {
    tradingSymbol: { type: 'string', id: true },
    description: text,
    mainExchange: text,
    quantity: { type: 'number', required: true },
    owner: text,
  },
})
const Commodity = defineModelClass(Entity, definition)
const repository = new DefaultCrudRepository(
  Commodity,
  new juggler.DataSource({ name: 'memory', connector: 'memory' }),
)
for (let at = 0; at < count; at += 1_000) {
  const part = Array.from({ length: Math.min(1_000, count - at) }, (_, n) => commodity(at + n))
  await repository.createAll(part)
}

const app = new RestApplication({
  rest: { port: 0, host: '127.0.0.1', openApiSpec: { disabled: true } },
})
const filter = {
  name: 'filter',
  in: 'query',
  content: { 'application/json': { schema: { type: 'object' } } },
}
app.route(
  'get',
  '/api/Commodity',
  { parameters: [filter], responses: { 200: { description: 'ok' } } },
  (given) => repository.find(given),
)
await app.start()
console.log(JSON.stringify({ ledger: (await app.getServer(RestServer)).url }))

function commodity(n) {
  return {
    tradingSymbol: `S${n}`,
    description: `commodity ${n}`,
    mainExchange: `X${n % 1_000}`,
    quantity: (n * 7_919) % 1_000_003,
    owner: `resource:org.acme.mynetwork.Trader#T${n % 100}`,
  }
}
