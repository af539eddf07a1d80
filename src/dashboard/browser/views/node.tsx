import type { JSX } from 'preact'
import { t, timeText } from '../language/language.ts'
import { useChanges } from '../node/feed.ts'
import { base, blocksFrom, chainSize, ledger, textOfChain } from '../node/ledger.ts'
import { Copied, LongText } from '../parts/code.tsx'
import { failureText, Waiting } from '../parts/failure.tsx'
import { useLoaded } from '../parts/loaded.ts'
import { hrefOf } from '../routes.ts'
import { Fact } from './fact.tsx'
import { Peers } from './peers.tsx'

interface NodeFacts {
  readonly serverId: number
  readonly verifierKey: string
  /** Or why there is none. */
  readonly checkpoint: string
  /** Null while nothing has been recorded. */
  readonly head: { readonly height: number; readonly id: string; readonly timestamp: number } | null
}

async function nodeFacts(signal: AbortSignal): Promise<NodeFacts> {
  const serverId = await ledger.serverId({ signal })
  const [verifierKey, checkpoint, size] = await Promise.all([
    textOfChain('vkey', signal),
    textOfChain('checkpoint', signal).catch(failureText),
    chainSize(signal),
  ])
  const [block] = size === 0 ? [] : await blocksFrom(size - 1, 1, signal)
  const head =
    block === undefined
      ? null
      : { height: size - 1, id: block.id, timestamp: block.timestamps.at(-1) ?? 0 }
  return { serverId, verifierKey: verifierKey.trim(), checkpoint, head }
}

/** What names this node, what others verify it by, and how it stands with other nodes. */
export function Node(): JSX.Element {
  const [loaded, reload] = useLoaded('node', nodeFacts)
  useChanges(() => true, reload)
  return (
    <>
      <header class="head">
        <div>
          <h1>{t().node}</h1>
          <p>{t().nodeIs}</p>
        </div>
      </header>
      <Waiting loaded={loaded} again={reload}>
        {({ serverId, verifierKey, checkpoint, head }) => (
          <dl class="card facts">
            <Fact name={t().serverId}>
              <Copied text={`${serverId}`} label={t().serverId} />
            </Fact>
            <Fact name={t().address}>
              <code>{base}</code>
            </Fact>
            <Fact name={t().chainHead}>
              {head === null ? (
                t().noBlocks
              ) : (
                <a href={hrefOf({ view: 'ledger', height: head.height })}>
                  {t().block(head.height)}
                </a>
              )}
            </Fact>
            {head !== null && (
              <>
                <Fact name={t().lastEntry}>
                  <time dateTime={new Date(head.timestamp).toISOString()}>
                    {timeText(head.timestamp)}
                  </time>
                </Fact>
                <Fact name={t().headId}>
                  <Copied text={head.id} label={t().headId} />
                </Fact>
              </>
            )}
            <Fact name={t().verifierKey} hint={t().verifierKeyIs}>
              <Copied text={verifierKey} label={t().verifierKey} />
            </Fact>
            <Fact name={t().checkpoint} hint={t().checkpointIs}>
              <LongText text={checkpoint} />
            </Fact>
          </dl>
        )}
      </Waiting>
      <Peers />
    </>
  )
}
