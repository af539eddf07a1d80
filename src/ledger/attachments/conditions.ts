/**
 * Whether a header of entity tags (`If-None-Match`, `If-Match`) names `tag`, which is written with its
 * quotes; `*` names any. `weak` lets `W/` pass, as for If-None-Match. Source: RFC 9110 section 13.1.
 */
export function namesTag(header: string, tag: string, weak: boolean): boolean {
  if (header.trim() === '*') return true
  return header.split(',').some((text) => {
    const one = text.trim()
    return one === tag || (weak && one === `W/${tag}`)
  })
}
