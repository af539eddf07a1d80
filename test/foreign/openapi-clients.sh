#!/usr/bin/env bash
# Generates TypeScript types and a Python client from the OpenAPI document of each component, with generators
# that the project does not depend on, and uses both clients of the ledger with a node. Needs the registries of
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
trap 'kill %1; rm -rf "$work"' EXIT
# The addresses are printed when all components listen.
until [ "$(wc -l <"$work/addresses")" -eq 5 ]; do
  kill -0 %1
  sleep 0.2
done
cd "$work"
url_of() { sed -n "s/^$1 //p" addresses; }
for component in $components; do
  curl -sf "$(url_of "$component")${documents[$component]}" -o "$component.json"
done
url=$(url_of ledger)

echo '== openapi-typescript'
npm init -y >/dev/null
npm install --silent openapi-typescript@7.13.0 openapi-fetch@0.17.0 typescript@5.9.3 @types/node
for component in $components; do
  npx openapi-typescript "$component.json" -o "$component.d.ts"
  npx tsc --noEmit --strict "$component.d.ts"
done
cat >use.mts <<'TS'
import createClient from 'openapi-fetch'
import type { paths } from './ledger.d.ts'

const client = createClient<paths>({ baseUrl: process.argv[2] })
const params = { path: { db: 'typescript' } }
await client.POST('/api/{db}', { params })
await client.POST('/api/{db}', { params, body: { id: 'plum', price: 80 } })
const { data } = await client.GET('/api/{db}/{id}', { params: { path: { db: 'typescript', id: 'plum' } } })
if (data?.item.price !== 80) throw new Error(`unexpected reply: ${JSON.stringify(data)}`)
console.log('the TypeScript client created and read an item')
TS
npx tsc --strict --module nodenext --target es2022 --skipLibCheck use.mts
"$node" use.mjs "$url"

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
python - "$url" <<'PY'
import sys
from daicho_ledger_database_client import Client
from daicho_ledger_database_client.api.items import read_item
from daicho_ledger_database_client.api.ledger import record_changes
from daicho_ledger_database_client.models import RecordChangesBody

client = Client(base_url=sys.argv[1])
changes = RecordChangesBody.from_dict({'entries': [
    {'method': 'create_db', 'db': 'python'},
    {'method': 'create_item', 'db': 'python', 'item': {'id': 'plum', 'price': 80}},
]})
assert record_changes.sync_detailed(client=client, body=changes).status_code == 200
item = read_item.sync('python', 'plum', client=client).item
assert item['price'] == 80, item
print('the Python client created and read an item')
PY
