import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { rawPublicKey, serverIdOf } from '../chain/index.ts'
import { writeDurably } from './durable-file.ts'
import { LedgerError } from './errors.ts'

/** The key that identifies a node: its holder can continue the node's chain. */
export interface NodeKey {
  /** Ed25519. */
  readonly privateKey: KeyObject
  /** Raw Ed25519, 32 bytes. */
  readonly publicKey: Uint8Array
  readonly serverId: number
}

const KEY_FILE = 'node.key'

/** Generates a key that is not stored. */
export function temporaryNodeKey(): NodeKey {
  return nodeKeyOf(generateKeyPairSync('ed25519').privateKey)
}

/**
 * The key in `folder` (PKCS #8 PEM, mode 0600). Generates one if there is none and `mayCreate` is true.
 *
 * A crash leaves a whole key or none: the file is written under another name, synced and renamed, and a
 * store is only created after it.
 * Errors: FOLDER_KEY_MISSING if there is none and none may be created, or if it is not a key.
 */
export function nodeKeyIn(folder: string, mayCreate: boolean): NodeKey {
  const existing = existingNodeKey(folder)
  if (existing !== null) return existing
  if (!mayCreate) {
    throw new LedgerError(
      'FOLDER_KEY_MISSING',
      `${folder} holds a store but not its key ${KEY_FILE}: put the key back`,
    )
  }
  const key = temporaryNodeKey()
  const pem = key.privateKey.export({ format: 'pem', type: 'pkcs8' })
  writeDurably(join(folder, KEY_FILE), pem)
  return key
}

/** The key in `folder`, or null. Errors: FOLDER_KEY_MISSING if it is not a key, or cannot be read. */
export function existingNodeKey(folder: string): NodeKey | null {
  const path = join(folder, KEY_FILE)
  let pem: Buffer
  try {
    pem = readFileSync(path)
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null
    // A key that cannot be read exists: it must not be replaced.
    const reason = error instanceof Error ? error.message : String(error)
    throw new LedgerError('FOLDER_KEY_MISSING', `${path} cannot be read: ${reason}`, {
      cause: error,
    })
  }
  try {
    return nodeKeyOf(createPrivateKey(pem))
  } catch (error) {
    throw new LedgerError('FOLDER_KEY_MISSING', `${path} does not hold an Ed25519 key`, {
      cause: error,
    })
  }
}

function nodeKeyOf(privateKey: KeyObject): NodeKey {
  if (privateKey.asymmetricKeyType !== 'ed25519') throw new TypeError('not an Ed25519 key')
  const publicKey = createPublicKey(privateKey)
  return { privateKey, publicKey: rawPublicKey(publicKey), serverId: serverIdOf(publicKey) }
}
