import { mkdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { expect } from 'vitest'

/** Folder for screenshots of all pages, for manual review. Without it, none are taken, which halves the time. */
const { SCREENSHOTS } = process.env
const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js')
/** The axe rules whose result depends on colours. */
const COLOUR_RULES = ['color-contrast', 'link-in-text-block']
/** The widths in pixels for each mode. Colours do not depend on the width. */
const WIDTHS = { light: [1280, 360], dark: [1280] } as const
/**
 * Resolves after the page has handled a change of its size or mode, and no transition is running. Scripts of the page
 * receive the change after the first frame and before the second.
 */
const SETTLE = `(async () => {
  await new Promise(requestAnimationFrame)
  await new Promise(requestAnimationFrame)
  for (const each of document.getAnimations())
    if (each.effect.getComputedTiming().endTime !== Infinity) each.finish()
})()`

/**
 * Expects that axe finds no violation on `page` and that the page does not scroll horizontally, in light mode at widths
 * of 1280 and 360 pixels, and in dark mode at 1280 pixels. `rules` are the axe rules to apply. Default: all; those about
 * colours at 1280 pixels only, and in dark mode only those. Without `hasNewColours`, for a page that another test shows
 * in another language, those about colours are left out.
 */
export async function expectAccessible(
  page: Page,
  name: string,
  rules: readonly string[] | null = null,
  hasNewColours = true,
): Promise<void> {
  for (const colorScheme of hasNewColours ? (['light', 'dark'] as const) : (['light'] as const)) {
    for (const [at, width] of WIDTHS[colorScheme].entries()) {
      const values = rules ?? (colorScheme === 'dark' ? COLOUR_RULES : null)
      const disabled = at > 0 || !hasNewColours ? COLOUR_RULES : []
      const options = {
        // Without the selectors of all elements that pass, which take most of the time of a large page.
        ...{ resultTypes: ['violations'], selectors: false },
        ...(values === null ? {} : { runOnly: { type: 'rule', values } }),
        rules: Object.fromEntries(disabled.map((rule) => [rule, { enabled: false }])),
      }
      await page.setViewportSize({ width, height: 800 })
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
      // Otherwise text may have the colour of the other mode, or of a transition.
      await page.evaluate(SETTLE)
      if (SCREENSHOTS !== undefined) {
        mkdirSync(SCREENSHOTS, { recursive: true })
        const path = join(SCREENSHOTS, `${name}-${width}-${colorScheme}.png`)
        await page.screenshot({ path, fullPage: true })
      }
      const overflow = await page.evaluate<number>(
        'document.documentElement.scrollWidth - innerWidth',
      )
      expect([name, width, overflow]).toEqual([name, width, 0])
      const missing = await page.evaluate<boolean>("typeof axe === 'undefined'")
      // Injects axe through the debugger protocol, because the Content-Security-Policy of the pages blocks scripts.
      if (missing) await page.evaluate(readFileSync(AXE, 'utf8'))
      const faults = await page.evaluate(
        `axe.run(${JSON.stringify(options)}).then(({ violations }) =>
          violations.map(({ id, nodes }) => [id, nodes.map((n) => n.html).slice(0, 3)]))`,
      )
      expect([name, width, colorScheme, faults]).toEqual([name, width, colorScheme, []])
    }
  }
}

/** Presses Tab up to `max` times. Returns the role and text of each focused element. */
export async function tabStops(page: Page, max: number): Promise<string[]> {
  const stops: string[] = []
  for (let press = 0; press < max; press += 1) {
    await page.keyboard.press('Tab')
    const stop = await page.evaluate<string>(`(() => {
      const at = document.activeElement
      if (at === document.body || at === null) return ''
      const labels = (at.labels?.[0]?.textContent ?? '').trim().split('\\n')
      const label = labels[0] || at.getAttribute('aria-label')
      const { x, y, width, height } = at.getBoundingClientRect()
      const isSeen = width > 0 && height > 0 && x + width > 0 && y + height > 0
      const outline = getComputedStyle(at)
      const isMarked = at.matches(':focus-visible, :focus-within:not(:focus)')
        && (outline.outlineStyle !== 'none' || outline.boxShadow !== 'none')
      return at.localName + ' ' + (label ?? at.textContent).trim().slice(0, 40)
        + (isSeen && isMarked ? '' : ' (not seen)')
    })()`)
    if (stop === '') break
    stops.push(stop)
  }
  return stops
}
