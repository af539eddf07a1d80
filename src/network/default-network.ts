import { type NetworkDefinition, requireDefinition } from './definition/definition.ts'

const MODEL = `/**
 * A market where traders own commodities and trade them.
 */
namespace org.acme.mynetwork

asset Commodity identified by tradingSymbol {
  o String tradingSymbol
  o String description
  o String mainExchange
  o Double quantity
  --> Trader owner
}

participant Trader identified by tradeId {
  o String tradeId
  o String firstName
  o String lastName
}

transaction Trade {
  --> Commodity commodity
  --> Trader newOwner
}

event TradeNotification {
  --> Commodity commodity
}
`

const RULES = `rule Default {
  description: "Everyone may do everything with what the model declares"
  participant: "ANY"
  operation: ALL
  resource: "org.acme.mynetwork.*"
  action: ALLOW
}

rule System {
  description: "Participants may use the system"
  participant: "org.hyperledger.composer.system.Participant"
  operation: ALL
  resource: "org.hyperledger.composer.system.**"
  action: ALLOW
}

rule Administrator {
  description: "Administrators may do everything"
  participant: "org.hyperledger.composer.system.NetworkAdmin"
  operation: ALL
  resource: "**"
  action: ALLOW
}
`

const SCRIPT = `/**
 * Transfers a commodity to a new owner and emits an event.
 * @param {org.acme.mynetwork.Trade} trade
 * @transaction
 */
async function tradeCommodity(trade) {
  trade.commodity.owner = trade.newOwner
  const commodities = await getAssetRegistry('org.acme.mynetwork.Commodity')
  await commodities.update(trade.commodity)
  const event = getFactory().newEvent('org.acme.mynetwork', 'TradeNotification')
  event.commodity = trade.commodity
  emit(event)
}
`

const PACKAGE = {
  name: 'mynetwork',
  version: '1.0.0',
  description: 'Traders and their commodities',
}

/** Returns the network that a node serves if none is configured. Source: specification, “N: business network”. */
export function defaultNetwork(): NetworkDefinition {
  return requireDefinition({
    packed: null,
    files: new Map([
      ['lib/trade.js', Buffer.from(SCRIPT)],
      ['models/org.acme.mynetwork.cto', Buffer.from(MODEL)],
      ['package.json', Buffer.from(`${JSON.stringify(PACKAGE, null, 2)}\n`)],
      ['permissions.acl', Buffer.from(RULES)],
    ]),
  })
}
