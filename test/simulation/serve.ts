import { toBase64 } from '../../src/base/base64.ts'
import type { Clock, Schedule } from '../../src/base/clock.ts'
import { CodedError } from '../../src/base/coded-error.ts'
import { logOrigin, provenBlockJson } from '../../src/chain/index.ts'
import type { LedgerService } from '../../src/ledger/index.ts'
import { requireChain } from '../../src/ledger/node/service.ts'
import { matchesDigest, SignedRequests } from '../../src/ledger/peers/signed-request.ts'
import { blockPages } from '../../src/ledger/read/pages.ts'
import type { Answer, Sent, Serve } from './network.ts'

/** Returns a handler that calls the same functions as the routes for peers, without HTTP. */
export function serving(service: LedgerService, clock: Clock, schedule: Schedule): Serve {
  const keyOf = (id: string) => service.mirrors.peerOfKey(id)?.key.publicKey ?? null
  const signed = new SignedRequests(keyOf, clock, schedule)
  return async (sent) => {
    try {
      if (sent.method === 'POST') return await pushed(service, signed, sent)
      return { status: 200, body: await got(service, sent.url) }
    } catch (error) {
      if (!(error instanceof CodedError)) throw error
      const { code, message } = error
      return { status: 503, body: Buffer.from(JSON.stringify({ status: false, code, message })) }
    }
  }
}

async function got(service: LedgerService, { pathname, searchParams }: URL): Promise<Buffer> {
  const number = (name: string) => Number(searchParams.get(name))
  if (pathname === '/api/ledgers') {
    const range = { limit: number('limit'), offset: number('offset') }
    const texts: string[] = []
    for await (const page of blockPages(requireChain(service, number('serverid')).reader, range)) {
      texts.push(...page.map(provenBlockJson))
    }
    return Buffer.from(`{"status":true,"ledgers":[${texts.join(',')}],"limit":9,"offset":0}`)
  }
  const [, , , serverId = '', resource, ...rest] = pathname.split('/')
  const log = requireChain(service, Number(serverId)).log
  if (resource === 'checkpoint') return Buffer.from(await log.checkpoint())
  if (resource === 'tile') return Buffer.from(await log.tile(rest.join('/')))
  const { proof } = await log.consistency(number('from'), number('to'))
  return Buffer.from(JSON.stringify({ status: true, proof: proof.map(toBase64) }))
}

async function pushed(
  { mirrors }: LedgerService,
  signed: SignedRequests,
  { url, headers, body }: Sent,
): Promise<Answer> {
  const { keyId, digest } = await signed.verify({
    method: 'POST',
    url: url.pathname,
    headers: { ...headers, host: url.host },
  })
  const serverId = Number(url.pathname.split('/').pop())
  const peer = mirrors.peerOfKey(keyId)
  const content = Buffer.from(body ?? [])
  if (peer === null || keyId !== logOrigin(serverId) || !matchesDigest(digest, content)) {
    return { status: 401, body: Buffer.from('{"status":false}') }
  }
  const { error, ...mirror } = await mirrors.push(peer.vkey, content)
  const reply = { status: error === null, ...error, ...mirror }
  return { status: error === null ? 200 : 422, body: Buffer.from(JSON.stringify(reply)) }
}
