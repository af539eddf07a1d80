/** Variant of a BMP file. */
export interface BmpKind {
  readonly bits: 1 | 4 | 8 | 16 | 24 | 32
  readonly topDown?: boolean
  /** Whether the header is a BITMAPCOREHEADER, as in OS/2 files. */
  readonly core?: boolean
  /** Masks for red, green and blue with 16 and 32 bits. If absent, the default masks apply. */
  readonly masks?: readonly [number, number, number]
  /** Mask for alpha, in a header of version 3. */
  readonly alphaMask?: number
}

/**
 * Returns a BMP file. With up to 8 bits, `pixels` contains rows of indexes into `colors` (0xRRGGBB),
 * otherwise rows of colours.
 */
export function bmpOf(
  kind: BmpKind,
  pixels: readonly (readonly number[])[],
  colors: readonly number[] = [],
): Buffer {
  const [height, width] = [pixels.length, pixels[0]?.length ?? 0]
  const { bits, core = false, masks, alphaMask } = kind
  const info = Buffer.alloc(core ? 12 : 40)
  info.writeUInt32LE(info.length, 0)
  if (core) {
    info.writeUInt16LE(width, 4)
    info.writeUInt16LE(height, 6)
    info.writeUInt16LE(1, 8)
    info.writeUInt16LE(bits, 10)
  } else {
    info.writeInt32LE(width, 4)
    info.writeInt32LE(kind.topDown ? -height : height, 8)
    info.writeUInt16LE(1, 12)
    info.writeUInt16LE(bits, 14)
    info.writeUInt32LE(masks === undefined ? 0 : 3, 16)
    if (alphaMask !== undefined) info.writeUInt32LE(56, 0)
    info.writeUInt32LE(colors.length, 32)
  }
  const allMasks = [...(masks ?? []), ...(alphaMask === undefined ? [] : [alphaMask])]
  const maskBytes = Buffer.alloc(allMasks.length * 4)
  for (const [at, mask] of allMasks.entries()) maskBytes.writeUInt32LE(mask, at * 4)
  const table = Buffer.concat(
    colors.map((color) =>
      Buffer.from([color & 255, (color >>> 8) & 255, color >>> 16, 0].slice(0, core ? 3 : 4)),
    ),
  )
  const rows = (kind.topDown ? pixels : [...pixels].reverse()).map((row) => rowOf(row, bits))
  const head = Buffer.alloc(14)
  head.write('BM', 'latin1')
  const offset = head.length + info.length + maskBytes.length + table.length
  head.writeUInt32LE(offset + rows.reduce((all, row) => all + row.length, 0), 2)
  head.writeUInt32LE(offset, 10)
  return Buffer.concat([head, info, maskBytes, table, ...rows])
}

function rowOf(row: readonly number[], bits: number): Buffer {
  const bytes = Buffer.alloc(Math.ceil((row.length * bits) / 32) * 4)
  for (const [x, value] of row.entries()) {
    if (bits < 8) {
      const at = (x * bits) >> 3
      bytes[at] = (bytes[at] ?? 0) | (value << (8 - bits - ((x * bits) & 7)))
    } else {
      bytes.writeUIntLE(value, (x * bits) >> 3, bits / 8)
    }
  }
  return bytes
}
