import { Command } from 'commander'
import { actionsFrom } from './action.ts'

const run = actionsFrom(() => import('../actions/image.ts'))

export function imageCommand(): Command {
  return new Command('image')
    .description('turn an image into a workbook with one coloured cell per pixel')
    .argument('<in>', 'a JPEG, PNG, GIF, WebP, AVIF, TIFF, BMP or SVG file')
    .argument('<out.xlsx>', 'the workbook to write')
    .option('--px <pixels>', 'side of a cell in pixels, 1 to 546 (DEFAULT_PX, else 2)')
    .option('--width <cells>', 'number of columns, up to 16384 (DEFAULT_WIDTH, else 100)')
    .option('--height <cells>', 'number of rows; keeps the proportions if omitted')
    .option('--colors <number>', 'maximum number of colours, up to 65428')
    .option(
      '--background <RRGGBB>',
      'colour behind transparent pixels; transparency is ignored if omitted',
    )
    .option('--resample <how>', 'cubic (smooth) or nearest (hard edges)')
    .option('--grayscale', 'shades of gray')
    .option('--zoom <percent>', 'initial zoom of the sheet, 10 to 400')
    .option('--force', 'overwrite the workbook if it exists')
    .option('--json', 'print the result as one line of JSON')
    .addHelpText(
      'after',
      '\nExit code 0: the workbook was written. 1: the image was rejected. 2: usage, or a file that cannot be\n' +
        'read or written.',
    )
    .action(run('runImage'))
}
