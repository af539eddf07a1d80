#!/usr/bin/env bash
# Builds the Dockerfile with buildah, without a registry of images: the base image has the name that the Dockerfile
# uses, and is made of Debian and of the Node and npm that npm installs. Then runs the container with runc, as the
# user `node` with a read-only root and no capabilities, waits until the health check succeeds, and stops the
# container. Prints the size of the image over its base. Run it as root, with buildah, runc, mmdebstrap and jq:
#   test/foreign/container.sh [npmrc]
# The npmrc is mounted for `npm ci`. The file at its `cafile` is mounted too.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
npmrc=${1:-}
work=$(mktemp -d)
base=$(sed -n 's/^FROM \(node:[^ ]*\)$/\1/p' "$root/Dockerfile")
version=${base#node:}
version=${version%%-*}
export BUILDAH_ISOLATION=chroot
buildah() { command buildah --root "$work/images" --runroot "$work/run" --storage-driver vfs "$@"; }
trap 'runc delete --force daicho-test 2>/dev/null || true; rm -rf "$work"' EXIT

echo "== $base"
mmdebstrap --quiet --variant=minbase bookworm "$work/base.tar"
mkdir "$work/node"
echo '{"private":true,"allowScripts":{"node":true}}' >"$work/node/package.json"
npm install --prefix "$work/node" --silent --no-audit --no-fund "node@$version" npm@11
container=$(buildah from scratch)
buildah add --quiet "$container" "$work/base.tar" / >/dev/null
buildah copy --quiet "$container" "$work/node/node_modules/node/bin/node" /usr/local/bin/node >/dev/null
buildah copy --quiet "$container" "$work/node/node_modules/npm" /usr/local/lib/npm >/dev/null
buildah run "$container" -- sh -c 'ln -s ../lib/npm/bin/npm-cli.js /usr/local/bin/npm && useradd --uid 1000 --create-home node'
buildah commit --quiet --rm "$container" "localhost/$base" >/dev/null

echo '== Dockerfile'
volumes=()
if [ -n "$npmrc" ]; then
  volumes+=(--volume "$(realpath "$npmrc"):/root/.npmrc:ro")
  certificates=$(sed -n 's/^cafile *= *//p' "$npmrc")
  [ -z "$certificates" ] || volumes+=(--volume "$certificates:$certificates:ro")
fi
# buildah stores the health check only in the format of Docker.
buildah build --quiet --format docker --pull-never --network host "${volumes[@]}" --tag daicho "$root" >/dev/null
size_of() { buildah images --json "$1" | jq -r '.[0].size'; }
echo "base image $(size_of "localhost/$base"), daicho $(size_of localhost/daicho)"

echo '== run'
mounted=$(buildah mount "$(buildah from --pull-never localhost/daicho)")
buildah inspect --type image localhost/daicho | jq .Docker.config >"$work/image.json"
mkdir "$work/bundle" "$work/data"
chown 1000:1000 "$work/data"
cd "$work/bundle"
runc spec
jq --slurpfile image "$work/image.json" --arg mounted "$mounted" --arg data "$work/data" '
  $image[0] as $i
  | .root = { path: $mounted, readonly: true }
  | .process.terminal = false
  | .process.user = { uid: 1000, gid: 1000 }
  | .process.cwd = $i.WorkingDir
  | .process.args = $i.Entrypoint + $i.Cmd
  | .process.env = $i.Env + ["BASIC_USERNAME=admin", "BASIC_PASSWORD=test", "LOG_LEVEL=error"]
  | .process.capabilities = {}
  | .mounts += [{ destination: "/data", type: "bind", source: $data, options: ["bind", "rw"] }]
  | .linux.namespaces |= map(select(.type != "network"))' config.json >changed.json
mv changed.json config.json
runc run --detach daicho-test >"$work/stdout" 2>"$work/stderr" </dev/null
mapfile -t check < <(jq -r '.Healthcheck.Test[1:][]' "$work/image.json")
for attempt in $(seq 60); do
  if runc exec daicho-test "${check[@]}"; then break; fi
  [ "$attempt" -lt 60 ] || { cat "$work/stderr" && exit 1; }
  sleep 0.5
done
runc exec daicho-test node -e '
  const { mkdirSync } = require("node:fs")
  const { getuid } = process
  try { mkdirSync("/opt/daicho/new"); throw new Error("the root is not read-only") }
  catch (error) { if (error.code !== "EROFS") throw error }
  if (getuid() !== 1000) throw new Error(`the user is ${getuid()}`)'
runc kill daicho-test TERM
until [ "$(runc state daicho-test | jq -r .status)" = stopped ]; do sleep 0.2; done
[ ! -s "$work/stderr" ] || { cat "$work/stderr" && exit 1; }
echo 'the health check succeeded'
