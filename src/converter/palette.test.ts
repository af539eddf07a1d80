import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { IS_THOROUGH } from '../../test/support/rounds.ts'
import { COLORS_MAX, createPalette, repaint } from './palette.ts'

/** Returns `count` different colours, distributed over the RGB cube. */
function spread(count: number, seed: number): Uint8Array {
  const rgb = new Uint8Array(count * 3)
  for (let at = 0; at < count; at += 1) {
    const color = Math.imul(at + seed, 0x9e3779b1) & 0xffffff
    rgb.set([color >>> 16, (color >>> 8) & 255, color & 255], at * 3)
  }
  return rgb
}

function farthest(rgb: Uint8Array, painted: Uint8Array): number {
  let most = 0
  for (let at = 0; at < rgb.length; at += 1) {
    most = Math.max(most, Math.abs((rgb[at] ?? 0) - (painted[at] ?? 0)))
  }
  return most
}

describe('a palette', () => {
  it('a palette has exactly the colours of the image if these are at most COLORS_MAX colours', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 0xffffff }), { minLength: 1 }), (colors) => {
        const rgb = Uint8Array.from(colors.flatMap((c) => [c >>> 16, (c >>> 8) & 255, c & 255]))
        const palette = createPalette(rgb, COLORS_MAX)
        const painted = rgb.slice()
        repaint(painted, palette)
        expect(painted).toEqual(rgb)
        expect([...palette.colors]).toEqual([...new Set(colors)].sort((a, b) => a - b))
        expect(palette.distinct).toBe(palette.colors.length)
      }),
    )
  })

  it.each([
    [COLORS_MAX, 0],
    [COLORS_MAX + 1, 1],
    [160_000, 3],
    [1_000_000, 3],
    [IS_THOROUGH ? 1 << 24 : 1 << 21, 3],
  ])(
    'a palette of an image with %i colours deviates by at most %i of 255 in each channel',
    (count, reach) => {
      const rgb = spread(count, 7)
      const palette = createPalette(rgb, COLORS_MAX)
      expect(palette.distinct).toBe(count)
      expect(palette.colors.length).toBeLessThanOrEqual(COLORS_MAX)
      const painted = rgb.slice()
      repaint(painted, palette)
      expect(farthest(rgb, painted)).toBeLessThanOrEqual(reach)
    },
  )

  it('a palette has at most the requested number of colours, and is exact if the image has no more colours than that', () => {
    const few = fc.integer({ min: 1, max: 300 })
    fc.assert(
      fc.property(few, fc.integer({ min: 1, max: 400 }), fc.nat(), (most, count, seed) => {
        const rgb = spread(count, seed)
        const palette = createPalette(rgb, most)
        expect(palette.colors.length).toBeLessThanOrEqual(most)
        expect(new Set(palette.colors).size).toBe(palette.colors.length)
        const painted = rgb.slice()
        repaint(painted, palette)
        if (count <= most) expect(painted).toEqual(rgb)
        else expect(palette.colors.length).toBeGreaterThan(most / 2)
      }),
    )
  })

  it('a palette of two colours has one mean colour for the dark pixels and one for the light pixels', () => {
    const rgb = Uint8Array.from([0, 0, 0, 10, 10, 10, 245, 245, 245, 255, 255, 255])
    expect([...createPalette(rgb, 2).colors]).toEqual([0x050505, 0xfafafa])
  })

  it('approximates an image better with more colours', () => {
    const rgb = spread(100_000, 3)
    const errors = [16, 256, 4_096, COLORS_MAX].map((most) => {
      const painted = rgb.slice()
      repaint(painted, createPalette(rgb, most))
      return painted.reduce((sum, value, at) => sum + ((rgb[at] ?? 0) - value) ** 2, 0)
    })
    expect(errors).toEqual([...errors].sort((a, b) => b - a))
  })
})
