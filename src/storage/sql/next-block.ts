import type { Block, Head } from '../../chain/index.ts'
import { StoreError } from '../port/errors.ts'

/** Requires that `block` follows `head` in the chain of `serverId`. Errors: HEAD_MOVED. */
export function requireNext(block: Block, serverId: number, head: Head | null): void {
  const height = head === null ? 0 : head.height + 1
  const isNext = block.height === height && block.prevId === (head?.id ?? null)
  if (block.serverId === serverId && isNext) return
  throw new StoreError('HEAD_MOVED', `block ${block.height} does not follow the head`)
}
