#!/usr/bin/env bash
# Generates a TypeScript and a Python client from the OpenAPI document of a ledger, with generators that
# the project does not depend on, and uses both clients with a node. Needs the registries of npm and PyPI,
# Python 3.11 and a built package (`npm run build`):
#   test/foreign/openapi-clients.sh
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
port=4990
url=http://127.0.0.1:$port
(cd "$root" && exec node_modules/.bin/node --disable-warning=ExperimentalWarning dist/cli/main.js serve --only ledger --port $port >"$work/node.log" 2>&1) &
trap 'kill %1; rm -rf "$work"' EXIT
until curl -sf "$url/healthz" >/dev/null; do sleep 0.2; done
cd "$work"
curl -sf "$url/doc/json" -o ledger.json

echo '== openapi-typescript'
npm init -y >/dev/null
npm install --silent openapi-typescript@7.13.0 openapi-fetch@0.17.0 typescript@5.9.3 @types/node
npx openapi-typescript ledger.json -o ledger.d.ts
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
"$root/node_modules/.bin/node" use.mjs "$url"

echo '== openapi-python-client'
python3 -m venv venv
venv/bin/pip install --quiet openapi-python-client==0.29.1 ruff
PATH=$work/venv/bin:$PATH openapi-python-client generate --path ledger.json --output-path python --fail-on-warning
venv/bin/pip install --quiet ./python
venv/bin/python - "$url" <<'PY'
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
