// Runs Composer 0.20.9's own packages with its embedded connector. They are installed from the registry, and are no
// part of this project.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { writeArchive } from '../../../src/network/index.ts'
import { type Answer, failure, historianLines, type Side, withoutIds } from './answers.ts'
import { type Case, formatFiles, type Request } from './generate.ts'
import type { Mutated } from './mutations.ts'

/** The connector of Fabric needs a compiler, and the embedded connector does not need it. */
const MANIFEST = {
  name: 'composer-oracle',
  version: '1.0.0',
  dependencies: {
    'composer-admin': '0.20.9',
    'composer-client': '0.20.9',
    'composer-common': '0.20.9',
    'composer-connector-embedded': '0.20.9',
    'composer-connector-hlfv1': 'file:./empty',
    'composer-runtime': '0.20.9',
    'composer-wallet-inmemory': '0.20.9',
  },
  overrides: { 'composer-connector-hlfv1': 'file:./empty', fs: 'file:./empty' },
}

/** Installs Composer's packages into `folder`, unless they are installed. */
function install(folder: string): void {
  if (existsSync(join(folder, 'node_modules/composer-client'))) return
  mkdirSync(join(folder, 'empty'), { recursive: true })
  writeFileSync(join(folder, 'package.json'), JSON.stringify(MANIFEST))
  writeFileSync(join(folder, 'empty/package.json'), '{"name":"empty","version":"0.20.9"}')
  execFileSync('npm', ['install', '--ignore-scripts', '--no-audit', '--no-fund'], {
    cwd: folder,
    stdio: 'inherit',
  })
}

// biome-ignore lint/suspicious/noExplicitAny: Composer has no types
type Untyped = any

/** Returns a function that compiles the scripts, queries and rules of a definition. */
function compiler(require: NodeJS.Require): (definition: Untyped) => void {
  const [ScriptCompiler, QueryCompiler, AclCompiler] = ['script', 'query', 'acl'].map((name) =>
    require(`composer-runtime/lib/${name}compiler`),
  )
  return (definition) => {
    const scripts = definition.getScriptManager()
    new ScriptCompiler().compile(scripts)
    new QueryCompiler().compile(definition.getQueryManager())
    new AclCompiler().compile(definition.getAclManager(), scripts)
  }
}

/**
 * Makes queries with ORDER BY work, which need an index. On Fabric, an archive contains its indexes. As there, a query
 * leaves out resources without the properties by which it sorts.
 */
function makeOrderWork(
  dataService: Untyped,
  collate: (one: unknown, other: unknown) => number,
): void {
  const execute = dataService.prototype.executeQuery
  dataService.prototype.executeQuery = async function (this: Untyped, text: string) {
    const { sort, limit, skip = 0, ...query } = JSON.parse(text)
    if (sort === undefined) return execute.call(this, text)
    const fields: string[] = sort.flatMap((each: object) => Object.keys(each)).slice(3)
    const sign = Object.values(sort[0])[0] === 'desc' ? -1 : 1
    const found: Untyped[] = await execute.call(this, JSON.stringify(query))
    const compare = (one: Untyped, other: Untyped) =>
      fields.map((field) => sign * collate(one[field], other[field])).find((each) => each !== 0) ??
      0
    return found
      .filter((each) => fields.every((field) => each[field] !== undefined))
      .sort(compare)
      .slice(skip, limit === undefined ? undefined : skip + limit)
  }
}

/** A network on Composer's embedded runtime. */
export class ComposerSide implements Side {
  readonly #api: Untyped
  readonly #compile: (definition: Untyped) => void
  #store: Untyped
  #connections = new Map<string | null, Untyped>()
  #deployer: Untyped

  constructor(folder: string) {
    install(folder)
    const require = createRequire(join(folder, 'index.js'))
    this.#compile = compiler(require)
    const packages = [
      ...['composer-common', 'composer-admin', 'composer-client', 'composer-runtime-pouchdb'],
      'pouchdb-collate',
    ]
    this.#api = Object.assign({}, ...packages.map((name) => require(name)))
    makeOrderWork(this.#api.PouchDBDataService, this.#api.collate)
    // Making a key pair in JavaScript takes longer than all the rest, so all networks share the pairs of their callers.
    const { CertificateUtil } = this.#api
    const generate = CertificateUtil.generate.bind(CertificateUtil)
    const pairs = new Map<string, Untyped>()
    CertificateUtil.generate = (options: { commonName: string }) => {
      const [caller = ''] = options.commonName.split('-')
      const pair = pairs.get(caller) ?? generate({ commonName: caller })
      pairs.set(caller, pair)
      const { publicKey, privateKey } = pair
      return generate({ ...options, publicKey, privateKey })
    }
  }

  async deploy(network: Case, name: string): Promise<Answer> {
    const { AdminConnection, BusinessNetworkDefinition, IdCard, NetworkCardStoreManager } =
      this.#api
    this.#connections.clear()
    try {
      const files = new Map(
        [...formatFiles(network, name)].map(([path, text]) => [path, Buffer.from(text)]),
      )
      const definition = await BusinessNetworkDefinition.fromArchive(writeArchive(files))
      this.#store = NetworkCardStoreManager.getCardStore({ type: 'composer-wallet-inmemory' })
      const profile = { name: 'embedded', 'x-type': 'embedded' }
      const deployer = new IdCard(
        { version: 1, userName: 'PeerAdmin', roles: ['PeerAdmin', 'ChannelAdmin'] },
        profile,
      )
      this.#deployer ??= this.#api.CertificateUtil.generate({ commonName: 'admin' })
      deployer.setCredentials(this.#deployer)
      const admin = new AdminConnection({ cardStore: this.#store })
      await admin.importCard('PeerAdmin', deployer)
      await admin.connect('PeerAdmin')
      await admin.install(definition)
      const administrator = { userName: 'admin', enrollmentSecret: 'adminpw' }
      const cards = await admin.start(definition.getName(), definition.getVersion(), {
        networkAdmins: [administrator],
      })
      await this.#connect(admin, null, cards.get('admin'))
      for (const id of network.people?.ids ?? [])
        await this.#issue(admin, network, id, profile, definition.getName())
      return { ok: null }
    } catch (error) {
      return failure(error)
    }
  }

  async #connect(admin: Untyped, caller: string | null, card: Untyped): Promise<void> {
    const name = `card-${caller ?? 'admin'}`
    await admin.importCard(name, card)
    const connection = new this.#api.BusinessNetworkConnection({ cardStore: this.#store })
    await connection.connect(name)
    this.#connections.set(caller, connection)
  }

  async #issue(
    admin: Untyped,
    { people }: Case,
    id: string,
    profile: object,
    network: string,
  ): Promise<void> {
    const type = people?.type ?? ''
    const connection = this.#connections.get(null)
    const registry = await connection.getParticipantRegistry(type)
    await registry.add(this.#serializer(null).fromJSON(people?.bodies[id]))
    const { userID, userSecret } = await connection.issueIdentity(
      `${type}#${id}`,
      `${id}-${network}`,
    )
    const card = {
      version: 1,
      userName: userID,
      enrollmentSecret: userSecret,
      businessNetwork: network,
    }
    await this.#connect(admin, id, new this.#api.IdCard(card, profile))
  }

  #serializer(caller: string | null): Untyped {
    return this.#connections.get(caller).getBusinessNetwork().getSerializer()
  }

  async answer(request: Request, network: Case): Promise<Answer> {
    try {
      return { ok: await this.#answer(request, network) }
    } catch (error) {
      return failure(error)
    }
  }

  /** Reads the files of the network with one changed file, and compiles them as Composer does on deployment. */
  async #check({ path, text }: Mutated, network: Case): Promise<void> {
    const files = formatFiles(network, 'mutated').set(path, text)
    const buffers = new Map([...files].map(([each, content]) => [each, Buffer.from(content)]))
    const archive = writeArchive(buffers)
    this.#compile(await this.#api.BusinessNetworkDefinition.fromArchive(archive))
  }

  async #answer(request: Request, network: Case): Promise<unknown> {
    const { caller } = request
    if (request.kind === 'check') {
      await this.#check(request, network)
      return null
    }
    const connection = this.#connections.get(caller)
    const serializer = this.#serializer(caller)
    const registry = (type: string) => {
      switch (network.kinds[type]) {
        case 'participant':
          return connection.getParticipantRegistry(type)
        case 'transaction':
          return connection.getTransactionRegistry(type)
        default:
          return connection.getAssetRegistry(type)
      }
    }
    const shown = (resource: Untyped) => serializer.toJSON(resource)
    switch (request.kind) {
      case 'create':
        await (await registry(request.type)).add(serializer.fromJSON({ ...request.body }))
        return null
      case 'createAll':
        await (await registry(request.type)).addAll(
          request.body.map((body) => serializer.fromJSON({ ...body })),
        )
        return null
      case 'update':
        await (await registry(request.type)).update(serializer.fromJSON({ ...request.body }))
        return null
      case 'read':
        return shown(await (await registry(request.type)).get(request.id))
      case 'exists':
        return (await registry(request.type)).exists(request.id)
      case 'resolve':
        return (await registry(request.type)).resolve(request.id)
      case 'remove': {
        const all = await registry(request.type)
        await all.remove(await all.get(request.id))
        return null
      }
      case 'list':
        return (await (await registry(request.type)).getAll()).map(shown)
      case 'historian': {
        const records: Untyped[] = await (await connection.getHistorian()).getAll()
        return historianLines(records.map((each) => serializer.toJSON(each, { validate: false })))
      }
      case 'query':
        return (await connection.query(request.name, request.parameters)).map(shown)
      case 'submit':
      case 'ask': {
        const body =
          request.kind === 'submit'
            ? request.body
            : { $class: 'org.oracle.Ask', calls: request.calls.map(({ code }) => code) }
        const transaction = serializer.fromJSON({ ...body })
        const returned = await connection.submitTransaction(transaction)
        const id = transaction.getIdentifier()
        const historian = await this.#connections.get(null).getHistorian()
        const record = this.#serializer(null).toJSON(await historian.get(id), { validate: false })
        return withoutIds({ returned: returned ?? null, events: record.eventsEmitted }, id)
      }
    }
  }
}
