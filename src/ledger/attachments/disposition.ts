/**
 * `Content-Disposition` for a file called `name`: to be saved under it, never shown in place.
 * Source: RFC 6266 section 4; RFC 8187 section 3.2 for names that are not plain ASCII, with a
 * plain one before it for programs that do not know that form.
 */
export function dispositionOf(name: string): string {
  const plain = name.replace(/[^\x20-\x7e]|["\\%]/gu, '_')
  const first = `attachment; filename="${plain}"`
  if (plain === name) return first
  const encoded = encodeURIComponent(name).replace(
    /[*'()]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `${first}; filename*=UTF-8''${encoded}`
}
