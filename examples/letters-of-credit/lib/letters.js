const NS = 'org.example.letters'

/** Returns the four parties of a letter. */
function partiesOf(letter) {
  const { importer, exporter } = letter
  return [importer, exporter, importer.bank, exporter.bank]
}

/** Whether `party` is a party of `letter`. The access rules call this function. */
function takesPart(letter, party) {
  return partiesOf(letter).includes(party)
}

function requireStatus(letter, status) {
  if (letter.status === status) return
  throw new Error(`the letter ${letter.letterId} is ${letter.status}, not ${status}`)
}

async function changeTo(letter, status) {
  letter.status = status
  const letters = await getAssetRegistry(`${NS}.Letter`)
  await letters.update(letter)
  tell(letter)
}

function tell(letter) {
  const event = getFactory().newEvent(NS, 'StatusChanged')
  Object.assign(event, { status: letter.status, letter, by: getCurrentParticipant() })
  emit(event)
}

/**
 * Creates a letter for the caller, its importer. The application counts as the importer's approval.
 * @param {org.example.letters.Apply} apply
 * @transaction
 */
async function apply(apply) {
  const letter = getFactory().newResource(NS, 'Letter', apply.letterId)
  const { amount, terms, exporter } = apply
  const importer = getCurrentParticipant()
  Object.assign(letter, { amount, terms, exporter, importer, approvedBy: [importer] })
  const letters = await getAssetRegistry(`${NS}.Letter`)
  await letters.add(letter)
  tell(letter)
}

/**
 * Records the approval of the calling party. The letter is approved when all four parties have approved it.
 * @param {org.example.letters.Approve} approve
 * @transaction
 */
async function approve({ letter }) {
  requireStatus(letter, 'WAITING')
  const party = getCurrentParticipant()
  if (letter.approvedBy.includes(party)) throw new Error(`${party.partyId} has approved already`)
  letter.approvedBy.push(party)
  const all = partiesOf(letter).every((each) => letter.approvedBy.includes(each))
  await changeTo(letter, all ? 'APPROVED' : 'WAITING')
}

/**
 * @param {org.example.letters.Reject} reject
 * @transaction
 */
async function reject({ letter, reason }) {
  requireStatus(letter, 'WAITING')
  letter.evidence = reason
  await changeTo(letter, 'REJECTED')
}

/**
 * @param {org.example.letters.Ship} ship
 * @transaction
 */
async function ship({ letter, evidence }) {
  requireStatus(letter, 'APPROVED')
  if (letter.exporter !== getCurrentParticipant()) throw new Error('only the exporter can ship')
  letter.evidence = evidence
  await changeTo(letter, 'SHIPPED')
}

/**
 * @param {org.example.letters.Close} close
 * @transaction
 */
async function close({ letter }) {
  requireStatus(letter, 'SHIPPED')
  if (letter.importer.bank !== getCurrentParticipant())
    throw new Error("only the importer's bank can close the letter")
  letter.closed = new Date()
  await changeTo(letter, 'CLOSED')
}

/**
 * Returns the number and the total amount of the caller's open letters.
 * @param {org.example.letters.Sum} sum
 * @transaction
 */
async function sum(_sum) {
  const open = await query('openLetters')
  const standing = getFactory().newConcept(NS, 'Standing')
  standing.open = open.length
  standing.amount = open.reduce((total, letter) => total + letter.amount, 0)
  return standing
}
