import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { visible } from '../../../base/visible.js'
import type { Operations } from '../../../client/index.ts'
import { t } from '../language/language.ts'
import { ledger } from '../node/ledger.ts'
import { useChanges } from '../node/live.ts'
import { Dialog, type DialogEnds } from '../parts/dialog.tsx'
import { useLoaded } from '../parts/hooks.ts'
import { Button, Time } from '../parts/layout.tsx'
import { Waiting } from '../parts/notices.tsx'
import { type CreatedToken, CreatedTokenNotice, NewToken } from './new-token.tsx'

type Token = Operations['GET /api/config/tokens']['reply']['tokens'][number]

/** Number of tokens that are shown at first, and that each click adds. */
const STEP = 20

/** Lists the tokens in use, and lets the user create and revoke tokens. */
export function TokensSection(): JSX.Element {
  const [loaded, reload] = useLoaded('tokens', (signal) =>
    ledger.request('GET /api/config/tokens', {}, { signal }),
  )
  useChanges(() => true, reload)
  const [count, setCount] = useState(STEP)
  const [asked, setAsked] = useState<'new' | Token | null>(null)
  const [created, setCreated] = useState<readonly CreatedToken[]>([])
  const ends = { close: () => setAsked(null), done: reload }
  return (
    <section class="tokens" aria-labelledby="tokens-title">
      <header class="head">
        <h2 id="tokens-title">{t().tokens}</h2>
        {loaded.state === 'loaded' && loaded.value.required && (
          <Button text={t().newToken} act={() => setAsked('new')} />
        )}
      </header>
      {created.map((one) => (
        <CreatedTokenNotice
          key={one.token}
          created={one}
          close={() => setCreated((before) => before.filter((other) => other !== one))}
        />
      ))}
      <Waiting loaded={loaded} again={reload}>
        {({ required, since, tokens }) => {
          if (!required || since === null) return <p class="empty">{t().tokensDisabled}</p>
          return (
            <>
              <p class="soft">
                {t().tokensAre} <Time at={since} />
              </p>
              <ul class="rows">
                {tokens.slice(0, count).map((token) => (
                  <TokenRow key={token.jti} token={token} revoke={() => setAsked(token)} />
                ))}
              </ul>
              {tokens.length > count && (
                <Button
                  text={t().more(tokens.length - count)}
                  class="secondary"
                  act={() => setCount(count + STEP)}
                />
              )}
            </>
          )
        }}
      </Waiting>
      {asked === 'new' && (
        <NewToken {...ends} created={(one) => setCreated((before) => [...before, one])} />
      )}
      {asked !== null && asked !== 'new' && <RevokeToken {...ends} token={asked} />}
    </section>
  )
}

function TokenRow({ token, revoke }: { token: Token; revoke: () => void }): JSX.Element {
  const { jti, subject, issuer = '', audience, scopes, last_used, expires_at, revoked } = token
  return (
    <li class="token">
      <div>
        <strong class="name">{visible(subject)}</strong> {visible(issuer)}{' '}
        {scopes.map((scope) => (
          <code key={scope}>{visible(scope)}</code>
        ))}
        {scopes.length === 0 && <code>{visible(audience)}</code>}
        <small>
          {last_used === null ? (
            t().neverUsed
          ) : (
            <>
              {t().lastUsed} <Time at={last_used} />
            </>
          )}{' '}
          · {t().expires} <Time at={expires_at} /> · <code>{jti}</code>
        </small>
      </div>
      {revoked ? (
        <span class="state failing">{t().revoked}</span>
      ) : (
        <Button text={t().revoke} subject={`${subject} ${jti}`} act={revoke} />
      )}
    </li>
  )
}

function RevokeToken({ token, ...ends }: DialogEnds & { token: Token }): JSX.Element {
  const { jti, subject } = token
  const revoke = async () => {
    await ledger.request('DELETE /api/config/tokens/{jti}', { path: { jti } })
    return t().tokenRevoked(subject)
  }
  const [title, submitText] = [t().revokeTitle(subject), t().revoke]
  return (
    <Dialog {...{ title, submitText, ...ends }} danger act={revoke}>
      <p>{t().revokeMeans}</p>
      <p>
        <code>{jti}</code>
      </p>
    </Dialog>
  )
}
