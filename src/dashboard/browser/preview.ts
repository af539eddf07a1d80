/** Maximum sizes of attachments that the page shows. */
const IMAGE_BYTES_MAX = 5 * 1024 * 1024
const TEXT_BYTES_MAX = 256 * 1024

/** How the page can show a file of this media type and length; null if it cannot. */
export function previewOf(type: string, length: number): 'image' | 'text' | null {
  const essence = (type.split(';')[0] ?? '').trim().toLowerCase()
  if (/^image\/(png|jpeg|gif|webp|avif|bmp|svg\+xml)$/.test(essence)) {
    return length <= IMAGE_BYTES_MAX ? 'image' : null
  }
  const isText = /^(text\/.+|application\/(.+\+)?(json|xml|x-ndjson))$/.test(essence)
  return isText && length <= TEXT_BYTES_MAX ? 'text' : null
}
