import { logOrigin } from '../../chain/index.ts'
import type { Folder, StoreReader } from '../../storage/index.ts'
import type { NodeKey } from '../node-key.ts'
import type { Platform } from '../platform.ts'
import { LedgerLog } from './service.ts'
import { signedHeadIn } from './signed-head.ts'
import { beginSigning, expectSignedHead } from './signer.ts'
import { LogSigning } from './signing.ts'

/**
 * The log of the node in `folder`. Errors: STORE_ROLLED_BACK, LOG_CONTRADICTED, LOG_HEAD_DAMAGED.
 */
export async function openLog(
  { path, lasting }: Folder,
  store: StoreReader,
  { publicKey, privateKey, serverId }: NodeKey,
  platform: Platform,
): Promise<{ log: LedgerLog; signing: LogSigning }> {
  const verifier = { name: logOrigin(serverId), publicKey }
  if (lasting) {
    const kept = signedHeadIn(path)
    await expectSignedHead(store, kept)
    beginSigning(kept, verifier.name)
  }
  const signing = new LogSigning({ folder: path, lasting, verifier, privateKey }, platform)
  return { log: new LedgerLog(store, signing, verifier), signing }
}
