import { zstdDecompressSync } from 'node:zlib'

/** The first bytes of a frame of Zstandard. Source: RFC 8878 section 3.1.1. */
const FRAME = Buffer.from([0x28, 0xb5, 0x2f, 0xfd])
const SQLITE = Buffer.from('SQLite format 3\0')
const WAL = new Set([0x377f0682, 0x377f0683])
const WAL_HEADER = 32
const FRAME_HEADER = 24
const PAGE = 4_096

/** Images of the pages of a SQLite database by their numbers: one in the file, and one per frame in the WAL. */
export class PageImages {
  readonly #images = new Map<number, Buffer[]>()

  #add(number: number, image: Buffer): void {
    this.#images.set(number, [...(this.#images.get(number) ?? []), image])
  }

  /** Adds the pages of a file of a database, or of its WAL, also those that the database no longer uses. */
  add(bytes: Buffer): void {
    if (bytes.subarray(0, SQLITE.length).equals(SQLITE)) {
      for (let at = 0; at + PAGE <= bytes.length; at += PAGE) {
        this.#add(at / PAGE + 1, bytes.subarray(at, at + PAGE))
      }
    } else if (bytes.length > WAL_HEADER && WAL.has(bytes.readUInt32BE(0))) {
      for (
        let at = WAL_HEADER;
        at + FRAME_HEADER + PAGE <= bytes.length;
        at += FRAME_HEADER + PAGE
      ) {
        const start = at + FRAME_HEADER
        this.#add(bytes.readUInt32BE(at), bytes.subarray(start, start + PAGE))
      }
    }
  }

  /** Yields the content of all compressed values, as far as their pages can be found. */
  *unpacked(): Generator<Buffer> {
    for (const image of [...this.#images.values()].flat()) {
      for (let at = image.indexOf(FRAME); at !== -1; at = image.indexOf(FRAME, at + 1)) {
        yield* this.#values(image, at)
      }
    }
  }

  /** A value that does not fit into its page continues in a list of pages, after the number of the first. */
  *#values(image: Buffer, start: number): Generator<Buffer> {
    const whole = unpack([image.subarray(start)])
    if (whole !== null) yield whole
    for (let end = start + 1; end + 4 <= PAGE; end += 1) {
      for (const rest of this.#continuations(image.readUInt32BE(end))) {
        const value = unpack([image.subarray(start, end), ...rest])
        if (value !== null) yield value
      }
    }
  }

  /** The lists of pages that start with page `number`: one per image of this page, because the others seldom differ. */
  *#continuations(number: number): Generator<Buffer[]> {
    for (const first of this.#images.get(number) ?? []) {
      const parts: Buffer[] = []
      const seen = new Set<number>([number])
      for (let image: Buffer | undefined = first; image !== undefined; ) {
        parts.push(image.subarray(4))
        const next: number = image.readUInt32BE(0)
        image = seen.has(next) ? undefined : this.#images.get(next)?.at(-1)
        seen.add(next)
      }
      yield parts
    }
  }
}

/** Returns the content of the frame, of which `parts` has all bytes and others after it, or null. */
function unpack(parts: readonly Buffer[]): Buffer | null {
  try {
    return zstdDecompressSync(Buffer.concat(parts))
  } catch {
    return null
  }
}
