#!/usr/bin/env bash
# Generates TypeScript types and a Python client from the OpenAPI document of each component, with generators
# that the project does not depend on, and uses the clients of the ledger with a node, and with a node that requires
# tokens. They must know the errors 401 and 409 by type. Needs the registries of
# npm and PyPI, Python 3.11 and a built package (`npm run build`):
#   test/foreign/openapi-clients.sh
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
node=$root/node_modules/.bin/node
work=$(mktemp -d)
components='ledger converter rates samples gateway'
declare -A documents=(
  [ledger]=/doc/json [converter]=/json [rates]=/doc/json [samples]=/doc/json [gateway]=/explorer/openapi.json)
ports='--port 0 --converter-port 0 --rates-port 0 --sample-port 0 --gateway-port 0'
# shellcheck disable=SC2086 # $ports is a list.
(cd "$root" && RATES_SOURCES=snapshot exec "$node" --disable-warning=ExperimentalWarning dist/cli/main.js serve $ports >"$work/addresses" 2>"$work/node.log") &
(cd "$root" && TOKENS=required exec "$node" --disable-warning=ExperimentalWarning dist/cli/main.js serve --only ledger --port 0 >"$work/guarded" 2>"$work/guarded.log") &
trap 'kill %1 %2; rm -rf "$work"' EXIT
# The addresses are printed when all components listen.
until [ "$(cat "$work/addresses" "$work/guarded" | wc -l)" -eq 6 ]; do
  kill -0 %1 %2
  sleep 0.2
done
cd "$work"
url_of() { sed -n "s/^$1 //p" addresses; }
for component in $components; do
  curl -sf "$(url_of "$component")${documents[$component]}" -o "$component.json"
done
url=$(url_of ledger)
guarded=$(sed 's/^ledger //' guarded)

echo '== openapi-typescript and orval'
npm init -y >/dev/null
npm install --silent openapi-typescript@7.13.0 openapi-fetch@0.17.0 typescript@5.9.3 orval@8.38.0 @types/node
for component in $components; do
  npx openapi-typescript "$component.json" -o "$component.d.ts"
  npx tsc --noEmit --strict "$component.d.ts"
done
cat >orval.config.mjs <<'JS'
const output = { target: './orval.mts', client: 'fetch', baseUrl: { runtime: 'process.env.LEDGER_URL ?? ""' } }
export default { ledger: { input: './ledger.json', output } }
JS
npx orval
cat >use.mts <<'TS'
import createClient from 'openapi-fetch'
import type { paths } from './ledger.d.ts'
import { create } from './orval.mjs'

const [, , url, guarded] = process.argv
const client = createClient<paths>({ baseUrl: url })
const params = { path: { db: 'typescript' } }
await client.POST('/api/{db}', { params })
await client.POST('/api/{db}', { params, body: { id: 'plum', price: 80 } })
const { data } = await client.GET('/api/{db}/{id}', { params: { path: { db: 'typescript', id: 'plum' } } })
if (data?.item.price !== 80) throw new Error(`unexpected reply: ${JSON.stringify(data)}`)

const { error } = await client.POST('/api/{db}', { params })
const conflict: paths['/api/{db}']['post']['responses'][409]['content']['application/json'] | undefined = error
if (conflict?.code !== 'DATABASE_EXISTS') throw new Error(`unexpected reply: ${JSON.stringify(error)}`)
process.env.LEDGER_URL = url
const again = await create('typescript')
if (again.status !== 409 || again.data.code !== 'DATABASE_EXISTS') throw new Error(`unexpected reply: ${again.status}`)
process.env.LEDGER_URL = guarded
const denied = await create('typescript')
if (denied.status !== 401 || denied.data.code === undefined) throw new Error(`unexpected reply: ${denied.status}`)
console.log('the TypeScript clients created and read an item, and know 401 and 409 by type')
TS
npx tsc --strict --module nodenext --target es2022 --skipLibCheck use.mts
"$node" use.mjs "$url" "$guarded"

echo '== openapi-python-client'
python3 -m venv venv
venv/bin/pip install --quiet openapi-python-client==0.29.1 ruff
export PATH=$work/venv/bin:$PATH
# The generator does not know the types of the converter's replies.
cat >types.yaml <<'YAML'
content_type_overrides:
  application/vnd.ms-excel: application/octet-stream
  application/vnd.openxmlformats-officedocument.spreadsheetml.sheet: application/octet-stream
  image/png: application/octet-stream
YAML
for component in $components; do
  openapi-python-client generate --config types.yaml --path "$component.json" --output-path "python-$component" --fail-on-warning
  python -m compileall -q "python-$component"
done
pip install --quiet ./python-ledger
python - "$url" "$guarded" <<'PY'
import sys
from daicho_ledger_database_client import Client
from daicho_ledger_database_client.api.items import read_item
from daicho_ledger_database_client.api.ledger import record_changes
from daicho_ledger_database_client.models import RecordChangesBody, RecordChangesResponse401, RecordChangesResponse409

client = Client(base_url=sys.argv[1])
changes = RecordChangesBody.from_dict({'entries': [
    {'method': 'create_db', 'db': 'python'},
    {'method': 'create_item', 'db': 'python', 'item': {'id': 'plum', 'price': 80}},
]})
assert record_changes.sync_detailed(client=client, body=changes).status_code == 200
item = read_item.sync('python', 'plum', client=client).item
assert item['price'] == 80, item
conflict = record_changes.sync(client=client, body=changes)
assert isinstance(conflict, RecordChangesResponse409) and conflict.code == 'DATABASE_EXISTS', conflict
denied = record_changes.sync(client=Client(base_url=sys.argv[2]), body=changes)
assert isinstance(denied, RecordChangesResponse401) and denied.code, denied
print('the Python client created and read an item, and knows 401 and 409 by type')
PY
