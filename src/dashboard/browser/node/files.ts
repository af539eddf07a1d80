import { toFileName } from '../../../base/visible.js'

/** Time after which the memory of a saved file is released. By then, the browser has read the file. */
const RELEASE_MS = 60_000

/** Saves `content` as a download with this name. */
export function saveFile(name: string, content: Blob | string, type = 'text/plain'): void {
  const blob = typeof content === 'string' ? new Blob([content], { type }) : content
  const link = document.createElement('a')
  link.href = URL.createObjectURL(blob)
  link.download = toFileName(name)
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), RELEASE_MS)
}

/** Returns `content` as a `data:` URL, because the Content-Security-Policy of the page forbids `blob:` URLs. */
export function toDataUrl(content: Blob, type: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader()
    reader.onload = () => resolve(String(reader.result))
    reader.onerror = () => reject(reader.error)
    reader.readAsDataURL(new Blob([content], { type }))
  })
}
