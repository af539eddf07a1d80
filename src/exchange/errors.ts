import { CodedError } from '../base/coded-error.ts'

export type InputErrorCode = 'INPUT_INVALID' | 'FORMAT_UNSUITABLE' | 'SCHEMA_INVALID'

/** The input cannot be read at all, for the reason in the message. For a single invalid record: `RecordRefusal`. */
export class InputError extends CodedError<InputErrorCode> {
  override readonly name: string = 'InputError'

  constructor(message: string, options?: ErrorOptions, code: InputErrorCode = 'INPUT_INVALID') {
    super(code, message, options)
  }
}

/** The input has a format that must be chosen by the caller. */
export class FormatError extends InputError {
  override readonly name = 'FormatError'

  constructor(message: string) {
    super(message, {}, 'FORMAT_UNSUITABLE')
  }
}
