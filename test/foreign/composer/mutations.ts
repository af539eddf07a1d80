// Changes the files of a valid network at random: what Composer refuses, and what it accepts although it looks wrong.
import type { Random } from './random.ts'

/** A changed file. `mutation` names the change. */
export interface Mutated {
  readonly path: string
  readonly text: string
  readonly mutation: string
}

/** Returns the changed text, or null if there is nothing to change. */
type Change = (text: string, random: Random) => string | null

/** Returns `text` with one of the matches of `pattern`, chosen at random, replaced by one of `replacements`. */
function replaceOne(
  pattern: RegExp,
  ...replacements: readonly (string | ((found: RegExpExecArray) => string))[]
): Change {
  return (text, random) => {
    const found = [...text.matchAll(pattern)]
    if (found.length === 0) return null
    const match = random.pick(found)
    const replacement = random.pick(replacements)
    const next = typeof replacement === 'string' ? replacement : replacement(match)
    return text.slice(0, match.index) + next + text.slice(match.index + match[0].length)
  }
}

const append =
  (...added: readonly string[]): Change =>
  (text, random) =>
    `${text}\n${random.pick(added)}\n`

const TOKEN =
  /"[^"\n]*"|'[^'\n]*'|\/\*[\s\S]*?\*\/|\/\/[^\n]*|\/(?:[^/\\\n]|\\.)+\/|-->|[<>=!]=|[\p{L}\p{N}_.]+|[^\s]/gu

/** Removes, repeats, swaps or inserts a token. */
function changeToken(words: readonly string[]): Change {
  return (text, random) => {
    const tokens = [...text.matchAll(TOKEN)]
    if (tokens.length < 2) return null
    const at = random.below(tokens.length - 1)
    const [one, next] = [tokens[at], tokens[at + 1]]
    if (one === undefined || next === undefined) return null
    const [before, after] = [text.slice(0, one.index), text.slice(one.index + one[0].length)]
    const [token] = one
    switch (random.below(4)) {
      case 0:
        return before + after
      case 1:
        return `${before}${token} ${token}${after}`
      case 2:
        return `${before}${next[0]}${text.slice(one.index + token.length, next.index)}${token}${text.slice(next.index + next[0].length)}`
      default:
        return `${before}${random.pick(words)} ${token}${after}`
    }
  }
}

const FIELD = /^ {2}(?:@noted )?(o|-->) ([^\s[]+)(\[\])? (\S+)(.*)$/gm
const HEAD =
  /^(abstract )?(asset|participant|transaction|event|concept) (\S+)( identified by \S+)?( extends \S+)? \{$/gm
const field = (change: (parts: readonly string[]) => string): Change =>
  replaceOne(FIELD, ([, sign = '', type = '', array = '', name = '', options = '']) =>
    change([sign, type, array, name, options]),
  )
const head = (change: (parts: readonly string[]) => string): Change =>
  replaceOne(HEAD, ([, abstract = '', kind = '', name = '', by = '', above = '']) =>
    change([abstract, kind, name, by, above]),
  )

const NAMES =
  'class default o enum $x 1a x-y constructor toString getType null true Ünï a.b timestamp eventId x1 this'
const TYPES =
  'Missing String Integer Asset Participant Transaction Event Concept org.oracle.Ran Ask'
const OPTIONS = [
  ...['default="x"', 'default=1', 'default=1.5', 'default=true', 'default=RED0', "default='x'"],
  ...['range=[0,1]', 'range=[1,0]', 'range=[,]', 'range=[0.5,]', 'range=[-1.5,2.5]', 'range=[1]'],
  ...['regex=/a/', 'regex=/[/', 'regex=/a/u', 'regex="a"', 'regex=//', 'optional', 'unique'],
]

const MODEL_CHANGES: Readonly<Record<string, Change>> = {
  'a field twice': replaceOne(FIELD, ([line]) => `${line}\n${line}`),
  'the type of a field': (text, random) =>
    field(([sign, , array, name, options]) => {
      const type = random.pick([
        ...TYPES.split(' '),
        ...[...text.matchAll(HEAD)].map((found) => found[3] ?? ''),
      ])
      return `  ${sign} ${type}${array} ${name}${options}`
    })(text, random),
  'a relationship': field(
    ([sign, type, array, name, options]) =>
      `  ${sign === 'o' ? '-->' : 'o'} ${type}${array} ${name}${options}`,
  ),
  'an array': field(
    ([sign, type, array, name, options]) =>
      `  ${sign} ${type}${array === '' ? '[]' : ''} ${name}${options}`,
  ),
  'an option': (text, random) =>
    field(
      ([sign, type, array, name, options]) =>
        `  ${sign} ${type}${array} ${name}${options} ${random.pick(OPTIONS)}`,
    )(text, random),
  'a name': (text, random) =>
    field(
      ([sign, type, array, , options]) =>
        `  ${sign} ${type}${array} ${random.pick(NAMES.split(' '))}${options}`,
    )(text, random),
  'the name of a type': (text, random) =>
    head(([abstract, kind, , by, above]) => {
      const others = [...text.matchAll(HEAD)].map((found) => found[3] ?? '')
      return `${abstract}${kind} ${random.pick([...NAMES.split(' '), ...others])}${by}${above} {`
    })(text, random),
  'a kind': (text, random) =>
    head(([abstract, , name, by, above]) => {
      const kind = random.pick([
        'asset',
        'participant',
        'transaction',
        'event',
        'concept',
        'enum',
        'thing',
      ])
      return `${abstract}${kind} ${name}${by}${above} {`
    })(text, random),
  'a parent': (text, random) =>
    head(([abstract, kind, name, by]) => {
      const others = [...text.matchAll(HEAD)].map((found) => found[3] ?? '')
      return `${abstract}${kind} ${name}${by} extends ${random.pick([...TYPES.split(' '), ...others])} {`
    })(text, random),
  'no id': replaceOne(/ identified by \S+/g, ''),
  'another id': replaceOne(
    / identified by \S+/g,
    ' identified by missing',
    ' identified by',
    ' identified by eventId',
  ),
  'the type of an id': replaceOne(
    /^ {2}o String (id\d+)/gm,
    ...[
      ([, id]: RegExpExecArray) => `  o Integer ${id}`,
      ([line]: RegExpExecArray) => `${line} optional`,
    ],
    ...[
      ([, id]: RegExpExecArray) => `  --> String ${id}`,
      ([line]: RegExpExecArray) => `${line} default="x"`,
    ],
  ),
  abstract: head(
    ([abstract, kind, name, by, above]) =>
      `${abstract === '' ? 'abstract ' : ''}${kind} ${name}${by}${above} {`,
  ),
  'no import': replaceOne(/^import .*$/gm, ''),
  'an import': replaceOne(
    /^namespace .*$/gm,
    ...[
      'org.none.X',
      'org.none.*',
      'org.one.Missing',
      'org.one.*',
      'org.oracle.*',
      'org.oracle.Ask',
      'X',
      '*',
    ].map(
      (name) =>
        ([line]: RegExpExecArray) =>
          `${line}\nimport ${name}`,
    ),
    ([line]) => `${line}\nimport org.oracle.Ran\nimport org.oracle.Ran`,
    ([line]) => `${line}\nimport org.hyperledger.composer.system.Asset`,
  ),
  'a namespace': replaceOne(
    /^namespace .*$/gm,
    ...[
      'org.oracle',
      'x',
      'org.one.1x',
      '',
      'org..x',
      'org.hyperledger.composer.system',
      'org.one.',
      'enum',
      'org.class',
    ].map((name) => `namespace ${name}`),
  ),
  'a value': replaceOne(
    /^ {2}o (?:RED|blue|_x)\d+$/gm,
    '  o RED0\n  o RED0',
    '  o x optional',
    '  o String x',
    '  o 1x',
    '  o null',
    '',
  ),
  'a declaration': append(
    ...[
      'concept Empty {}',
      'enum Empty {}',
      'asset Empty {}',
      'transaction Empty {}',
      'event Empty{}',
      'concept C { o C c }',
    ],
    ...[
      'asset E identified by x { o String x }',
      'asset E identified by x { o E x }',
      'abstract asset E {}',
    ],
    ...[
      'concept C { o C c optional }',
      'concept C extends C {}',
      'concept A extends B {} concept B extends A {}',
    ],
    ...[
      'abstract concept A { o B b } concept B extends A {}',
      'abstract enum E { o X }',
      'enum E extends F { o X } enum F { o Y }',
    ],
    ...[
      'participant P identified by a { o String a o String b }',
      'asset A identified by a { o String a } asset B identified by b extends A { o String b }',
    ],
    ...[
      'asset A identified by a extends Asset { o String a }',
      'asset A extends Participant {}',
      'transaction T identified by t { o String t }',
    ],
    ...[
      'event E identified by e { o String e }',
      'concept C identified by c { o String c }',
      'transaction T { --> Ask ask }',
      'concept C { --> C c }',
    ],
    ...[
      '@returns(String) transaction T {}',
      '@returns(Missing) transaction T {}',
      '@commit(false) @returns(Integer[]) transaction T {}',
    ],
    ...[
      'concept C { o String[] s default="x" }',
      'concept C { o Integer[] i range=[0,1] }',
      'concept C { o String[] s regex=/a/ }',
    ],
    ...[
      'concept C { o String s default="a" regex=/b/ }',
      'concept C { o Integer i default=9 range=[0,1] }',
      'concept C { o Long l default=1.5 }',
    ],
    ...[
      'concept C { o DateTime d default="x" }',
      'concept C { o DateTime d default="2020-01-01" }',
      'concept C { o Boolean b default="true" }',
    ],
    ...[
      'concept C{o String x}',
      'concept C\n{\no String x\n}',
      'concept C { o String x, o String y }',
      'concept C { o String x; }',
      'concept C { o  String  x }',
    ],
    ...[
      'concept C { o String x = "a" }',
      'concept C { o string x }',
      'concept C { o Float x }',
      'concept C { o Double x default=.5 }',
    ],
    ...[
      'concept C { o Double x default=1e3 }',
      'concept C { o Integer x default=-0 }',
      'concept C { o Integer x default=+1 }',
      'concept C { o Long x range=[1,2] optional }',
    ],
    ...[
      '/* comment',
      '// comment',
      '/* /* nested */ */',
      '# comment',
      ';',
      '@decorated',
      'import org.oracle.Ask',
    ],
  ),
  'a decorator': replaceOne(
    /^(?=(?:abstract )?(?:asset|participant|transaction|event|concept|enum) )/gm,
    ...[
      '@x(',
      '@x(1.5)',
      '@x("a", B[])',
      '@ ',
      '@x @x ',
      '@x()() ',
      '@x(true,false) ',
      '@x(-1) ',
      '@x(1,) ',
      '@x.y ',
      '@x("a" "b") ',
      "@x('a') ",
      '@x(B) ',
      '@1x ',
    ],
  ),
  'a token': changeToken([
    'o',
    '-->',
    '{',
    '}',
    'optional',
    'default',
    '=',
    '[',
    ']',
    'String',
    'asset',
    'abstract',
    'extends',
    'identified',
    'by',
    '"x"',
    '1',
    '@',
    '.',
    ',',
    '//',
    '/*',
    'import',
    'namespace',
  ]),
}

const QUOTED = /"[^"\n]*\.[^"\n]*"/g
const RULE_CHANGES: Readonly<Record<string, Change>> = {
  'a name': replaceOne(
    QUOTED,
    ...[
      '""',
      '"*"',
      '"**"',
      '"ANY"',
      '"org.none.X"',
      '"org.none.*"',
      '"org.none.**"',
      '"org.*.X"',
      '"org.oracle.*.X"',
      '"org.oracle.Ask#"',
    ],
    ...[
      '"org.oracle.Ask#a b"',
      '"org.oracle.*#a"',
      '"org.oracle.Missing"',
      '"org.oracle.**"',
      '"org.oracle"',
      '"Ask"',
      'ANY',
      'org.oracle.Ask',
      '"org.oracle.Ask.calls"',
    ],
  ),
  'an operation': replaceOne(
    /(?<=operation: )[A-Z, ]+(?= resource)/g,
    ...[
      'WRITE',
      'ALL,READ',
      'READ READ',
      'READ,READ',
      'create',
      'READ ,  CREATE',
      'READ,',
      '',
      'UPDATE, DELETE, READ, CREATE',
      '(READ)',
      '"READ"',
    ],
  ),
  'an action': replaceOne(
    /action: \w+/g,
    'action: MAYBE',
    'action: allow',
    'action:ALLOW',
    'action : DENY',
    'action: ALLOW,',
    '',
  ),
  'a condition': replaceOne(
    /condition: \(.*\)(?= action)/g,
    ...[
      'condition: (r.)',
      'condition: ()',
      'condition: (r.x',
      'condition: (r.x))',
      'condition: true',
      'condition: (r.x; true)',
      'condition: (")")',
    ],
    ...[
      'condition: (true /* ) */)',
      'condition: (return true)',
      'condition: (x => x)',
      'condition: (await r)',
      'condition: ((r.x))',
      'condition: (r.x\n== 1)',
      'condition: (/\\)/.test("a"))',
    ],
  ),
  'a variable': replaceOne(
    /(participant|resource|transaction)\(\w\)/g,
    ([, part]) => `${part}`,
    ([, part]) => `${part}()`,
    ([, part]) => `${part}(p)`,
    ([, part]) => `${part} (q)`,
    ([, part]) => `${part}(1)`,
    ([, part]) => `${part}(class)`,
  ),
  'the name of a rule': replaceOne(
    /rule \w+/g,
    'rule Admin',
    'rule',
    'rule 1',
    'rule class',
    'rule a.b',
    'rule "x"',
    'rule x-y',
    'Rule X',
    'rule Ü',
  ),
  'a description': replaceOne(
    /description: "[^"]*"/g,
    'description: x',
    "description: 'x'",
    '',
    'description "x"',
    'description: "a\\"b"',
    'description: "a\nb"',
  ),
  'an addition': append(
    ...[
      '// comment',
      '/* comment',
      '/* comment */',
      ';',
      '#',
      'rule X {}',
      'rule X { action: ALLOW }',
      'rule X { description: "" participant: "ANY" operation: ALL resource: "**" action: ALLOW }',
    ],
    ...[
      'rule X {description:"" participant:"ANY" operation:ALL resource:"**" action:ALLOW}',
      'rule X { description: "" participant: "ANY" operation: ALL resource: "**" transaction: "org.oracle.Ran" action: ALLOW }',
    ],
    ...[
      'rule X { description: "" participant: "org.oracle.Ask" operation: ALL resource: "**" action: ALLOW }',
      'rule X { description: "" participant: "ANY" operation: ALL resource: "org.oracle.Ran" action: ALLOW }',
    ],
    ...[
      'rule X { participant: "ANY" description: "" operation: ALL resource: "**" action: ALLOW }',
      'rule X { description: "" participant(p): "ANY" operation: ALL resource(r): "**" condition: (true) action: ALLOW }',
    ],
  ),
  'a token': changeToken([
    '{',
    '}',
    ':',
    '"',
    'rule',
    '(',
    ')',
    'ALL',
    'READ',
    ',',
    '"ANY"',
    'condition',
    'action',
    'ALLOW',
    '.',
    '*',
    '#',
    '//',
  ]),
}

const QUERY_CHANGES: Readonly<Record<string, Change>> = {
  'a property': replaceOne(
    /(?<=\()[\w.]+(?= (?:[<>=!]|CONTAINS))/g,
    'missing',
    'a.b',
    '_$x',
    '"a"',
    '$class',
    '5',
    'this',
    '',
  ),
  'an operator': replaceOne(
    / (?:[<>]=?|[!=]=|CONTAINS) /g,
    ' = ',
    ' <> ',
    ' === ',
    ' LIKE ',
    ' IN ',
    ' CONTAINS ',
    ' == ',
    ' contains ',
    ' ',
  ),
  'a value': replaceOne(
    /(?<= )(?:'[^']*'|"[^"]*"|\d[\d.]*|_\$\w+|true|false)(?=\))/g,
    ...[
      "'x'",
      '5',
      'true',
      'null',
      '-1',
      '1.5',
      '[]',
      "['a']",
      '_$',
      '_$p',
      '_$ p',
      'missing',
      "'2020-01-01T00:00:00.000Z'",
      "'resource:x#y'",
      '0x1F',
      '1e3',
      "'a\\'b'",
      '(1)',
      'undefined',
      '.5',
    ],
  ),
  'a type': replaceOne(
    /(?<=SELECT )[\w.]+/gu,
    'org.none.X',
    'Missing',
    'org.oracle.Ran',
    'org.oracle.Ask',
    'org.hyperledger.composer.system.HistorianRecord',
    'org.hyperledger.composer.system.Asset',
    '*',
    '',
  ),
  'the end': replaceOne(
    / \}/g,
    ...[
      ' LIMIT 5 }',
      ' LIMIT 0 }',
      ' LIMIT -1 }',
      ' LIMIT _$n }',
      ' LIMIT 1.5 }',
      ' LIMIT "5" }',
      ' SKIP 2 }',
      ' SKIP 2 LIMIT 1 }',
      ' LIMIT 1 SKIP 2 }',
    ],
    ...[
      ' ORDER BY missing }',
      ' ORDER BY [missing] }',
      ' ORDER BY [missing ASC, other DESC] }',
      ' ORDER BY }',
      ' ORDER BY [] }',
      ' ORDER BY missing DESC LIMIT 1 }',
      ' ORDER BY missing ASC LIMIT 1 SKIP _$s }',
    ],
    ...['', ' } }', ' WHERE (1 == 1) }', ' WHERE true }', ' FROM x }'],
  ),
  'a from': replaceOne(
    /(?<=SELECT [\w.]+)/gu,
    ' FROM org.none',
    ' FROM org.oracle.Ask',
    ' FROM',
    ' FROM "x"',
    ' from x',
    ' FROM x.y',
  ),
  'a name': replaceOne(
    /query \w+/g,
    'query Q0',
    'query',
    'query 1',
    'query a.b',
    'query class',
    'Query X',
    'query "x"',
    'query x-y',
  ),
  'a description': replaceOne(
    /description: "x"/g,
    '',
    'description: x',
    "description: 'x'",
    'description: ""',
    'description "x"',
  ),
  'a keyword': replaceOne(
    /SELECT|WHERE|AND|OR|statement:/g,
    'select',
    'and',
    '&&',
    'WHERE',
    'statement',
    '',
    'OR',
    'AND',
  ),
  'a token': changeToken([
    '{',
    '}',
    '(',
    ')',
    'AND',
    'OR',
    'SELECT',
    'WHERE',
    '==',
    "'x'",
    '1',
    '_$p',
    '.',
    '[',
    ']',
    ',',
    'LIMIT',
    'ORDER',
    'BY',
    'CONTAINS',
    '//',
  ]),
}

/** Returns files of a network, each with one change. Other files than those in the folders `models` and … are skipped. */
export function generateMutations(
  random: Random,
  files: ReadonlyMap<string, string>,
  count: number,
): Mutated[] {
  const changed: Mutated[] = []
  const usable = [...files].filter(
    ([path, text]) => !text.startsWith('namespace org.oracle') && /\.(?:cto|acl|qry)$/.test(path),
  )
  for (let attempt = 0; attempt < 4 * count && changed.length < count; attempt += 1) {
    const [path, text] = random.pick(usable)
    const changes = path.endsWith('.cto')
      ? MODEL_CHANGES
      : path.endsWith('.acl')
        ? RULE_CHANGES
        : QUERY_CHANGES
    const name = random.chance(30) ? 'a token' : random.pick(Object.keys(changes))
    const next = changes[name]?.(text, random) ?? null
    if (next !== null && next !== text) changed.push({ path, text: next, mutation: name })
  }
  return changed
}
