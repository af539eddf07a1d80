// Runs inside the guest of the access rules, after `resources.js` and the network's own scripts.

/* global fromJson */

/** Asks each of `cases` its condition: `true`, `false`, or null where it throws. */
function judge(requestText) {
  const { cases } = JSON.parse(requestText)
  return JSON.stringify(cases.map(answer))
}

function answer({ condition, bindings }) {
  try {
    const names = Object.keys(bindings)
    const values = names.map((name) => (bindings[name] === null ? null : fromJson(bindings[name])))
    return Boolean(new Function(...names, `return (${condition})`)(...values))
  } catch {
    return null
  }
}
