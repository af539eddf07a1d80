import { type HttpApp, type PageFile, pageFile, servePageFiles } from '../http/index.ts'
import type { KeeperCheck } from './keeper.ts'

/** What is served where the dashboard has not been built: the ways on, as links. */
const LINKS = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>daicho</title>
</head>
<body>
<main>
<h1>daicho</h1>
<p>The dashboard has not been built: <code>npm run build</code> does it.</p>
<ul>
<li><a href="/doc">API documentation</a>, with every operation to try</li>
<li><a href="/api/dbs">Databases</a> as JSON</li>
<li><a href="/api/serverid">Server id</a> of this node, to list its blocks by</li>
</ul>
</main>
</body>
</html>
`
/**
 * Mounts `/`, behind Basic credentials (specification, “Authentication”, L 1): the dashboard of
 * `files`, or a page of links when it is null.
 */
export function homePage(
  app: HttpApp,
  check: KeeperCheck,
  files: readonly PageFile[] | null,
): void {
  servePageFiles(app, files ?? [pageFile('/', 'page.html', LINKS)], (request, reply) => {
    check(request, reply)
    // Nor may a page of another site show any of it.
    reply.header('cross-origin-resource-policy', 'same-origin')
  })
}
