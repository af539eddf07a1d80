// Shows an OpenAPI document in Swagger UI, light or dark according to the system setting. The page's
// <meta name="document"> has the URL of the document. Characters that are not seen are shown, as on all pages.
import { visibleJson, visibleText } from './visible.js'

/** The texts of a document that people read. Others, such as names of members, are also sent. */
const READ = new Set(['title', 'summary', 'description'])

/** Shows the texts of a document. */
function showTexts(value) {
  if (typeof value !== 'object' || value === null) return
  for (const [name, member] of Object.entries(value)) {
    if (READ.has(name) && typeof member === 'string') value[name] = visibleText(member)
    else showTexts(member)
  }
}

const documentUrl = new URL(document.querySelector('meta[name=document]').content, location.href)
  .href

function showDocument(reply) {
  if (reply.url !== documentUrl || !reply.ok) return reply
  const content = JSON.parse(reply.text)
  showTexts(content)
  return Object.assign(reply, { text: JSON.stringify(content) })
}

/** Shows the JSON of examples and replies, also for the clipboard: it is the same JSON, with escapes. */
const plugin = ({ React }) => ({
  wrapComponents: {
    HighlightCode: (Original) => (props) => {
      const { children: text, language } = props
      if (typeof text !== 'string') return React.createElement(Original, props)
      const children = language === 'json' ? visibleJson(text) : visibleText(text)
      return React.createElement(Original, { ...props, children })
    },
  },
})

const dark = matchMedia('(prefers-color-scheme: dark)')
const applyMode = () => document.documentElement.classList.toggle('dark-mode', dark.matches)
dark.addEventListener('change', applyMode)
applyMode()

globalThis.SwaggerUIBundle({
  url: documentUrl,
  dom_id: '#swagger-ui',
  validatorUrl: null,
  deepLinking: true,
  docExpansion: 'list',
  displayRequestDuration: true,
  tryItOutEnabled: false,
  responseInterceptor: showDocument,
  plugins: [plugin],
  presets: [globalThis.SwaggerUIBundle.presets.apis],
  layout: 'BaseLayout',
})
