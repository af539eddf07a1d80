import { useEffect } from 'preact/hooks'
import { t } from '../language/language.ts'

/** The open editors whose text was changed and is not saved. */
const changed = new Set<symbol>()

/** Marks an editor as changed, so that the page asks before it leaves the editor. */
export function useUnsaved(isChanged: boolean): void {
  useEffect(() => {
    if (!isChanged) return
    const editor = Symbol('editor')
    changed.add(editor)
    return () => {
      changed.delete(editor)
    }
  }, [isChanged])
}

/** Whether the page may leave its editors: none is changed, or the user agrees to lose the changes. */
export function mayLeave(): boolean {
  return changed.size === 0 || confirm(t().leaveUnsaved)
}

/** Makes the browser ask before it closes or reloads the page while an editor is changed. */
export function guardUnsaved(): void {
  addEventListener('beforeunload', (event) => {
    if (changed.size > 0) event.preventDefault()
  })
}
