// Runs inside a guest, after `processors.js`: conditions of access rules, and the program itself.

/* global MODEL, IDENTITIES, resourceWith, processTransaction, fixTimeAndChance, getAssetRegistry, getParticipantRegistry, getTransactionRegistry, getFactory, getSerializer, emit, query, buildQuery, getCurrentParticipant, getCurrentIdentity, post, request, console */

/** Asks each of `resources` the condition: true, false, or null where it throws. */
function judge({ condition, variables, participant, transaction, resources }) {
  const names = ['participant', 'resource', 'transaction'].filter((name) => variables[name])
  let test
  try {
    test = new Function(...names.map((name) => variables[name]), `return (${condition})`)
  } catch {
    return resources.map(() => null)
  }
  return resources.map((resource) => {
    IDENTITIES.clear()
    const values = { participant, resource, transaction }
    try {
      return Boolean(test(...names.map((name) => values[name] && resourceWith(values[name]))))
    } catch {
      return null
    }
  })
}

// All that a network's scripts see. `query` and the like are plain globals, as in a browser.
for (const [name, value] of Object.entries({
  ...{
    getAssetRegistry,
    getParticipantRegistry,
    getTransactionRegistry,
    getFactory,
    getSerializer,
  },
  ...{ emit, query, buildQuery, getCurrentParticipant, getCurrentIdentity, post, request, console },
})) {
  Object.defineProperty(globalThis, name, { value, writable: true, configurable: true })
}

// Before the network's scripts are loaded, which may keep what they find.
fixTimeAndChance()

/** What the sandbox calls; `knownText` are resources that need not be asked for. */
function program(requestText, knownText) {
  const given = JSON.parse(requestText)
  if ('condition' in given) return JSON.stringify(judge(given))
  return processTransaction(given, JSON.parse(knownText))
}
