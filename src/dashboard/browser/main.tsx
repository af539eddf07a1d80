import { render } from 'preact'
import { originalText } from '../../base/visible.js'
import { App } from './app.tsx'
import { applyLanguage } from './language/language.ts'
import { followFeed, followStatus } from './node/live.ts'
import { followAddress } from './routing/address.ts'
import { rememberScroll } from './routing/scroll.ts'
import { guardUnsaved } from './routing/unsaved.ts'
import { requireLogin } from './views/sign-in.tsx'

applyLanguage()
const root = document.getElementById('app')
// The issuer sends the user back without the view of the address, which the sign-in restores.
if (root !== null) await requireLogin(root)
followAddress()
rememberScroll()
guardUnsaved()
// Puts the original characters into the clipboard instead of the shown escapes.
document.addEventListener('copy', (event) => {
  const shown = document.getSelection()?.toString() ?? ''
  const text = originalText(shown)
  if (event.defaultPrevented || text === shown) return
  event.clipboardData?.setData('text/plain', text)
  event.preventDefault()
})
// Starts the feed before any view is loaded, so that no view misses a change.
await followFeed()
followStatus()
if (root !== null) render(<App />, root)
