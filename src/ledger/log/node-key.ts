import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { errorCode, errorMessage } from '../../base/errors.ts'
import { rawPublicKey, toServerId } from '../../chain/index.ts'
import { writeDurably } from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'

/** The key that identifies a node. Anyone who has the key can add blocks to the node's chain. */
export interface NodeKey {
  /** Ed25519. */
  readonly privateKey: KeyObject
  /** Raw Ed25519 public key, 32 bytes. */
  readonly publicKey: Uint8Array
  readonly serverId: number
}

const KEY_FILE = 'node.key'

/** Generates a key that is not written to disk. */
export function temporaryNodeKey(): NodeKey {
  return toNodeKey(generateKeyPairSync('ed25519').privateKey)
}

/**
 * Returns the key in `folder` (PKCS #8 PEM, mode 0600). Generates a key if there is none and `mayCreate` is true.
 *
 * A crash leaves a complete key or none, because the file is synced under another name and then renamed. Must be called
 * before the store is created, because a store without its key is an error.
 * Errors: FOLDER_KEY_MISSING if the key is missing and `mayCreate` is false, or if it is malformed or unreadable.
 */
export function openNodeKey(folder: string, mayCreate: boolean): NodeKey {
  const existing = findNodeKey(folder)
  if (existing !== null) return existing
  if (!mayCreate) {
    throw new LedgerError(
      'FOLDER_KEY_MISSING',
      `${folder} contains a store but not its key ${KEY_FILE}: put the key back`,
    )
  }
  const key = temporaryNodeKey()
  const pem = key.privateKey.export({ format: 'pem', type: 'pkcs8' })
  writeDurably(join(folder, KEY_FILE), pem)
  return key
}

/** Returns the key in `folder`, or null. Errors: FOLDER_KEY_MISSING if the file is malformed or unreadable. */
export function findNodeKey(folder: string): NodeKey | null {
  const path = join(folder, KEY_FILE)
  let pem: Buffer
  try {
    pem = readFileSync(path)
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return null
    // The key exists but cannot be read, so it must not be replaced.
    const reason = errorMessage(error)
    throw new LedgerError('FOLDER_KEY_MISSING', `${path} cannot be read: ${reason}`, {
      cause: error,
    })
  }
  try {
    return toNodeKey(createPrivateKey(pem))
  } catch (error) {
    throw new LedgerError(
      'FOLDER_KEY_MISSING',
      `${path} does not contain an Ed25519 key: put the key back`,
      {
        cause: error,
      },
    )
  }
}

function toNodeKey(privateKey: KeyObject): NodeKey {
  if (privateKey.asymmetricKeyType !== 'ed25519') throw new TypeError('not an Ed25519 key')
  const publicKey = createPublicKey(privateKey)
  return { privateKey, publicKey: rawPublicKey(publicKey), serverId: toServerId(publicKey) }
}
