// Runs inside a guest, after `processors.js`: conditions of access rules, and the program itself.

/* global CALL, IDENTITIES, take, resourceWith, processTransaction, fixTimeAndChance, getAssetRegistry, getParticipantRegistry, getTransactionRegistry, getFactory, getSerializer, emit, query, buildQuery, getCurrentParticipant, getCurrentIdentity, post, request, console */

/** Evaluates the condition for each of `resources`: true, false, or null where it throws. */
function evaluated({ condition, variables, participant, transaction, resources, resolved }) {
  take(resolved)
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

// Before the network's scripts are loaded, which may keep references to these.
fixTimeAndChance()

/** The entry of the guest. */
async function program(requestText) {
  const given = JSON.parse(requestText)
  const isCondition = 'condition' in given
  const text = isCondition ? JSON.stringify(evaluated(given)) : await processTransaction(given)
  return CALL.unresolved ? 'unresolved' : text
}
