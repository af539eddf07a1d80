// Shows an OpenAPI document in Swagger UI, light or dark according to the system setting. The page's
// <meta name="document"> has the URL of the document.

const dark = matchMedia('(prefers-color-scheme: dark)')
const applyMode = () => document.documentElement.classList.toggle('dark-mode', dark.matches)
dark.addEventListener('change', applyMode)
applyMode()

globalThis.SwaggerUIBundle({
  url: document.querySelector('meta[name=document]').content,
  dom_id: '#swagger-ui',
  validatorUrl: null,
  deepLinking: true,
  docExpansion: 'list',
  displayRequestDuration: true,
  tryItOutEnabled: false,
  presets: [globalThis.SwaggerUIBundle.presets.apis],
  layout: 'BaseLayout',
})
