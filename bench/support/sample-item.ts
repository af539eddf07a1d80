/** Returns a typical item of about 300 bytes with short texts, a number and a list. */
export function sampleItem(): Record<string, unknown> {
  return {
    name: 'Kochi',
    country: 'JP',
    lat: '33.55965',
    lng: '133.53108',
    admin1: '20',
    admin2: '1859133',
    tags: ['port', 'castle'],
    population: 326_545,
    note: 'x'.repeat(150),
  }
}
