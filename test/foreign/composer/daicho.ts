// Runs the same networks on daicho: a gateway on a real socket, with a ledger in memory.
import { checkNetwork, type NetworkDefinition } from '../../../src/network/index.ts'
import { type GatewayNode, startGateway } from '../../support/gateway.ts'
import { type Answer, failure, historianLines, type Side, withoutIds } from './answers.ts'
import { type Case, formatFiles, type Request } from './generate.ts'

/** Returns the network in `files`, or throws all of its errors. */
function check(files: ReadonlyMap<string, string>): NetworkDefinition {
  const buffers = new Map([...files].map(([path, text]) => [path, Buffer.from(text)]))
  const { findings, definition } = checkNetwork({ files: buffers, packed: null })
  if (definition !== null) return definition
  const errors = findings.filter(({ severity }) => severity === 'error')
  throw new Error(errors.map(({ path, line, message }) => `${path}:${line} ${message}`).join('; '))
}

/** A network of a gateway. */
export class DaichoSide implements Side {
  readonly #node: GatewayNode
  #name = ''
  #callers = new Map<string | null, Record<string, string>>()

  private constructor(node: GatewayNode) {
    this.#node = node
  }

  static async start(): Promise<DaichoSide> {
    return new DaichoSide(await startGateway({ deploy: [], deadlineMs: 60_000 }))
  }

  close(): Promise<void> {
    return this.#node.close()
  }

  async deploy(network: Case, name: string): Promise<Answer> {
    if (this.#node.networks.get(this.#name) !== null) await this.#node.networks.remove(this.#name)
    this.#name = ''
    this.#callers = new Map([[null, {}]])
    try {
      const definition = check(formatFiles(network, name))
      await this.#deployed(definition)
      this.#name = definition.name
      for (const id of network.people?.ids ?? []) await this.#issue(network, id)
      return { ok: null }
    } catch (error) {
      return failure(error)
    }
  }

  /** Deploys a network; again, if the machine was too busy to load its scripts in time. */
  async #deployed(definition: NetworkDefinition): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        await this.#node.networks.deploy(definition)
        return
      } catch (error) {
        const isBusy =
          error instanceof Error && /interrupted|too long|did not start/.test(error.message)
        if (!isBusy || attempt === 5) throw error
      }
    }
  }

  async #issue({ people }: Case, id: string): Promise<void> {
    const type = people?.type ?? ''
    await this.#send(null, 'POST', `/${type}`, people?.bodies[id])
    const issued = { participant: `${type}#${id}`, userID: id }
    const { userSecret } = await this.#send(null, 'POST', '/system/identities/issue', issued)
    this.#callers.set(id, { authorization: `Bearer ${userSecret}` })
  }

  // biome-ignore lint/suspicious/noExplicitAny: replies are arbitrary JSON
  async #send(caller: string | null, method: string, path: string, body?: unknown): Promise<any> {
    const headers = this.#callers.get(caller) ?? {}
    const reply = await this.#node.send(method, `/${this.#name}/api${path}`, body, headers)
    if (reply.status < 300) return reply.json
    if (reply.status >= 500) throw new Error(`status ${reply.status}: ${reply.text}`)
    throw new Error(reply.json?.error?.message ?? `status ${reply.status}`)
  }

  async #exists(caller: string | null, path: string): Promise<boolean> {
    const url = `${this.#node.url}/${this.#name}/api${path}`
    const { status } = await fetch(url, {
      method: 'HEAD',
      headers: this.#callers.get(caller) ?? {},
    })
    if (status === 200 || status === 404) return status === 200
    // A reply to HEAD has no message.
    throw new Error(status === 401 ? 'no identity of this network' : `status ${status}`)
  }

  async answer(request: Request, network: Case): Promise<Answer> {
    try {
      return { ok: await this.#answer(request, network) }
    } catch (error) {
      return failure(error)
    }
  }

  async #answer(request: Request, network: Case): Promise<unknown> {
    const send = (method: string, path: string, body?: unknown) =>
      this.#send(request.caller, method, path, body)
    const one = (type: string, id: string) => `/${type}/${encodeURIComponent(id)}`
    switch (request.kind) {
      case 'check':
        check(formatFiles(network, 'mutated').set(request.path, request.text))
        return null
      case 'create':
      case 'createAll':
        await send('POST', `/${request.type}`, request.body)
        return null
      case 'update':
        await send('PUT', one(request.type, request.id), request.body)
        return null
      case 'read':
        return send('GET', one(request.type, request.id))
      case 'exists':
        return this.#exists(request.caller, one(request.type, request.id))
      case 'resolve':
        return send(
          'GET',
          `${one(request.type, request.id)}?filter=${encodeURIComponent('{"include":"resolve"}')}`,
        )
      case 'remove':
        await send('DELETE', one(request.type, request.id))
        return null
      case 'list':
        return send('GET', `/${request.type}`)
      case 'historian':
        return historianLines(await send('GET', '/system/historian'))
      case 'query': {
        const given = new URLSearchParams()
        for (const [name, value] of Object.entries(request.parameters)) {
          given.set(name, String(value))
        }
        return send('GET', `/queries/${request.name}?${given}`)
      }
      case 'submit':
      case 'ask': {
        const [type, body] =
          request.kind === 'submit'
            ? [request.type, request.body]
            : ['org.oracle.Ask', { calls: request.calls.map(({ code }) => code) }]
        const reply = await send('POST', `/${type}`, body)
        const filter = encodeURIComponent('{"order":"transactionId DESC","limit":1}')
        const [record] = await this.#send(null, 'GET', `/system/historian?filter=${filter}`)
        // Without a declared result, daicho replies with the transaction.
        const returned = reply?.$class === type ? null : (reply ?? null)
        return withoutIds({ returned, events: record.eventsEmitted }, record.transactionId)
      }
    }
  }
}
