// The upload page: requests a preview whenever an option changes, and the workbook when the form is submitted. Text
// from a file is inserted only with textContent.
import { language, t } from '{{assets}}/language.js'
import { toFileName, visible } from '{{assets}}/visible.js'

const FILE_BYTES_MAX = 10 * 1024 * 1024
/** Number of colours above which LibreOffice opens a workbook slowly. */
const COLORS_SLOW = 8_192
/** Delay between the last change of an option and the request for a preview. */
const PREVIEW_DELAY_MS = 250

const at = (id) => document.getElementById(id)
const form = at('form')
const fileInput = at('file')
const canvas = at('canvas')
const number = new Intl.NumberFormat(language)

/** @type {File | null} */
let file = null
/** @type {AbortController | null} */
let preview = null
/** @type {XMLHttpRequest | null} */
let download = null
let previewTimer = 0
/** Number of colours in the last preview, and a guess before the first preview. */
let colorsUsed = 10_000

function showMessage(text, kind = '') {
  const message = at('message')
  message.textContent = text
  message.className = `message ${kind}`
}

function size(bytes) {
  return bytes < 1e6
    ? `${number.format(Math.ceil(bytes / 1e3))} kB`
    : `${number.format(Math.round(bytes / 1e5) / 10)} MB`
}

/** Returns the fields to send. The file comes last, so that errors in the other fields are reported first. */
function fields() {
  const data = new FormData()
  for (const [name, value] of new FormData(form)) {
    if (name !== 'file' && value !== '') data.append(name, value)
  }
  data.append('file', file, file.name)
  return data
}

function choose(chosen) {
  if (!chosen) return
  file = chosen
  at('file-name').textContent = visible(chosen.name)
  at('file-facts').textContent = `${size(chosen.size)} · ${t('choose another', '別の画像を選択')}`
  if (chosen.size > FILE_BYTES_MAX) {
    clearPreview()
    const has = size(chosen.size)
    showMessage(
      t(`This file is ${has}; the maximum is 10 MiB.`, `${has} あります。10 MiB までです。`),
      'bad',
    )
    return
  }
  void showPreview()
}

function clearPreview() {
  preview?.abort()
  at('stage').classList.remove('busy')
  canvas.hidden = true
  at('empty').hidden = false
  at('facts').hidden = true
  at('hint').hidden = true
}

/** Returns the error message in a reply. */
async function reasonOf(response) {
  try {
    const { message } = await response.json()
    return visible(`${message.charAt(0).toUpperCase()}${message.slice(1)}.`)
  } catch {
    return t(
      `The service replied with status ${response.status}.`,
      `サービスの応答: ${response.status}`,
    )
  }
}

/** Returns `text`, or that the chosen file cannot be read, which browsers report like a failed connection. */
async function failureText(chosen, text) {
  try {
    await chosen.slice(0, 1).arrayBuffer()
    return text
  } catch {
    return t(
      'The file cannot be read: it is a folder, or was changed, moved or removed. Choose it again.',
      'ファイルを読み込めません。フォルダーであるか、変更、移動または削除されています。選択し直してください。',
    )
  }
}

async function showPreview() {
  preview?.abort()
  if (file === null || file.size > FILE_BYTES_MAX || !form.checkValidity()) return
  const controller = new AbortController()
  preview = controller
  at('stage').classList.add('busy')
  showMessage('')
  try {
    const response = await fetch('/preview', {
      method: 'POST',
      body: fields(),
      signal: controller.signal,
    })
    if (!response.ok) {
      const reason = await reasonOf(response)
      if (preview !== controller) return
      clearPreview()
      showMessage(reason, 'bad')
      return
    }
    const picture = await createImageBitmap(await response.blob())
    if (preview !== controller) return
    draw(picture, response.headers.get('x-daicho-colors'))
    at('stage').classList.remove('busy')
  } catch {
    const text = t('The service cannot be reached.', 'サービスに接続できません。')
    const reason = await failureText(file, text)
    if (preview !== controller || controller.signal.aborted) return
    clearPreview()
    showMessage(reason, 'bad')
  }
}

function draw(picture, counts) {
  const px = Number(form.elements.px.value || form.elements.px.placeholder)
  canvas.width = picture.width
  canvas.height = picture.height
  canvas.getContext('2d').drawImage(picture, 0, 0)
  // Shows the picture as wide as the sheet. The style sheet limits the width to the available space.
  canvas.style.width = `${picture.width * px}px`
  canvas.hidden = false
  at('empty').hidden = true

  const [, used = '0', distinct = '0'] = /^(\d+) of (\d+)$/.exec(counts) ?? []
  colorsUsed = Number(used)
  at('grid').textContent = `${number.format(picture.width)} × ${number.format(picture.height)}`
  at('cells').textContent = number.format(picture.width * picture.height)
  at('colors').textContent =
    used === distinct
      ? number.format(Number(used))
      : [used, distinct].map((count) => number.format(Number(count))).join(' / ')
  const screen = [picture.width * px, picture.height * px].map((side) => number.format(side))
  at('screen').textContent = `${screen.join(' × ')} px`
  at('facts').hidden = false
  at('hint').hidden = colorsUsed < COLORS_SLOW
}

/** Returns a rough estimate of the size of the workbook. */
function expectedBytes() {
  return canvas.width * canvas.height * 5.5 + colorsUsed * 12 + 3_000
}

function sendForm(event) {
  event.preventDefault()
  if (file === null || download !== null) return
  const request = new XMLHttpRequest()
  const sent = file
  const expected = expectedBytes()
  download = request
  at('convert').disabled = true
  at('progress').hidden = false
  showMessage('')
  const step = (part, text) => {
    at('bar').value = part
    at('progress-text').textContent = text
  }
  step(0, t('Sending …', '送信中…'))
  request.upload.onprogress = ({ loaded, total }) =>
    step((loaded / total) * 0.2, `${t('Sending', '送信中')} ${size(loaded)} / ${size(total)}`)
  request.upload.onload = () => step(0.2, t('Converting …', '変換中…'))
  request.onprogress = ({ loaded }) =>
    step(
      0.2 + 0.79 * (1 - Math.exp((-2 * loaded) / expected)),
      `${t('Received', '受信')} ${size(loaded)}`,
    )
  request.onload = () => void finished(request)
  request.onerror = async () => {
    const text = t(
      'The connection was interrupted; nothing was saved.',
      '接続が切れました。保存していません。',
    )
    ended(await failureText(sent, text), 'bad')
  }
  request.onabort = () => ended(t('Cancelled.', '中止しました。'))
  request.open('POST', '/image')
  request.setRequestHeader('accept', 'application/vnd.ms-excel')
  request.responseType = 'blob'
  request.send(fields())
}

/** Returns the file name in a Content-Disposition header. */
function nameIn(disposition) {
  const [, extended] = /filename\*=UTF-8''(.*)$/.exec(disposition) ?? []
  if (extended !== undefined) return decodeURIComponent(extended)
  return /filename="?([^"]*)/.exec(disposition)[1]
}

async function finished(request) {
  const body = request.response
  if (request.status !== 200) {
    ended(await reasonOf(new Response(body, { status: request.status })), 'bad')
    return
  }
  const link = document.createElement('a')
  link.href = URL.createObjectURL(body)
  link.download = toFileName(nameIn(request.getResponseHeader('content-disposition')))
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
  const saved = `${link.download}, ${size(body.size)}`
  ended(t(`Saved ${saved}.`, `保存しました: ${saved}`), 'good')
}

function ended(text, kind) {
  download = null
  at('convert').disabled = false
  at('progress').hidden = true
  showMessage(text, kind)
}

function optionsChanged() {
  clearTimeout(previewTimer)
  previewTimer = setTimeout(() => void showPreview(), PREVIEW_DELAY_MS)
}

fileInput.addEventListener('change', () => choose(fileInput.files[0]))
form.addEventListener('input', (event) => {
  if (event.target !== fileInput) optionsChanged()
})
form.addEventListener('submit', sendForm)
at('cancel').addEventListener('click', () => download?.abort())
at('background-on').addEventListener('change', (event) => {
  at('background').disabled = !event.target.checked
})
at('fewer').addEventListener('click', () => {
  form.elements.colors.value = '4096'
  void showPreview()
})

// Accepts drops anywhere on the page. Otherwise the browser would open a file that is dropped outside of the form.
for (const kind of ['dragenter', 'dragover', 'dragleave', 'drop']) {
  document.addEventListener(kind, (event) => {
    event.preventDefault()
    at('drop').classList.toggle('over', kind === 'dragenter' || kind === 'dragover')
  })
}
document.addEventListener('drop', (event) => {
  const [dropped] = event.dataTransfer?.files ?? []
  if (dropped === undefined) return
  // Also puts the file into the form, so that the browser does not report it as missing.
  fileInput.files = event.dataTransfer.files
  choose(dropped)
})
document.addEventListener('paste', (event) => {
  const [pasted] = event.clipboardData?.files ?? []
  if (pasted === undefined) return
  fileInput.files = event.clipboardData.files
  choose(pasted)
})
