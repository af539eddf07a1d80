import type { HttpApp } from '../http/index.ts'
import type { KeeperCheck } from './keeper.ts'

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>daicho</title>
<link rel="stylesheet" href="/home.css">
</head>
<body>
<main>
<h1>daicho</h1>
<p>A ledger database: every change is an entry in a chain of blocks that anyone can verify.</p>
<ul>
<li><a href="/doc">API documentation</a>, with every operation to try</li>
<li><a href="/api/dbs">Databases</a> as JSON</li>
<li><a href="/api/serverid">Server id</a> of this node, to list its blocks by</li>
</ul>
</main>
</body>
</html>
`

const STYLE = `:root { color-scheme: light dark; }
body { font: 1rem/1.6 system-ui, sans-serif; margin: 0; }
main { max-width: 40rem; margin: 4rem auto; padding: 0 1.5rem; }
h1 { font-weight: 600; letter-spacing: -0.02em; }
li { margin: 0.4rem 0; }
`

const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
  "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

/** Mounts `/`, behind Basic credentials (specification, “Authentication”, L 1). */
export function homePage(app: HttpApp, check: KeeperCheck): void {
  const secured = {
    'content-security-policy': CSP,
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
    'referrer-policy': 'no-referrer',
    'cross-origin-resource-policy': 'same-origin',
  }
  // Public: browsers ask for Basic credentials here, and those are what it looks at.
  const page = { schema: { hide: true }, config: { scope: 'public' } } as const

  app.get('/', page, async (request, reply) => {
    check(request, reply)
    return reply
      .headers(secured)
      .header('cache-control', 'no-store')
      .type('text/html; charset=utf-8')
      .send(PAGE)
  })
  app.get('/home.css', page, async (_request, reply) =>
    reply.headers(secured).type('text/css; charset=utf-8').send(STYLE),
  )
}
