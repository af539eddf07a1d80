/** The location of a store: a data folder, or the URL of a PostgreSQL database. */
export type StoreLocation = string

const DATABASE_URL = /^postgres(?:ql)?:\/\//

/** Whether `location` is the URL of a database; anything else is a folder. */
export function isDatabaseUrl(location: StoreLocation): boolean {
  return DATABASE_URL.test(location)
}

/** Returns `location` for messages, without its password and parameters, which may contain a password. */
export function displayName(location: StoreLocation): string {
  if (!isDatabaseUrl(location)) return location
  // Greedy up to the last @, because a password that is not percent-encoded may contain any character.
  return location.replace(/^(\w+:\/\/[^:@/?#]*):.*@/s, '$1@').replace(/[?#].*$/s, '')
}
