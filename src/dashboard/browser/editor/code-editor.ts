import { defaultKeymap, history, historyKeymap } from '@codemirror/commands'
import { json } from '@codemirror/lang-json'
import {
  bracketMatching,
  ensureSyntaxTree,
  HighlightStyle,
  syntaxHighlighting,
} from '@codemirror/language'
import { linter, lintGutter } from '@codemirror/lint'
import { unifiedMergeView } from '@codemirror/merge'
import { Compartment, EditorState } from '@codemirror/state'
import { EditorView, highlightSpecialChars, keymap, lineNumbers } from '@codemirror/view'
import { tags } from '@lezer/highlight'
import { isExactNumber } from '../../../base/strict-json.ts'

/** An open editor of JSON. */
export interface CodeEditor {
  /** Replaces the text, unless it is this text already. */
  setText(text: string): void
  /** Shows the differences from `original`, which the user can keep or take back one by one. Null: shows none. */
  compareWith(original: string | null): void
  close(): void
}

/** The reason why a text cannot be saved. */
export interface TextProblem {
  readonly code: string
  readonly message: string
}

export interface CodeEditorOptions {
  readonly text: string
  readonly label: string
  /** Texts of the buttons of a difference. */
  readonly accept: string
  readonly reject: string
  readonly check: (text: string) => TextProblem | null
  readonly change: (text: string) => void
}

/** Time limit for reading a text, milliseconds. After it, a problem is shown at the start of the text. */
const PARSE_MS = 200

const COLOURS = HighlightStyle.define([
  { tag: tags.propertyName, color: 'var(--accent)' },
  { tag: tags.string, color: 'var(--ink)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--bad)' },
])

const THEME = EditorView.theme({
  '&': { backgroundColor: 'var(--card)', color: 'var(--ink)', maxHeight: '32rem' },
  '&.cm-focused': { outline: '2px solid var(--accent)' },
  '.cm-content': { caretColor: 'var(--ink)', minHeight: '8rem' },
  '.cm-scroller': { fontFamily: 'var(--pico-font-family-monospace)', overflow: 'auto' },
  '.cm-gutters': { backgroundColor: 'var(--code)', color: 'var(--soft)', border: 'none' },
  '.cm-specialChar': { color: 'var(--bad)' },
  '.cm-tooltip': { backgroundColor: 'var(--card)', color: 'var(--ink)' },
  '.cm-changedLine': { backgroundColor: 'var(--insert) !important' },
  '.cm-changedText': { background: 'none !important', fontWeight: 'bold' },
  '.cm-deletedChunk': { backgroundColor: 'var(--remove) !important', color: 'var(--ink)' },
  '.cm-deletedText': { background: 'none !important', fontWeight: 'bold' },
  '.cm-chunkButtons button': {
    color: 'var(--ink) !important',
    background: 'var(--card) !important',
  },
})

const OTHER = String.raw`[\p{sc=Cyrl}\p{sc=Armn}\p{sc=Cher}\p{sc=Copt}\p{sc=Lisu}\u0391\u0392\u0395-\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03b9\u03bd\u03bf\u03c1\u03c5\u03c7\uff21-\uff5a]`
const BETWEEN = String.raw`[\p{L}\p{M}\d]{0,40}`
/** Characters that are not seen, and look-alikes of Latin letters in a word with a Latin one, as in `base/visible.js`. */
const SPECIAL = new RegExp(
  String.raw`[\p{Cf}\p{Zl}\p{Zp}\u00a0\u115f\u1160\u1680\u2000-\u200a\u202f\u205f\u3164\uffa0]|(?<=(?<!\\)[A-Za-z]${BETWEEN})${OTHER}|${OTHER}(?=${BETWEEN}[A-Za-z])`,
  'gu',
)

/**
 * Opens an editor in `host`. The editor is in a shadow tree, because its styles are then a style sheet of the tree; the
 * Content-Security-Policy would refuse a style element.
 */
export function openCodeEditor(host: HTMLElement, options: CodeEditorOptions): CodeEditor {
  const root = host.shadowRoot ?? host.attachShadow({ mode: 'open' })
  const comparison = new Compartment()
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({ doc: options.text, extensions: extensions(options, comparison) }),
  })
  return {
    setText(text) {
      const { doc } = view.state
      if (text === doc.toString()) return
      view.dispatch({ changes: { from: 0, to: doc.length, insert: text } })
    },
    compareWith(original) {
      const shown = original === null ? [] : unifiedMergeView({ original, gutter: false })
      view.dispatch({ effects: comparison.reconfigure(shown) })
    },
    close: () => view.destroy(),
  }
}

function extensions(options: CodeEditorOptions, comparison: Compartment) {
  const { label, accept, reject, check, change } = options
  return [
    comparison.of([]),
    lineNumbers(),
    lintGutter(),
    history(),
    bracketMatching(),
    highlightSpecialChars({
      addSpecialChars: SPECIAL,
      render: (code) => {
        const shown = document.createElement('span')
        shown.className = 'cm-specialChar'
        shown.textContent = `\\u${code.toString(16).padStart(4, '0')}`
        return shown
      },
    }),
    json(),
    syntaxHighlighting(COLOURS),
    linter(
      (view) => {
        const problem = check(view.state.doc.toString())
        if (problem === null) return []
        return [
          { ...locate(view.state, problem.code), severity: 'error', message: problem.message },
        ]
      },
      { delay: 150 },
    ),
    // Tab leaves the editor, so that users of keyboards are not trapped in it.
    keymap.of([...defaultKeymap, ...historyKeymap]),
    EditorView.lineWrapping,
    EditorView.contentAttributes.of({ 'aria-label': label }),
    EditorState.phrases.of({ Accept: accept, Reject: reject }),
    EditorView.updateListener.of((update) => {
      if (update.docChanged) change(update.state.doc.toString())
    }),
    THEME,
  ]
}

interface Range {
  readonly from: number
  readonly to: number
}

/** Returns the part of the text that the problem `code` is about. */
function locate(state: EditorState, code: string): Range {
  const names = new Map<number, Set<unknown>>()
  let found: Range | null = null
  ensureSyntaxTree(state, state.doc.length, PARSE_MS)?.iterate({
    enter: ({ type, from, to, node }) => {
      if (found !== null) return
      const isName = type.name === 'PropertyName'
      const text = isName || /^(?:String|Number)$/.test(type.name) ? state.sliceDoc(from, to) : ''
      const value = isName || type.name === 'String' ? parsed(text) : null
      const owner = isName ? (node.parent?.parent ?? null) : null
      if (owner !== null) {
        const known = names.get(owner.from) ?? new Set()
        if (code === 'JSON_DUPLICATE_MEMBER' && known.has(value)) found = { from, to }
        names.set(owner.from, known.add(value))
      }
      const isTop = owner?.parent?.name === 'JsonText'
      const isFault =
        (code === 'JSON_MALFORMED' && type.isError) ||
        (code === 'JSON_FORBIDDEN_MEMBER' && isName && value === '__proto__') ||
        (code === 'JSON_NUMBER_INEXACT' && type.name === 'Number' && !isExactNumber(text)) ||
        (code === 'JSON_LONE_SURROGATE' && typeof value === 'string' && !value.isWellFormed()) ||
        (code.startsWith('id-') && isTop && value === 'id')
      if (isFault) found = code.startsWith('id-') ? (node.parent ?? { from, to }) : { from, to }
    },
  })
  const { from, to } = found ?? { from: 0, to: 0 }
  return from < to
    ? { from, to }
    : { from: Math.max(0, from - 1), to: Math.min(to + 1, state.doc.length) }
}

function parsed(literal: string): unknown {
  try {
    return JSON.parse(literal)
  } catch {
    return null
  }
}
