export { parsePosition, positionText } from '../ledger/core.ts'
export { defaultNetwork } from './default-network.ts'
export {
  checkNetwork,
  type NetworkDefinition,
  readDefinition,
  requireDefinition,
} from './definition/definition.ts'
export { readNetwork, writeArchive } from './definition/files.ts'
export type { BusinessNetwork, Made } from './deployment/business-network.ts'
export type { EmittedEvent, EmittedEvents, RecordedEvents } from './deployment/event-feed.ts'
export { authenticate, authenticateAccount, issueIdentity } from './deployment/identities.ts'
export { checkScripts } from './deployment/network-thread.ts'
export {
  type NetworkSummary,
  Networks,
  type NetworksDeps,
} from './deployment/networks.ts'
export { type FieldDefault, parseFieldDefault } from './deployment/upgrade.ts'
export { NetworkError, type NetworkErrorCode } from './errors.ts'
export { formatFinding, type SourceFinding } from './language/source.ts'
export { isA, type Model, type Property, type TypeDeclaration } from './model/model.ts'
export { SYSTEM_NAMESPACE, systemType } from './model/system.ts'
export { type Problem, pointer } from './model/validation.ts'
export { formatParameterType } from './queries/predicate.ts'
export type { Listing } from './resources/listing.ts'
export { ADMIN, type Caller } from './resources/transaction.ts'
export type {
  ExpectedRevisions,
  IdentityRequest,
  NetworkChange,
  NetworkVerification,
} from './transactions/messages.ts'
export { declaredReturn, type Returned } from './transactions/results.ts'
