/** Maximum bytes of the images and texts that the page shows. */
const IMAGE_BYTES_MAX = 5 * 1024 * 1024
const TEXT_BYTES_MAX = 256 * 1024

/** Returns how the page shows a file of media type `type` with `length` bytes, or null if the page cannot show it. */
export function previewKind(type: string, length: number): 'image' | 'text' | null {
  const essence = (type.split(';')[0] ?? '').trim().toLowerCase()
  if (/^image\/(png|jpeg|gif|webp|avif|bmp|svg\+xml)$/.test(essence)) {
    return length <= IMAGE_BYTES_MAX ? 'image' : null
  }
  const isText = /^(text\/.+|application\/(.+\+)?(json|xml|x-ndjson))$/.test(essence)
  return isText && length <= TEXT_BYTES_MAX ? 'text' : null
}
