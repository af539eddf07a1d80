import type { Clock } from '../base/clock.ts'
import {
  type Credentials,
  equalCredentials,
  FailureThrottle,
  type HttpApp,
  HttpRefusal,
  parseBasic,
} from '../http/index.ts'

/** Wrong credentials that one address may send before it is held off. */
const FAILURES = { failuresMax: 20, windowMs: 5 * 60_000, keysMax: 10_000 }

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
export function homePage(app: HttpApp, credentials: Credentials, clock: Clock): void {
  const throttle = new FailureThrottle(clock, FAILURES)
  const secured = {
    'content-security-policy': CSP,
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
    'referrer-policy': 'no-referrer',
    'cross-origin-resource-policy': 'same-origin',
  }

  app.get('/', { schema: { hide: true } }, async (request, reply) => {
    const wait = throttle.waitMs(request.ip)
    if (wait > 0) {
      reply.header('retry-after', Math.ceil(wait / 1000))
      throw new HttpRefusal(429, 'TOO_MANY_FAILURES', 'too many wrong passwords; try again later')
    }
    const given = parseBasic(request.headers.authorization)
    if (given === null || !equalCredentials(given, credentials)) {
      if (given !== null) throttle.fail(request.ip)
      reply.header('www-authenticate', 'Basic realm="daicho", charset="UTF-8"')
      throw new HttpRefusal(401, 'CREDENTIALS_NEEDED', 'a name and a password are needed')
    }
    throttle.clear(request.ip)
    return reply
      .headers(secured)
      .header('cache-control', 'no-store')
      .type('text/html; charset=utf-8')
      .send(PAGE)
  })
  app.get('/home.css', { schema: { hide: true } }, async (_request, reply) =>
    reply.headers(secured).type('text/css; charset=utf-8').send(STYLE),
  )
}
