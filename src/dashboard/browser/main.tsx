import { render } from 'preact'
import { App } from './app.tsx'
import { applyLanguage } from './language/language.ts'
import { followFeed, followStatus } from './node/live.ts'
import { followAddress } from './routing/address.ts'
import { rememberScroll } from './routing/scroll.ts'

applyLanguage()
followAddress()
rememberScroll()
// Starts the feed before any view is loaded, so that no view misses a change.
await followFeed()
followStatus()
const root = document.getElementById('app')
if (root !== null) render(<App />, root)
