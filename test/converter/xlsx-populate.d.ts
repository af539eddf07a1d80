/** The types of xlsx-populate that the tests use. */
declare module 'xlsx-populate' {
  interface Cell {
    /** Index of the cell's style in the workbook. */
    readonly _styleId: number | undefined
    value(): unknown
    style(name: 'fill'): { type: string; color: { rgb: string } } | undefined
    columnNumber(): number
    rowNumber(): number
  }
  interface Sheet {
    name(): string
    usedRange(): { cells(): Cell[][]; address(): string; endCell(): Cell }
    column(number: number): { width(): number | undefined }
    row(number: number): { height(): number | undefined }
  }
  interface Workbook {
    sheet(index: number): Sheet
    sheets(): Sheet[]
  }
  const XlsxPopulate: { fromDataAsync(bytes: Uint8Array): Promise<Workbook> }
  namespace XlsxPopulate {
    export type { Cell }
  }
  export = XlsxPopulate
}
