import { createServer } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { Connection } from './connection.ts'

/** Returns a message of PostgreSQL's protocol: a type, the length, and the body. */
function innerMessage(type: string, ...body: number[]): Buffer {
  const length = Buffer.alloc(4)
  length.writeUInt32BE(4 + body.length)
  return Buffer.concat([Buffer.from(type), length, Buffer.from(body)])
}

it('rejects if the server sends a row that cannot be parsed', async () => {
  const authenticated = innerMessage('R', 0, 0, 0, 0)
  const ready = innerMessage('Z', 0x49)
  const rowWithNegativeLength = innerMessage('D', 0xff, 0xff, 0, 0, 0, 9)
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', () => {
      socket.write(Buffer.concat([authenticated, ready]))
      socket.once('data', () => socket.write(rowWithNegativeLength))
    })
  })
  onTestFinished(() => void server.close())
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : 0
  const url = `postgres://u@127.0.0.1:${port}/db`
  await expect(Connection.open({ url, durable: true })).rejects.toThrow(
    'the server sent an invalid reply',
  )
})
