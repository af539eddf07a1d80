import type { HttpApp } from '../../http/index.ts'
import { serverIdFrom } from '../routes.ts'
import { DoneReply, Failure } from '../schemas.ts'
import type { Mirrors, ShownPeer } from './mirrors.ts'
import { PeerBody, PeerParams, PeersQuery, PeersReply } from './schemas.ts'

const failures = { '4xx': Failure, '5xx': Failure }
const tags = ['operations']
const PATH = '/api/config/peers'

/** Mounts the paths of the peers on `app`. */
export function peerRoutes(app: HttpApp, mirrors: Mirrors): void {
  app.get(
    PATH,
    {
      schema: {
        tags,
        summary: 'List the peers whose chains are mirrored here, and how it stands with each',
        querystring: PeersQuery,
        response: { 200: PeersReply, ...failures },
      },
      config: { scope: 'node:admin' },
    },
    async () => ({
      status: true as const,
      peers: mirrors.peers().map(shown),
      evidence: withList(mirrors.ownEvidence),
    }),
  )

  app.post(
    PATH,
    {
      schema: {
        tags,
        summary: 'Mirror the chain of a node; again changes nothing',
        querystring: PeersQuery,
        body: PeerBody,
        response: { 200: DoneReply, ...failures },
      },
      config: { scope: 'node:admin' },
    },
    async ({ body }) => {
      mirrors.add({ ...body, url: body.url ?? null })
      return { status: true as const }
    },
  )

  app.delete(
    `${PATH}/:serverid`,
    {
      schema: {
        tags,
        summary: 'Stop mirroring a chain; what was mirrored stays and is served',
        params: PeerParams,
        querystring: PeersQuery,
        response: { 200: DoneReply, ...failures },
      },
      config: { scope: 'node:admin' },
    },
    async ({ params }) => {
      mirrors.remove(serverIdFrom(params.serverid))
      return { status: true as const }
    },
  )
}

function shown(peer: ShownPeer) {
  const { serverId: serverid, vkey, url, push, fixed, blocks, ofBlocks, currentMs, error } = peer
  const lag = ofBlocks - blocks
  const evidence = withList(peer.evidence)
  const state = stateOf(peer)
  return {
    serverid,
    vkey,
    url,
    push,
    fixed,
    state,
    blocks,
    lag,
    absent: peer.absent,
    current: currentMs,
    error,
    evidence,
  }
}

/** In words for people and programs. */
function stateOf({ evidence, error, currentMs, blocks, ofBlocks }: ShownPeer) {
  if (evidence !== null) return 'frozen' as const
  if (error !== null) return 'failing' as const
  return currentMs === null || blocks < ofBlocks ? ('behind' as const) : ('current' as const)
}

function withList(evidence: ShownPeer['evidence']) {
  return evidence === null ? null : { what: evidence.what, notes: [...evidence.notes] }
}
