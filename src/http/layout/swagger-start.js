// Starts Swagger UI on the document that the page names, light or dark as the system is.

const dark = matchMedia('(prefers-color-scheme: dark)')
const follow = () => document.documentElement.classList.toggle('dark-mode', dark.matches)
dark.addEventListener('change', follow)
follow()

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
