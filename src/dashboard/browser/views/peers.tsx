import type { JSX } from 'preact'
import { t, timeText } from '../language/language.ts'
import { type Evidence, type Peer, standing } from '../node/standing.ts'
import { LongText } from '../parts/code.tsx'
import { Failure } from '../parts/failure.tsx'
import { Fact } from './fact.tsx'

/** The nodes whose chains are mirrored here, and how it stands with each; live. */
export function Peers(): JSX.Element {
  const now = standing.value
  return (
    <section class="peers" aria-labelledby="peers-title">
      <h2 id="peers-title">{t().peers}</h2>
      <p class="soft">{t().peersAre}</p>
      {now === null ? (
        <p class="waiting" aria-busy="true" role="status">
          {t().loading}
        </p>
      ) : (
        <PeerList peers={now.peers} />
      )}
    </section>
  )
}

function PeerList({ peers }: { peers: readonly Peer[] | 'hidden' | Error }): JSX.Element {
  if (peers === 'hidden') return <p class="empty">{t().peersHidden}</p>
  if (peers instanceof Error) return <Failure error={peers} />
  if (peers.length === 0) return <p class="empty">{t().noPeers}</p>
  return (
    <ul class="peer-list">
      {peers.map((peer) => (
        <PeerCard key={`${peer.vkey} ${peer.url}`} peer={peer} />
      ))}
    </ul>
  )
}

function PeerCard({ peer }: { peer: Peer }): JSX.Element {
  const { serverid, state, url, push, blocks, lag, current, error, evidence } = peer
  return (
    <li class="card peer">
      <p class="peer-head">
        <strong>
          {t().node} {serverid}
        </strong>{' '}
        <span class={`state ${state}`}>{t().peerStates[state]}</span>
      </p>
      {evidence !== null && (
        <EvidenceNotice title={t().twoHistories(`${serverid}`)} evidence={evidence} />
      )}
      {error !== null && evidence === null && (
        <p class="notice bad">
          <span>
            <strong>{t().lastError}</strong> {error.message} ({error.code})
          </span>
        </p>
      )}
      <dl class="facts">
        <Fact name={t().mirrored}>{blocks === 0 ? t().nothingYet : t().upTo(blocks)}</Fact>
        <Fact name={t().behind}>{lag === 0 ? t().notBehind : t().blocks(lag)}</Fact>
        <Fact name={t().lastRound}>
          {current === null ? (
            t().never
          ) : (
            <time dateTime={new Date(current).toISOString()}>{timeText(current)}</time>
          )}
        </Fact>
        <Fact name={t().address}>
          {url === null ? t().comesItself : <code>{url}</code>}
          {push && ` ${t().pushed}`}
        </Fact>
      </dl>
    </li>
  )
}

/** Two notes of one key that are not both true; open to be read and kept. */
export function EvidenceNotice(props: { title: string; evidence: Evidence }): JSX.Element {
  const { title, evidence } = props
  return (
    <div class="notice bad stacked">
      <p>
        <strong>{title}</strong> {t().frozenMeans}
      </p>
      <p>
        {t().evidence} {evidence.what}
      </p>
      <details>
        <summary>{t().signedNotes}</summary>
        {evidence.notes.map((note) => (
          <LongText key={note} text={note} />
        ))}
      </details>
    </div>
  )
}
