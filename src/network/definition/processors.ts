import type { Findings, SourceFile } from '../language/source.ts'
import type { Model } from '../model/model.ts'

/** A function of `lib/` that runs for transactions of a type. */
export interface Processor {
  /** The function's name. */
  readonly name: string
  /** Qualified name of the transaction type; its subtypes run it too. */
  readonly transaction: string
  readonly path: string
}

const DOC_COMMENT =
  /\/\*\*([\s\S]*?)\*\/\s*(?:(?:async\s+)?function\s*\*?\s+([\p{L}_$][\p{L}\p{Nd}_$]*))?/gu
const PARAMETER = /@param\s*\{\s*([\p{L}\p{Nd}_$.]+)\s*\}/u

/**
 * The processors that the scripts of a network declare: functions under a comment that has
 * `@transaction` and the type in `@param {ns.Type} name`. What is wrong goes to `findings`.
 */
export function processorsOf(
  scripts: readonly SourceFile[],
  model: Model,
  findings: Findings,
): Processor[] {
  return scripts.flatMap((file) =>
    [...file.text.matchAll(DOC_COMMENT)].flatMap((match) => {
      const [, comment = '', name] = match
      if (!/@transaction\b/.test(comment)) return []
      if (name === undefined) {
        findings.error(file, match.index, 'no function follows this @transaction')
        return []
      }
      const [, transaction] = PARAMETER.exec(comment) ?? []
      if (transaction === undefined) {
        findings.error(file, match.index, `${name} has no @param {type} to say what it is for`)
        return []
      }
      if (model.type(transaction)?.kind !== 'transaction') {
        const at = match.index + match[0].indexOf(transaction)
        findings.error(file, at, `there is no transaction ${transaction} for ${name}`)
        return []
      }
      return [{ name, transaction, path: file.path }]
    }),
  )
}
