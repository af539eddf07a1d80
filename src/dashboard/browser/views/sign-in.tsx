import type { JSX } from 'preact'
import { render } from 'preact'
import { useState } from 'preact/hooks'
import { visible } from '../../../base/visible.js'
import { t } from '../language/language.ts'
import { base, useAccount } from '../node/ledger.ts'
import { finishLogin, hasLogin, readOffer, type SignInOffer, startLogin } from '../node/sign-in.ts'
import { Button, ViewHead } from '../parts/layout.tsx'
import { Notice } from '../parts/notices.tsx'

/**
 * Resolves when the user may use the page: at once if the node offers no sign-in, otherwise after a sign-in at the
 * issuer, or after the choice to send a name and a password.
 */
export async function requireLogin(root: HTMLElement): Promise<void> {
  if (!hasLogin()) return
  let offer: SignInOffer | null = null
  let failure: string | null = null
  try {
    offer = await readOffer(base)
    const renew = await finishLogin(base, offer)
    if (renew !== null) {
      useAccount(renew)
      return
    }
  } catch (error) {
    failure = error instanceof Error ? error.message : String(error)
  }
  await new Promise<void>((resolve) => {
    render(<SignInView offer={offer} failure={failure} withPassword={resolve} />, root)
  })
  render(null, root)
}

function SignInView({
  offer,
  failure,
  withPassword,
}: {
  offer: SignInOffer | null
  failure: string | null
  withPassword: () => void
}): JSX.Element {
  const [shown, show] = useState(failure)
  return (
    <main class="container">
      <ViewHead title={t().signInTitle} />
      {shown !== null && <Notice title={t().signInFailed}>{visible(shown)}</Notice>}
      <p>
        {offer === null ? (
          <Button text={t().tryAgain} act={() => location.assign(base)} />
        ) : (
          <Button
            text={t().signInAt(new URL(offer.issuer).host)}
            class=""
            act={() => startLogin(base, offer).catch((error: Error) => show(error.message))}
          />
        )}{' '}
        <Button text={t().signInByPassword} act={withPassword} />
      </p>
    </main>
  )
}
