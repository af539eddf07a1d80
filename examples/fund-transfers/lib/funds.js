const FUNDS = 'org.example.funds'
const LARGE = 10_000

/** Receipt number of this transaction. A replay computes the same number, as the transaction seeds `Math.random`. */
let number = ''

/**
 * Sets `number`. All processors of a type run in the order of the file.
 * @param {org.example.funds.Transfer} transfer
 * @transaction
 */
async function numberTransfer(_transfer) {
  setNumber()
}

/**
 * Sets `number`.
 * @param {org.example.funds.CollectOrders} collect
 * @transaction
 */
async function numberOrders(_collect) {
  setNumber()
}

function setNumber() {
  const digits = Math.floor(Math.random() * 1e6)
  number = `${new Date().getFullYear()}-${String(digits).padStart(6, '0')}`
}

/**
 * @param {org.example.funds.Transfer} transfer
 * @transaction
 */
async function transfer({ from, to, amount, reference }) {
  await move(from, to, amount, reference)
}

/**
 * Collects all standing orders of one day, the largest first, and skips orders that cannot be paid.
 * @param {org.example.funds.CollectOrders} collect
 * @transaction
 */
async function collectOrders({ day, reference }) {
  for (const order of await query('ordersOfDay', { day })) {
    if (order.from.balance < order.amount) console.warn(`${order.orderId} cannot be paid`)
    else await move(order.from, order.to, order.amount, reference)
  }
}

/**
 * Returns the sum of the balances of a customer's accounts.
 * @param {org.example.funds.Worth} worth
 * @transaction
 */
async function worth({ customer }) {
  const accounts = [
    ...(await query('currentsOf', { owner: customer })),
    ...(await query(buildQuery('SELECT org.example.funds.Savings WHERE (_$owner == owner)'), {
      owner: customer,
    })),
  ]
  return accounts.reduce((sum, { balance }) => sum + balance, 0)
}

async function move(from, to, amount, reference) {
  if (from === to) throw new Error('a transfer needs two accounts')
  if (from.balance < amount) throw new Error(`the balance of ${from.accountId} is too small`)
  note(from, -amount, to, reference)
  note(to, amount, from, reference)
  for (const account of [from, to]) {
    const registry = await getAssetRegistry(account.getFullyQualifiedType())
    await registry.update(account)
  }
  const event = getFactory().newEvent(FUNDS, amount >= LARGE ? 'LargeTransfer' : 'Moved')
  emit(Object.assign(event, { amount, number, from, to }))
}

function note(account, amount, other, reference) {
  const movement = getFactory().newConcept(FUNDS, 'Movement')
  Object.assign(movement, { at: new Date(), amount, with: other.accountId, reference })
  account.movements = [...(account.movements ?? []), movement]
  account.balance += amount
}
