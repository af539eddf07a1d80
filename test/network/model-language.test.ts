// Constructs of the modelling language that Hyperledger Composer and daicho accept or reject. The results for
// Composer come from composer-common 0.20.9 (ModelManager.addModelFiles), which was run with each row.
import { describe, expect, it } from 'vitest'
import { checkNetwork, formatFinding } from '../../src/network/index.ts'

/** Declarations to which the tested declarations refer. */
const BASE = `namespace org.test
asset Base identified by b { o String b }
abstract asset Abstract { o String a }
participant Person identified by p { o String p }
abstract participant Member { o String m }
concept Size { o Integer n }
enum Colour { o RED o GREEN }
transaction Move {}
event Moved {}
`

/** Returns the first error of a network with these model files, or null. */
function errorIn(models: readonly string[]): string | null {
  const files = new Map([
    ['package.json', Buffer.from('{"name":"n","version":"1.0.0"}')],
    ...models.map((text, at) => [`models/m${at}.cto`, Buffer.from(text)] as const),
  ])
  const { findings } = checkNetwork({ files, packed: null })
  const first = findings.find(({ severity }) => severity === 'error')
  return first === undefined ? null : formatFinding(first)
}

/** Returns the first error of a model file that consists of BASE and `declarations`, or null. */
function errorAfterBase(declarations: string): string | null {
  return errorIn([BASE + declarations])
}

const ofField = (field: string) => `concept X { ${field} }`
const PRIMITIVES = ['String', 'Boolean', 'DateTime', 'Double', 'Integer', 'Long']

const DECLARATIONS_OF_BOTH = [
  'asset X identified by v { o String v }',
  'asset X identified by v extends Abstract { o String v }',
  'asset X identified by a extends Abstract {}',
  'asset X identified by c extends Base { o String c }',
  'asset X extends Base { o String c }',
  'asset X identified by a extends Asset { o String a }',
  'abstract asset X {}',
  'abstract asset X identified by v { o String v }',
  'participant X identified by v { o String v }',
  'participant X identified by v extends Member { o String v }',
  'participant X identified by m extends Member {}',
  'participant X extends Person {}',
  'abstract participant X {}',
  'transaction X { o String v }',
  'transaction X extends Move { o String v }',
  'abstract transaction X {}',
  'event X { o String v }',
  'event X extends Moved {}',
  'abstract event X {}',
  'concept X { o String v }',
  'concept X extends Size { o String v }',
  'abstract concept X {}',
  'concept X { o X x }',
  'concept X { o X[] x optional }',
  'concept x {}',
  'enum X { o C o D }',
  'enum X {}',
  'enum X { o C optional }',
  'enum X { @a o C @b("x") o D }',
  '/* c */ // d\nconcept X { // e\n o String a /* f */ }',
  '@a concept X {}',
  '@a() concept X {}',
  '@a("x", \'y\', 1, -1.5, true, false, Size, Size[]) concept X {}',
  '@a("x",) concept X {}',
  '@a abstract concept X {}',
  '@returns(Size) @commit(false) transaction X {}',
  '@returns(Size[]) transaction X {}',
]

const FIELDS_OF_BOTH = [
  ...[...PRIMITIVES, 'Size', 'Colour', 'Base', 'Abstract', 'Move'].flatMap((type) => [
    `o ${type} a`,
    `o ${type}[] a`,
    `o ${type} a optional`,
    `o ${type}[] a optional`,
  ]),
  ...['Base', 'Abstract', 'Person', 'Asset', 'Participant'].flatMap((type) => [
    `--> ${type} a`,
    `--> ${type}[] a`,
    `--> ${type}[] a optional`,
  ]),
  'o String [] a',
  '-->Base a',
  '@a("x") o String a @b --> Base b',
  ...['o', 'optional', 'regex', 'range', 'identified', 'asset', 'namespace', 'String', '台帳'].map(
    (name) => `o String ${name}`,
  ),
  ...['"x"', "'x'", '""'].map((text) => `o String a default=${text}`),
  'o String a default = "x"',
  'o Boolean a default=true',
  'o Boolean a default=false',
  'o DateTime a default="2020-01-01T00:00:00Z"',
  ...['1.5', '-1.5', '1.0', '1.0e3'].map((number) => `o Double a default=${number}`),
  ...['Integer', 'Long'].flatMap((type) => [
    ...['1', '-1', '+1'].map((number) => `o ${type} a default=${number}`),
    ...['[0,10]', '[0,]', '[,10]', '[-1,1]', '[ 0 , 10 ]', '[0,0]', '[+1,2]'].map(
      (range) => `o ${type} a range=${range}`,
    ),
  ]),
  ...['[0.0,10.0]', '[0.5,]', '[,1.5]', '[-1.0,1.0]', '[0.0,0.0]', '[1.0e3,2.0e3]'].map(
    (range) => `o Double a range=${range}`,
  ),
  'o Integer a range = [0,1]',
  'o Integer[] a range=[0,1]',
  'o Integer a default=1 range=[0,2]',
  'o Integer a default=1 range=[0,2] optional',
  'o Integer a default=1 optional',
  'o Integer a range=[0,2] optional',
  'o Double a default=0.5 range=[0.0,1.0] optional',
  'o Colour a default="RED"',
  ...['/^a$/', '/a/i', '/a/u', '/a/g', '/a/y', '/[/]/', '/\\//', '/a b/'].map(
    (regex) => `o String a regex=${regex}`,
  ),
  'o String[] a regex=/x/',
  'o String a regex = /x/',
  'o String a regex=/x/ optional',
  'o String a default="x" regex=/x/ optional',
]

const DECLARATIONS_OF_NEITHER = [
  'asset X { o String v }',
  'participant X { o String v }',
  'asset X identified by v { o String v optional }',
  'asset X identified by v { o Integer v }',
  'asset X identified by v { o Colour v }',
  'asset X identified by v { --> Base v }',
  'asset X identified by v { o String w }',
  'asset X identified by b extends Base {}',
  'asset X identified by c identified by c { o String c }',
  'asset X identified by c extends Base identified by c { o String c }',
  'asset X extends Abstract identified by v { o String v }',
  'participant X extends Member identified by v { o String v }',
  'asset X extends Base extends Base {}',
  'asset X extends Person {}',
  'asset X extends Size {}',
  'concept X extends Base {}',
  'asset X extends Nothing {}',
  'concept X extends X {}',
  'concept X extends Y {} concept Y extends X {}',
  'transaction X identified by v { o String v }',
  'transaction X identified by transactionId {}',
  'event X identified by v { o String v }',
  'concept X identified by v { o String v }',
  'abstract enum X { o C }',
  'enum X extends Colour { o C }',
  'enum X { o C default="x" }',
  'enum X { o C o C }',
  'concept X {} concept X {}',
  'asset Asset identified by a { o String a }',
  'transaction Transaction {}',
  'Asset X identified by a { o String a }',
  'abstract @a concept X {}',
  '@a @a concept X {}',
  'concept X { o String a',
]

const FIELDS_OF_NEITHER = [
  'o Nothing a',
  'o String a o String a',
  'o String a;',
  'o String a[]',
  'o String[][] a',
  '--> Size a',
  '--> Colour a',
  '--> String a',
  '--> Base a default="x"',
  ...['1', 'true', 'null', 'A'].map((value) => `o String a default=${value}`),
  ...['"x"', '1', 'null'].map((value) => `o Boolean a default=${value}`),
  'o DateTime a default=1',
  ...['"x"', 'true', 'null'].map((value) => `o Double a default=${value}`),
  ...['"x"', '1.5', 'true', '0x10'].map((value) => `o Integer a default=${value}`),
  'o Colour a default=RED',
  ...['[,]', '[10,0]', '[1.5,]'].map((range) => `o Integer a range=${range}`),
  ...['[,]', '[10.0,0.0]'].map((range) => `o Double a range=${range}`),
  ...['String', 'Boolean', 'DateTime', 'Size', 'Colour'].map((type) => `o ${type} a range=[0,1]`),
  ...['/(/', '/a/z', '"a"', '//'].map((regex) => `o String a regex=${regex}`),
  ...['Integer', 'Boolean', 'DateTime', 'Size'].map((type) => `o ${type} a regex=/a/`),
]

/** Declarations that daicho accepts and Composer rejects. The first text says what daicho permits. */
const ONLY_DAICHO: readonly [string, string][] = [
  ['any space', 'asset X identified  by v { o String v }'],
  ['any space', 'asset X identified\nby v { o String v }'],
  ['any space', ofField('o String[ ] a')],
  ['any space', '@a ("x") concept X {}'],
  ['qualified names', 'asset X extends org.test.Base {}'],
  ['qualified names', ofField('o org.test.Size a')],
  ['qualified names', ofField('--> org.test.Base a')],
  ['qualified names', '@a(org.test.Size) concept X {}'],
  ['JavaScript keywords as names', ofField('o String default')],
  ['JavaScript keywords as names', ofField('o String class')],
  ['JavaScript keywords as names', ofField('o String import')],
  ['relationships to any type with an id', ofField('--> Move a')],
  ['relationships to any type with an id', ofField('--> Moved a')],
  ['any number', ofField('o Double a default=1')],
  ['any number', ofField('o Double a range=[0,10]')],
  ['any number', ofField('o Integer a default=1.0')],
  ['any number', ofField('o Integer a range=[0.0,1e3]')],
  ['either order', ofField('o String a regex=/x/ default="x" optional')],
  ['either order', ofField('o String a optional regex=/x/')],
  ['either order', ofField('o String a optional default="x"')],
  ['either order', ofField('o Integer a range=[0,2] default=1')],
  ['either order', ofField('o Integer a optional range=[0,2]')],
  ['either order', ofField('o Double a range=[0.0,1.0] default=0.5')],
]

/**
 * Declarations that Composer accepts and daicho rejects, with the error. docs/reference/gateway/networks.md
 * gives the reasons.
 */
const ONLY_COMPOSER: readonly [string, string][] = [
  ['asset X identified by v { o String[] v }', 'v identifies X, so it must be a String'],
  ['concept Asset { o String a }', 'Asset is a reserved name'],
  ['concept String { o String a }', 'String is a reserved name'],
  [ofField('o String $x'), '$x is not a valid name of a property'],
  [ofField('o String \\u0061bc'), 'expected the name of the property, found “\\”'],
  [ofField('oString a'), 'expected a property: “o” or “-->”, found “oString”'],
  ['@a(0x1F) concept X {}', 'expected “)”, found “x1F”'],
  ['@returns(Nothing) transaction X {}', '@returns names the unknown type Nothing'],
  [ofField('o String[] a default="x"'), 'a cannot have a default'],
  [ofField('o Size a default="x"'), 'a cannot have a default'],
  [ofField('o Colour a default="x"'), 'the default of a must be a value of Colour'],
  [ofField('o DateTime a default="x"'), 'the default of a must be a date and time'],
  [ofField('o Integer a default=5 range=[0,2]'), 'the default of a is outside of its range'],
  [
    ofField('o String a default="y" regex=/x/'),
    'the default of a does not match its regular expression',
  ],
]

describe('declarations and fields', () => {
  it.each([...DECLARATIONS_OF_BOTH, ...FIELDS_OF_BOTH.map(ofField)])(
    'accepts, like Composer: %s',
    (text) => {
      expect(errorAfterBase(text)).toBeNull()
    },
  )

  it.each([...DECLARATIONS_OF_NEITHER, ...FIELDS_OF_NEITHER.map(ofField)])(
    'rejects, like Composer: %s',
    (text) => {
      expect(errorAfterBase(text)).toMatch(/^models\/m0\.cto:\d+:\d+: error: ./)
    },
  )

  it.each(ONLY_DAICHO)('accepts, unlike Composer, %s: %s', (_reason, text) => {
    expect(errorAfterBase(text)).toBeNull()
  })

  it.each(ONLY_COMPOSER)('rejects, unlike Composer: %s', (text, message) => {
    expect(errorAfterBase(text)).toMatch(/^models\/m0\.cto:10:\d+: error: /)
    expect(errorAfterBase(text)?.endsWith(message), errorAfterBase(text) ?? '').toBe(true)
  })
})

describe('files and imports', () => {
  const other = 'namespace org.other\nconcept A {} concept B {}'
  const importing = (imports: string, body = 'concept X { o A a }') =>
    `namespace org.test\n${imports}\n${body}`

  it.each([
    ['a type', [importing('import org.other.A'), other]],
    ['all types', [importing('import org.other.*', 'concept X { o A a o B b }'), other]],
    [
      'a type, with an address',
      [importing('import org.other.A from https://example.org/a.cto'), other],
    ],
    [
      'all types, with an address',
      [importing('import org.other.* from github://a/b/c.cto'), other],
    ],
    [
      'several types on one line',
      ['namespace org.test import org.other.A import org.other.B', other],
    ],
    ['a type twice', [importing('import org.other.A\nimport org.other.A'), other]],
    [
      'all types, and declares one of the same name',
      [importing('import org.other.*', 'concept A {} concept X { o A a }'), other],
    ],
    [
      'its own namespace',
      ['namespace org.test\nimport org.test.Y\nconcept X { o Y y } concept Y {}'],
    ],
    ['a type to extend', [importing('import org.other.A', 'concept X extends A {}'), other]],
    ['a system type', ['namespace org.test\nimport org.hyperledger.composer.system.Asset']],
    ['all system types', ['namespace org.test\nimport org.hyperledger.composer.system.*']],
    [
      'a type of a file that imports its types',
      [
        importing('import org.other.A'),
        'namespace org.other\nimport org.test.X\nconcept A { o X x }',
      ],
    ],
    ['nothing', ['namespace org.test']],
    ['nothing, after comments', ['/* a */\n// b\nnamespace org.test\nconcept X {}']],
    ['nothing, after a byte order mark', ['\ufeffnamespace org.test\nconcept X {}']],
    ['nothing, in a namespace of one part', ['namespace test\nconcept X {}']],
    ['nothing, in a namespace with digits', ['namespace org1.v2\nconcept X {}']],
  ])('accepts, like Composer, a file that imports %s', (_label, models) => {
    expect(errorIn(models)).toBeNull()
  })

  it.each([
    ['a missing type', [importing('import org.other.C', ''), other]],
    ['a type of a missing namespace', [importing('import org.none.C', ''), other]],
    ['all types of a missing namespace', [importing('import org.none.*', ''), other]],
    ['nothing, and uses a type of another namespace', [importing(''), other]],
    ['nothing, in the namespace of another file', ['namespace a\nconcept X {}', 'namespace a']],
    [
      'nothing, in the system namespace',
      ['namespace org.hyperledger.composer.system\nconcept X {}'],
    ],
    ['nothing, without a namespace', ['concept X {}']],
    ['nothing, with two namespaces', ['namespace org.a namespace org.b concept X {}']],
    ['nothing, with a dash in its namespace', ['namespace org-x.test\nconcept X {}']],
    ['nothing, with a number in its namespace', ['namespace org.2v\nconcept X {}']],
    ['nothing, and is empty', ['']],
  ])('rejects, like Composer, a file that imports %s', (_label, models) => {
    expect(errorIn(models)).toMatch(/^models\/m[01]\.cto:\d+:\d+: error: ./)
  })

  it('accepts qualified names without an import and imports after declarations, unlike Composer', () => {
    expect(errorIn(['namespace org.test\nconcept X {}\nimport org.other.A', other])).toBeNull()
    expect(errorIn([importing('', 'concept X { o org.other.A a }'), other])).toBeNull()
  })

  it('rejects two imported types with the same short name, although Composer silently uses one of them', () => {
    const own = importing('import org.other.A', 'concept A {} concept X { o A a }')
    expect(errorIn([own, other])).toMatch(
      /: the imported org\.other\.A conflicts with org\.test\.A$/,
    )
    const third = 'namespace org.third\nconcept A {}'
    expect(errorIn([importing('import org.other.A\nimport org.third.A'), other, third])).toMatch(
      /: the imported org\.third\.A conflicts with org\.other\.A$/,
    )
  })
})
