import type { SourceFile } from '../language/source.ts'

/** The namespace of the system types, which every network has. */
export const SYSTEM_NAMESPACE = 'org.hyperledger.composer.system'

export const systemType = (name: string): string => `${SYSTEM_NAMESPACE}.${name}`

/** Types whose instances are the registries of a network. Registries are derived from the model and not stored. */
export const REGISTRY_TYPES: ReadonlySet<string> = new Set(
  ['AssetRegistry', 'ParticipantRegistry', 'TransactionRegistry'].map(systemType),
)

/** Types that every model file can use without an import. */
export const SYSTEM_ROOTS: readonly string[] = ['Asset', 'Participant', 'Transaction', 'Event']

/**
 * The model of the system types, with the names and fields of Hyperledger Composer 0.20, because rules, processors
 * and clients use these names. daicho adds `RemoveBusinessNetwork` and `Identity.canIssue`, the right to manage
 * identities. Composer stores this right outside of the ledger.
 */
export const SYSTEM_MODEL: SourceFile = {
  path: '(system model)',
  text: `namespace ${SYSTEM_NAMESPACE}

abstract asset Asset {}
abstract participant Participant {}
abstract transaction Transaction identified by transactionId {
  o String transactionId
  o DateTime timestamp
}
abstract event Event identified by eventId {
  o String eventId
  o DateTime timestamp
}

abstract asset Registry identified by registryId {
  o String registryId
  o String name
  o String type
  o Boolean system
}
asset AssetRegistry extends Registry {}
asset ParticipantRegistry extends Registry {}
asset TransactionRegistry extends Registry {}

asset Network identified by networkId {
  o String networkId
  o String runtimeVersion
}
participant NetworkAdmin identified by participantId {
  o String participantId
}
asset HistorianRecord identified by transactionId {
  o String transactionId
  o String transactionType
  --> Transaction transactionInvoked
  --> Participant participantInvoking optional
  --> Identity identityUsed optional
  o Event[] eventsEmitted optional
  o DateTime transactionTimestamp
}
enum IdentityState {
  o ISSUED
  o BOUND
  o ACTIVATED
  o REVOKED
}
asset Identity identified by identityId {
  o String identityId
  o String name
  o String issuer
  o String certificate
  o IdentityState state
  --> Participant participant
  o Boolean canIssue optional
}

abstract transaction RegistryTransaction {
  --> Registry targetRegistry
}
abstract transaction AssetTransaction extends RegistryTransaction {
  o Asset[] resources
}
abstract transaction ParticipantTransaction extends RegistryTransaction {
  o Participant[] resources
}
transaction AddAsset extends AssetTransaction {}
transaction UpdateAsset extends AssetTransaction {}
transaction RemoveAsset extends AssetTransaction {
  o String[] resourceIds
}
transaction AddParticipant extends ParticipantTransaction {}
transaction UpdateParticipant extends ParticipantTransaction {}
transaction RemoveParticipant extends ParticipantTransaction {
  o String[] resourceIds
}
transaction IssueIdentity {
  --> Participant participant
  o String identityName
}
transaction BindIdentity {
  --> Participant participant
  o String certificate
}
transaction ActivateCurrentIdentity {}
transaction RevokeIdentity {
  --> Identity identity
}
transaction StartBusinessNetwork {
  o String logLevel optional
  o Transaction[] bootstrapTransactions optional
}
transaction ResetBusinessNetwork {}
transaction RemoveBusinessNetwork {}
transaction SetLogLevel {
  o String newLogLevel
}
`,
}
