import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { rawPublicKey, serverIdOf } from '../chain/index.ts'
import { writeDurably } from './durable-file.ts'
import { LedgerError } from './errors.ts'

/** The key that makes a node itself: who has it can continue the node's chain. */
export interface NodeKey {
  /** Ed25519. */
  readonly privateKey: KeyObject
  /** Raw Ed25519, 32 bytes. */
  readonly publicKey: Uint8Array
  readonly serverId: number
}

const KEY_FILE = 'node.key'

/** A key that lives as long as the process. */
export function temporaryNodeKey(): NodeKey {
  return nodeKeyOf(generateKeyPairSync('ed25519').privateKey)
}

/**
 * The key in `folder` (PKCS #8 PEM, mode 0600), made when there is none and `mayCreate` is true.
 *
 * A crash leaves no half key: it is written beside, brought to the disk and then renamed; a store
 * is only ever made after it.
 * Errors: FOLDER_KEY_MISSING when there is none and none may be made, or when it is not a key.
 */
export function nodeKeyIn(folder: string, mayCreate: boolean): NodeKey {
  const path = join(folder, KEY_FILE)
  const existing = existingNodeKey(folder)
  if (existing !== null) return existing
  if (!mayCreate) {
    throw new LedgerError(
      'FOLDER_KEY_MISSING',
      `${folder} holds a store but not its key ${KEY_FILE}: put the key back`,
    )
  }
  const key = temporaryNodeKey()
  writeDurably(path, key.privateKey.export({ format: 'pem', type: 'pkcs8' }))
  return key
}

/** Null when there is none. One that cannot be read is there: nothing may be made in its place. */
function keyFileAt(path: string): Buffer | null {
  try {
    return readFileSync(path)
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null
    const reason = error instanceof Error ? error.message : String(error)
    throw new LedgerError('FOLDER_KEY_MISSING', `${path} cannot be read: ${reason}`, {
      cause: error,
    })
  }
}

/**
 * The key in `folder`, or null when there is none. Errors: FOLDER_KEY_MISSING when it is no key, or
 * cannot be read.
 */
export function existingNodeKey(folder: string): NodeKey | null {
  const path = join(folder, KEY_FILE)
  const pem = keyFileAt(path)
  if (pem === null) return null
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
