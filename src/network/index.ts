export { mergePatch, positionText } from '../ledger/core.ts'
export { defaultNetwork } from './default-network.ts'
export { writeArchive } from './definition/archive.ts'
export {
  checkNetwork,
  definitionIn,
  definitionOf,
  type NetworkDefinition,
} from './definition/definition.ts'
export { readNetwork } from './definition/directory.ts'
export {
  type NetworkSummary,
  Networks,
  type NetworksDeps,
} from './deployment/networks.ts'
export { type FieldDefault, parseFieldDefault } from './deployment/upgrade.ts'
export type { NetworkVerification } from './deployment/verification.ts'
export { NetworkError, type NetworkErrorCode } from './errors.ts'
export { type Finding, findingText } from './language/source.ts'
export { isA, type Model, type Property, type TypeDeclaration } from './model/model.ts'
export { type Problem, pointer } from './model/problem.ts'
export { SYSTEM_NAMESPACE, systemType } from './model/system.ts'
export { parameterTypeText } from './queries/parameter.ts'
export type { BusinessNetwork, Made, RevisionTest } from './resources/business-network.ts'
export { ADMIN, type Caller } from './resources/caller.ts'
export type { EmittedEvent, EmittedEvents, RecordedEvents } from './resources/event-feed.ts'
export {
  bindIdentity,
  callerWith,
  type IdentityRequest,
  isRevoked,
  issueIdentity,
  revokeIdentity,
} from './resources/identities.ts'
export type { Listing } from './resources/listing.ts'
export { type Returned, returnedBy } from './resources/returns.ts'
