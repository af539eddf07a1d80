/** Returns the text that this browser has stored with `key`, or null. */
export function readStored(key: string): string | null {
  try {
    return localStorage.getItem(key)
  } catch {
    return null
  }
}

/** Stores `text`, unless the browser has no storage or no room. Then the text lasts as long as the page. */
export function writeStored(key: string, text: string): void {
  try {
    localStorage.setItem(key, text)
  } catch {
    // The page works without storage.
  }
}
