// The baseline for attachments: a bare server that streams a body into a file, syncs it, and sends it back.
import { createReadStream, createWriteStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { createServer } from 'node:http'
import { basename, join } from 'node:path'
import { pipeline } from 'node:stream/promises'

const folder = process.argv[2] ?? '.'

const server = createServer((request, response) => {
  const path = join(folder, basename(request.url ?? ''))
  if (request.method !== 'PUT') {
    createReadStream(path).pipe(response)
    return
  }
  void pipeline(request, createWriteStream(path))
    .then(() => open(path, 'r+'))
    .then(async (file) => {
      await file.sync()
      await file.close()
      response.end('{}')
    })
})
server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : 0
  console.log(JSON.stringify({ ledger: `http://127.0.0.1:${port}` }))
})
