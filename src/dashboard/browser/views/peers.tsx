import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { visible } from '../../../base/visible.js'
import { t } from '../language/language.ts'
import { ledger } from '../node/ledger.ts'
import { nodeStatus } from '../node/live.ts'
import { Dialog, type DialogEnds } from '../parts/dialog.tsx'
import { LongText } from '../parts/json.tsx'
import { Button, Fact, Field, Time } from '../parts/layout.tsx'
import { FailureNotice, Loading, Notice } from '../parts/notices.tsx'

type Peers = NonNullable<typeof nodeStatus.value>['peers']
type ListedPeer = Extract<Peers, readonly unknown[]>[number]
/** The proof that a key has signed two histories. */
type KeyEvidence = NonNullable<ListedPeer['evidence']>

/** Lists the peers, and lets the user add and remove them. */
export function PeersSection(): JSX.Element {
  const now = nodeStatus.value
  const [asked, setAsked] = useState<'add' | ListedPeer | null>(null)
  const ends = { close: () => setAsked(null), done: () => {} }
  return (
    <section class="peers" aria-labelledby="peers-title">
      <header class="head">
        <h2 id="peers-title">{t().peers}</h2>
        {Array.isArray(now?.peers) && <Button text={t().addPeer} act={() => setAsked('add')} />}
      </header>
      <p class="soft">{t().peersAre}</p>
      {now === null ? <Loading /> : listPeers(now.peers, setAsked)}
      {asked === 'add' && <AddPeer {...ends} />}
      {asked !== null && asked !== 'add' && <RemovePeer {...ends} peer={asked} />}
    </section>
  )
}

function AddPeer(ends: DialogEnds): JSX.Element {
  const [vkey, setVkey] = useState('')
  const [url, setUrl] = useState('')
  const [push, setPush] = useState(false)
  const add = async () => {
    const body = {
      vkey: vkey.trim(),
      ...(url === '' ? {} : { url: url.trim() }),
      ...(push && { push }),
    }
    await ledger.request('POST /api/config/peers', { body })
    return t().peerAdded
  }
  const [title, submitText] = [t().addPeer, t().add]
  return (
    <Dialog {...{ title, submitText, ...ends }} disabled={vkey.trim() === ''} act={add}>
      <Field
        label={t().verifierKey}
        class="mono"
        spellcheck={false}
        value={vkey}
        change={setVkey}
      />
      <Field
        label={t().address}
        type="url"
        placeholder="https://ledger.example.com"
        value={url}
        change={setUrl}
      />
      <label>
        <input
          type="checkbox"
          checked={push}
          disabled={url === ''}
          onChange={({ currentTarget }) => setPush(currentTarget.checked)}
        />
        {t().pushThere}
      </label>
      <small>{t().addPeerMeans}</small>
    </Dialog>
  )
}

function RemovePeer({ peer, ...ends }: DialogEnds & { peer: ListedPeer }): JSX.Element {
  const serverid = `${peer.serverid}`
  const remove = async () => {
    await ledger.request('DELETE /api/config/peers/{serverid}', { path: { serverid } })
    return t().peerRemoved(serverid)
  }
  const [title, submitText] = [t().removePeer(serverid), t().remove]
  return (
    <Dialog {...{ title, submitText, ...ends }} danger act={remove}>
      <p>{t().removePeerMeans}</p>
    </Dialog>
  )
}

function listPeers(peers: Peers, remove: (peer: ListedPeer) => void): JSX.Element {
  if (peers === 'hidden') return <p class="empty">{t().peersHidden}</p>
  if (peers instanceof Error) return <FailureNotice error={peers} />
  if (peers.length === 0) return <p class="empty">{t().noPeers}</p>
  return (
    <ul class="peer-list">
      {peers.map((peer) => (
        <PeerCard key={`${peer.vkey} ${peer.url}`} peer={peer} remove={() => remove(peer)} />
      ))}
    </ul>
  )
}

function PeerCard(props: { peer: ListedPeer; remove: () => void }): JSX.Element {
  const { serverid, fixed, state, url, push, blocks, lag, current, error, evidence } = props.peer
  return (
    <li class="card peer">
      <p class="peer-head">
        <strong>
          {t().node} {serverid}
        </strong>{' '}
        <span class={`state ${state}`}>{t().peerStates[state]}</span>
        {fixed ? (
          <span class="soft">{t().fixedPeer}</span>
        ) : (
          <Button text={t().remove} subject={`${serverid}`} act={props.remove} />
        )}
      </p>
      {evidence !== null && (
        <EvidenceNotice title={t().twoHistories(`${serverid}`)} evidence={evidence} />
      )}
      {error !== null && evidence === null && (
        <Notice title={t().lastError}>
          {visible(error.message)} ({error.code})
        </Notice>
      )}
      <dl class="facts">
        <Fact name={t().mirrored}>{blocks === 0 ? t().nothingYet : t().upTo(blocks)}</Fact>
        {(lag > 0 || current !== null) && (
          <Fact name={t().behind}>{lag === 0 ? t().notBehind : t().blocks(lag)}</Fact>
        )}
        <Fact name={t().lastRound}>{current === null ? t().never : <Time at={current} />}</Fact>
        <Fact name={t().address}>
          {url === null ? t().comesItself : <code>{visible(url)}</code>}
          {push && ` ${t().pushed}`}
        </Fact>
      </dl>
    </li>
  )
}

/** Shows two contradicting checkpoints that are signed with the same key. */
export function EvidenceNotice(props: { title: string; evidence: KeyEvidence }): JSX.Element {
  const { title, evidence } = props
  return (
    <div class="notice bad stacked">
      {isStateProof(evidence) || (
        <p>
          <strong>{title}</strong> {t().frozenMeans}
        </p>
      )}
      <p>
        {t().evidence} {visible(evidence.what)}
      </p>
      <p>
        {isVerifiable(evidence) ? t().evidenceVerifiable : t().evidencePrivate}{' '}
        <a download="evidence.json" href={`data:application/json,${encodedFile(evidence)}`}>
          {t().saveEvidence}
        </a>
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

/** Whether the evidence shows a wrong signed state, and not two histories. */
function isStateProof({ proof }: KeyEvidence): boolean {
  return proof !== null && 'state' in proof
}

function encodedFile(evidence: KeyEvidence): string {
  return encodeURIComponent(`${JSON.stringify(evidence)}\n`)
}

/**
 * Whether others can verify the evidence. If there is no proof, others see the contradiction only if the logs of both
 * checkpoints have the same size.
 */
function isVerifiable({ notes, proof }: KeyEvidence): boolean {
  const [size, otherSize] = notes.map((note) => note.split('\n')[1])
  return proof !== null || (size !== undefined && size === otherSize)
}
