#!/usr/bin/env bash
# Packs the project, installs the package into an empty folder, and starts all components twice with Node 22 and
# Node 24, which npm installs too. Fails if a component is not ready, or if anything is written to stderr. Prints
# the number of installed packages, and the time until all components are ready. The first start of a Node fills
# its compile cache:
#   test/foreign/package.sh
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
node=
trap '[ -z "$node" ] || kill "$node"; rm -rf "$work"' EXIT
ports='--port 0 --converter-port 0 --rates-port 0 --sample-port 0 --gateway-port 0'

(cd "$root" && npm pack --silent --pack-destination "$work" >/dev/null)
mkdir "$work/installed"
cd "$work/installed"
npm init -y >/dev/null
npm install --silent --no-audit --no-fund "$work"/daicho-*.tgz
echo "$(npm ls --all --parseable | tail -n +2 | sort -u | wc -l) packages"

for version in 22 24; do
  folder=$work/node$version
  mkdir "$folder"
  echo '{"private":true,"allowScripts":{"node":true}}' >"$folder/package.json"
  npm install --prefix "$folder" --silent --no-audit --no-fund "node@$version"
  for start in first second; do
    # Only errors are logged, because the stored rates are old, and the rates component logs a warning about it.
    begin=$(date +%s%3N)
    # shellcheck disable=SC2086 # $ports is a list.
    PATH=$folder/node_modules/.bin:$PATH RATES_SOURCES=snapshot LOG_LEVEL=error SYSTEM_FOLDER=$folder/data \
      node_modules/.bin/daicho serve $ports \
      >"$folder/addresses" 2>"$folder/stderr" &
    node=$!
    until [ "$(wc -l <"$folder/addresses")" -eq 5 ]; do
      kill -0 "$node" || { cat "$folder/stderr" && exit 1; }
      sleep 0.02
    done
    while read -r component url; do
      path=/healthz
      case $component in
        ledger) path=/readyz ;;
        converter) path=/json ;;
        samples) path=/doc/json ;;
        gateway) path=/api/system/ping ;;
      esac
      curl -sf "$url$path" -o /dev/null || { echo "$component is not ready at $path" && exit 1; }
    done <"$folder/addresses"
    echo "Node $("$folder"/node_modules/.bin/node --version): ready after $(($(date +%s%3N) - begin)) ms ($start start)"
    kill "$node"
    wait "$node" || { echo "the node ended with code $?" && exit 1; }
    node=
    [ ! -s "$folder/stderr" ] || { cat "$folder/stderr" && exit 1; }
  done
done
