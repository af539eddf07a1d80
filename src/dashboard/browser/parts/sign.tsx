import type { JSX } from 'preact'

const PATHS = { tick: 'M3 8.5 6.5 12 13 4.5', cross: 'M4 4l8 8M12 4l-8 8' } as const

/** A tick or a cross, drawn: not every machine has a font with these. The words beside it say the same. */
export function Sign({ of }: { of: keyof typeof PATHS }): JSX.Element {
  return (
    <svg class="sign" viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[of]} />
    </svg>
  )
}
