import type { JsonObject } from '../../base/json.ts'
import type { Change } from '../../ledger/index.ts'
import { type NetworkDefinition, readDefinition } from '../definition/definition.ts'
import { NetworkError } from '../errors.ts'
import { systemType } from '../model/system.ts'
import { parseStored, toResourceItem } from './database.ts'
import { ADMIN } from './transaction.ts'

// A network is recorded in its own database, including its archive, so that the ledger contains the whole network.
// The network's item contains the resource `Network#<name>`, `version`, `sha256`, and `archive` or, after the removal,
// `removed`.

/** Maximum size of an archive in bytes. Encoded in Base64, the archive must fit into an item. */
const ARCHIVE_BYTES_MAX = 7 * 1024 * 1024

/** Returns the item that records `definition`. Errors: NETWORK_UNREADABLE if its archive is too large. */
export function networkItem(definition: NetworkDefinition, runtimeVersion: string): JsonObject {
  const { archive } = definition
  if (archive.length > ARCHIVE_BYTES_MAX) {
    const message = `the archive of a deployed network can be at most ${ARCHIVE_BYTES_MAX} bytes`
    throw new NetworkError('NETWORK_UNREADABLE', message)
  }
  return { ...itemWithoutArchive(definition, runtimeVersion), archive: archive.toString('base64') }
}

/** Returns the item of a removed network: the previous item without the archive, which remains in the chain. */
export function tombstone(definition: NetworkDefinition, runtimeVersion: string): JsonObject {
  return { ...itemWithoutArchive(definition, runtimeVersion), removed: true }
}

function itemWithoutArchive(definition: NetworkDefinition, runtimeVersion: string): JsonObject {
  const { name, version, sha256 } = definition
  const target = { type: systemType('Network'), id: name }
  const resource = { $class: target.type, networkId: name, runtimeVersion }
  return { ...toResourceItem(target, resource), version, sha256 }
}

/** Whether the item with this text belongs to a removed network; see `tombstone`. */
export function isTombstone(text: string): boolean {
  return parseStored(text).removed === true
}

/** Returns the network `name`, which the item with this text records. Errors: NETWORK_UNREADABLE, NETWORK_INVALID. */
export function parseNetworkItem(text: string, name: string): NetworkDefinition {
  const item = parseStored(text)
  if (typeof item.archive !== 'string') {
    throw new NetworkError(
      'NETWORK_UNREADABLE',
      `database ${name} contains no archive of a network`,
    )
  }
  const definition = readDefinition(Buffer.from(item.archive, 'base64'))
  if (definition.sha256 === item.sha256 && definition.name === name) return definition
  const message = `the archive in database ${name} differs from the recorded archive`
  throw new NetworkError('NETWORK_UNREADABLE', message)
}

/** Returns the changes that record a new network, except the transaction that starts the network. */
export function deploymentChanges(definition: NetworkDefinition, runtimeVersion: string): Change[] {
  const db = definition.name
  const { participant } = ADMIN
  const admin = { $class: participant.type, participantId: participant.id }
  return [
    { method: 'create_db', db },
    { method: 'create_item', db, item: networkItem(definition, runtimeVersion) },
    { method: 'create_item', db, item: toResourceItem(participant, admin) },
  ]
}
