import { render } from 'preact'
import { App } from './app.tsx'
import { keepLanguage } from './language/language.ts'
import { followChanges, followStanding } from './node/live.ts'
import { followAddress } from './routes.ts'

keepLanguage()
followAddress()
// First where the feed begins, so that no view is older than it.
await followChanges()
followStanding()
const root = document.getElementById('app')
if (root !== null) render(<App />, root)
