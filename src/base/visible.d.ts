export function visible(text: string): string
export function visibleJson(json: string): string
export function visibleText(text: string): string
export function originalText(shown: string): string
export function toFileName(name: string): string
