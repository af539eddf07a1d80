// Second implementation of chain format version 1, from its description in `docs/decisions/0001-chain-format.md`.
// Shares no code with the product. Slow and simple on purpose.
//
//   node test/vectors/independent-chain.mjs           prints the examples for the cases in chain-v1-cases.json
//   node test/vectors/independent-chain.mjs --check   compares these examples with chain-v1.json
import { createHash, createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'

const read = (name) => JSON.parse(readFileSync(new URL(name, import.meta.url), 'utf8'))
const sha256 = (...parts) => createHash('sha256').update(Buffer.concat(parts)).digest()

/**
 * Returns the canonical form of RFC 8785: sorts the members of every object, and prints the value with
 * JSON.stringify.
 */
function jcs(value) {
  if (Array.isArray(value)) return `[${value.map(jcs).join(',')}]`
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  const names = Object.keys(value)
  names.sort((a, b) => {
    for (let i = 0; i < Math.min(a.length, b.length); i++) {
      if (a.charCodeAt(i) !== b.charCodeAt(i)) return a.charCodeAt(i) - b.charCodeAt(i)
    }
    return a.length - b.length
  })
  return `{${names.map((name) => `${JSON.stringify(name)}:${jcs(value[name])}`).join(',')}}`
}

/** Returns the tree hash exactly as RFC 6962, section 2.1 defines it. */
function mth(leaves) {
  if (leaves.length === 1) return sha256(Buffer.from([0]), leaves[0])
  let k = 1
  while (k * 2 < leaves.length) k *= 2
  return sha256(Buffer.from([1]), mth(leaves.slice(0, k)), mth(leaves.slice(k)))
}

function block({ serverid, previous, entries, timestamps, blinds, nonce }, made) {
  const before = previous === null ? null : made[previous]
  const commitments = entries.map((entry, i) =>
    createHmac('sha256', Buffer.from(blinds[i], 'hex'))
      .update(Buffer.from(jcs({ entry, timestamp: timestamps[i] }), 'utf8'))
      .digest(),
  )
  const header = {
    count: entries.length,
    height: before === null ? 0 : before.height + 1,
    nonce,
    prev_id: before === null ? null : before.id,
    root: mth(commitments).toString('hex'),
    serverid,
    version: 1,
  }
  const text = jcs(header)
  const id = createHash('sha512').update(text, 'utf8').digest('hex')
  const hex = commitments.map((commitment) => commitment.toString('hex'))
  return { ...header, header: text, id, commitments: hex, texts: entries.map(jcs) }
}

const made = {}
for (const input of read('./chain-v1-cases.json')) made[input.name] = block(input, made)
const printed = `${JSON.stringify(made, null, 2)}\n`
if (process.argv.includes('--check')) {
  const same = printed === readFileSync(new URL('./chain-v1.json', import.meta.url), 'utf8')
  console.log(same ? 'same' : 'DIFFERENT')
  process.exit(same ? 0 : 1)
}
process.stdout.write(printed)
