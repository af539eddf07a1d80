/** The version of everything that goes into an id; part of the header. */
const CHAIN_VERSION = 1

/** What the id of a block is the hash of; also its leaf in the log. */
export interface Header {
  readonly serverId: number
  readonly height: number
  readonly prevId: string | null
  readonly nonce: number
  readonly root: string
  /** How many entries the block holds. */
  readonly count: number
}

/** The canonical JSON of a block's header: the bytes that its id is the hash of, and the log's leaf. */
export function headerText(header: Header): string {
  const prevId = header.prevId === null ? 'null' : `"${header.prevId}"`
  return (
    `{"count":${header.count},"height":${header.height},"nonce":${header.nonce},` +
    `"prev_id":${prevId},"root":"${header.root}","serverid":${header.serverId},` +
    `"version":${CHAIN_VERSION}}`
  )
}
