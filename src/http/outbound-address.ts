import { BlockList, isIP } from 'node:net'

/**
 * Where an address leads: `public` to the world, `private` into the operator's own networks,
 * `never` to places that no request of ours has any business with: link-local addresses (cloud
 * metadata services live there), multicast, "this network".
 */
export type AddressKind = 'public' | 'private' | 'never'

const never = new BlockList()
for (const [net, bits] of [
  ['0.0.0.0', 8],
  ['169.254.0.0', 16],
  ['192.0.0.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
] as const) {
  never.addSubnet(net, bits, 'ipv4')
}
for (const [net, bits] of [
  ['::', 128],
  ['fe80::', 10],
  ['fec0::', 10],
  ['ff00::', 8],
  ['100::', 64],
  // Forms that carry an IPv4 address inside: NAT64, its local form, 6to4, Teredo.
  ['64:ff9b::', 96],
  ['64:ff9b:1::', 48],
  ['2002::', 16],
  ['2001::', 32],
] as const) {
  never.addSubnet(net, bits, 'ipv6')
}
never.addAddress('fd00:ec2::254', 'ipv6')

const ours = new BlockList()
for (const [net, bits] of [
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['172.16.0.0', 12],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
] as const) {
  ours.addSubnet(net, bits, 'ipv4')
}
ours.addAddress('::1', 'ipv6')
ours.addSubnet('fc00::', 7, 'ipv6')

/**
 * The kind of the IP literal `address`; anything that is not one is `never`. An IPv4 address mapped
 * into IPv6 is judged as the IPv4 address it is.
 *
 * Source: IANA special-purpose address registries (RFC 6890).
 */
export function addressKind(address: string): AddressKind {
  const version = isIP(address)
  if (version === 0) return 'never'
  const family = version === 4 ? 'ipv4' : 'ipv6'
  if (never.check(address, family)) return 'never'
  return ours.check(address, family) ? 'private' : 'public'
}
