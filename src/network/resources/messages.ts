import { NetworkError } from '../errors.ts'
import type { TypeDeclaration } from '../model/model.ts'

// The texts are Composer's, which clients match.

/** The id of a registry, as messages name it. */
export function collectionOf({ kind, qualifiedName }: TypeDeclaration): string {
  return `${kind.charAt(0).toUpperCase()}${kind.slice(1)}:${qualifiedName}`
}

/** Characters of an id that a message shows: no resource has a longer one. */
const ID_SHOWN = 256

/** A refusal because nothing is there, or nothing that the caller may know of. */
export function missing(type: TypeDeclaration, id: string): NetworkError {
  const message = `Object with ID '${id.slice(0, ID_SHOWN)}' in collection with ID '${collectionOf(type)}' does not exist`
  return new NetworkError('RESOURCE_NOT_FOUND', message)
}

/** A refusal because something is there already. */
export function taken(type: TypeDeclaration, id: string): NetworkError {
  return new NetworkError(
    'RESOURCE_EXISTS',
    `Failed to add object with ID '${id}' in collection with ID '${collectionOf(type)}' ` +
      'as the object already exists',
  )
}

/** A refusal because the network was removed. */
export function removed(name: string): NetworkError {
  return new NetworkError('NETWORK_REMOVED', `the network ${name} was removed`)
}
