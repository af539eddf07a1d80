// Makes nodes the peers of each other: node introduce.mjs <address> <address>...
// Requests the verifier key of each node, and adds each node to the others as a peer. An attacker in the network
// between the nodes could replace the keys, so compare the keys through another channel if the network is not yours. A
// second run changes nothing.
const TRIES = 60
const REST_MS = 1_000

const urls = process.argv.slice(2)

/** Returns the text of the reply. Retries until the node listens. */
async function textAt(url, init) {
  for (let left = TRIES; ; left -= 1) {
    try {
      const reply = await fetch(url, init)
      const text = await reply.text()
      if (reply.ok) return text
      throw new Error(`${url} answered ${reply.status} ${text}`)
    } catch (error) {
      if (!(error instanceof TypeError) || left === 0) throw error
      await new Promise((resolve) => setTimeout(resolve, REST_MS))
    }
  }
}

async function verifierKey(url) {
  const { serverid } = JSON.parse(await textAt(`${url}/api/serverid`))
  return (await textAt(`${url}/api/ledgers/${serverid}/vkey`)).trim()
}

const vkeys = await Promise.all(urls.map(verifierKey))
for (const at of urls) {
  for (const [n, url] of urls.entries()) {
    if (url === at) continue
    await textAt(`${at}/api/config/peers`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ vkey: vkeys[n], url }),
    })
  }
  console.log(`${at} mirrors ${urls.length - 1} others`)
}
