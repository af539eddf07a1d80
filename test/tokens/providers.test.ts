// Access tokens with the headers and claims that providers are known to use.
import { expect, it } from 'vitest'
import {
  AUDIENCE,
  acceptTokens,
  createSigningKey,
  type SigningKey,
  startIssuer,
} from '../support/issuer.ts'

interface Shape {
  /** End of the issuer's address. */
  readonly path: string
  readonly header: Record<string, unknown>
  readonly claims: Record<string, unknown>
  readonly options?: Parameters<typeof acceptTokens>[1]
  readonly metadata?: Record<string, unknown>
  /** The subject and the scopes, or why the token is refused. */
  readonly expected: readonly [subject: string, scope: string] | string
}

const UUID = '8c7a1f1e-0d1b-4a53-9f6e-6f1d2f5d1c11'

const SHAPES: Record<string, Shape> = {
  'Keycloak with an audience mapper and realm roles': {
    path: '/realms/acme',
    header: { typ: 'JWT' },
    claims: {
      ...{
        typ: 'Bearer',
        azp: 'app',
        sub: UUID,
        jti: `onrtac:${UUID}`,
        aud: [AUDIENCE, 'account'],
      },
      ...{ scope: 'profile email', realm_access: { roles: ['offline_access', 'keeper'] } },
      ...{ nonce: 'as older versions do', acr: '1', 'allowed-origins': ['*'] },
    },
    metadata: { id_token_signing_alg_values_supported: ['PS384', 'RS256', 'HS256', 'ES256'] },
    options: {
      rules: '[{"claim":"realm_access.roles","value":"keeper","scopes":["db:*:read"]}]',
    },
    expected: [UUID, 'profile email db:*:read'],
  },
  'Keycloak without an audience mapper': {
    path: '/realms/acme',
    header: { typ: 'JWT' },
    claims: { typ: 'Bearer', aud: 'account' },
    expected: 'its audience is another',
  },
  'Keycloak, ID token': {
    path: '/realms/acme',
    header: { typ: 'JWT' },
    claims: { typ: 'ID' },
    expected: 'it is not an access token',
  },
  'Keycloak, token for a key (DPoP)': {
    path: '/realms/acme',
    header: { typ: 'JWT' },
    claims: { typ: 'DPoP', cnf: { jkt: 'x' } },
    expected: 'it is not an access token',
  },
  'Entra ID version 2, delegated': {
    path: '/tenant/v2.0',
    header: { typ: 'JWT', x5t: 'x' },
    claims: {
      ...{ aud: UUID, oid: UUID, scp: 'db:fruit:write User.Read', tid: UUID, uti: 'u', ver: '2.0' },
      ...{ sub: 'pairwise', azp: UUID, rh: '0.A', aio: 'x' },
    },
    options: { audience: UUID, scopeClaim: 'scp', subjectClaim: 'oid' },
    expected: [UUID, 'db:fruit:write User.Read'],
  },
  'Entra ID version 1, application with roles': {
    path: '/tenant/',
    header: { typ: 'JWT', x5t: 'x' },
    claims: {
      ...{ aud: 'api://daicho', roles: ['ledger:read', 'db:*:read'], ver: '1.0', appid: UUID },
      ...{ idtyp: 'app', oid: UUID, sub: UUID, uti: 'u' },
    },
    options: { audience: 'api://daicho', scopeClaim: 'roles' },
    expected: [UUID, 'ledger:read db:*:read'],
  },
  'Auth0 with permissions': {
    path: '/',
    header: { typ: 'JWT' },
    claims: {
      ...{ aud: [AUDIENCE, 'https://acme.example/userinfo'], sub: 'auth0|123', azp: 'x' },
      ...{ scope: 'openid profile', permissions: ['db:fruit:read'], gty: 'password' },
    },
    options: { scopeClaim: 'permissions' },
    expected: ['auth0|123', 'db:fruit:read'],
  },
  'Auth0, program': {
    path: '/',
    header: { typ: 'JWT' },
    claims: { sub: 'abc@clients', gty: 'client-credentials', scope: 'ledger:read' },
    expected: ['abc@clients', 'ledger:read'],
  },
  'Auth0, profile of RFC 9068': {
    path: '/',
    header: { typ: 'at+jwt' },
    claims: { client_id: 'x', jti: 'y', sub: 'auth0|1', scope: 'ledger:read' },
    expected: ['auth0|1', 'ledger:read'],
  },
  'Okta, custom authorization server': {
    path: '/oauth2/default',
    header: { typ: undefined },
    claims: {
      ...{ ver: 1, jti: 'AT.x', aud: 'api://default', cid: '0oa', uid: '00u', auth_time: 1 },
      ...{ scp: ['ledger:read', 'openid'], sub: 'ann@acme.example' },
    },
    options: { audience: 'api://default', scopeClaim: 'scp' },
    expected: ['ann@acme.example', 'ledger:read openid'],
  },
  'Cognito, access token': {
    path: '/eu-west-1_x',
    header: { typ: undefined },
    claims: {
      ...{ aud: undefined, client_id: 'app', token_use: 'access', sub: UUID, username: 'ann' },
      ...{ 'cognito:groups': ['auditors'], scope: 'aws.cognito.signin.user.admin' },
    },
    options: {
      audience: 'app',
      rules: '[{"claim":"cognito:groups","value":"auditors","scopes":["ledger:read"]}]',
    },
    expected: [UUID, 'aws.cognito.signin.user.admin ledger:read'],
  },
  'Cognito, access token of another client': {
    path: '/eu-west-1_x',
    header: { typ: undefined },
    claims: { aud: undefined, client_id: 'other', token_use: 'access' },
    options: { audience: 'app' },
    expected: 'its audience is another',
  },
  'Cognito, ID token': {
    path: '/eu-west-1_x',
    header: { typ: undefined },
    claims: { aud: 'app', token_use: 'id' },
    options: { audience: 'app' },
    expected: 'it is not an access token',
  },
  'Google, ID token of a browser sign-in': {
    path: '',
    header: { typ: 'JWT' },
    claims: { azp: 'x', at_hash: 'h', email_verified: true },
    expected: 'it is not an access token',
  },
  'GitHub Actions': {
    path: '',
    header: { typ: 'JWT', x5t: 'x' },
    claims: {
      ...{ sub: 'repo:acme/fruit:ref:refs/heads/main', repository: 'acme/fruit', jti: UUID },
      ...{ ref: 'refs/heads/main', job_workflow_ref: 'acme/fruit/.github/workflows/a.yml@x' },
    },
    options: {
      rules: '[{"claim":"repository","value":"acme/fruit","scopes":["db:fruit:write"]}]',
    },
    expected: ['repo:acme/fruit:ref:refs/heads/main', 'db:fruit:write'],
  },
  'GitLab CI': {
    path: '',
    header: { typ: 'JWT' },
    claims: {
      ...{ sub: 'project_path:acme/fruit:ref_type:branch:ref:main', project_path: 'acme/fruit' },
      ...{ namespace_id: '7', pipeline_source: 'push', user_login: 'ann' },
    },
    options: {
      rules: '[{"claim":"project_path","value":"acme/fruit","scopes":["db:fruit:write"]}]',
    },
    expected: ['project_path:acme/fruit:ref_type:branch:ref:main', 'db:fruit:write'],
  },
}

let key: SigningKey | null = null

it.for(Object.entries(SHAPES))('a token of %s', async ([, shape]) => {
  const { path, header, claims, options = {}, expected, metadata = {} } = shape
  key ??= await createSigningKey('one')
  const issuer = await startIssuer(path)
  issuer.keys = [key.publicJwk]
  issuer.metadata = metadata
  const { tokens } = await acceptTokens([issuer], options)
  const token = await issuer.sign(key, claims, header)
  const found = await tokens.verify(token, 'daicho:api').then(
    ({ subject, claims: { scope } }) => [subject, scope],
    ({ cause }: { cause?: Error }) => cause?.message,
  )
  expect(found).toEqual(expected)
})
