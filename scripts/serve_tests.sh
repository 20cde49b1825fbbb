#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The inference server as its users have it:
#   scripts/serve_tests.sh                   tritonclient against it, where Python can import that
#   scripts/serve_tests.sh --soak [SECONDS [CLIENTS]]
#                                            200 clients, at a limit that fits three of their requests,
#                                            in a cgroup whose memory.max is a little above, where the
#                                            machine allows one (60 seconds)
#   scripts/serve_tests.sh --slow [SECONDS]  latency beside connections that are half open, bodies that
#                                            trickle and responses that are read slowly (15 seconds each)
# PYTHON names the interpreter (python3), BUILD the build folder (build/release).
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build/release}
python=${PYTHON:-python3}
work=$(mktemp -d)
server=
cgroup=
finish() {
  if [ -n "$server" ]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  if [ -n "$cgroup" ]; then rmdir "$cgroup" 2>/dev/null || true; fi
  rm -rf "$work"
}
trap finish EXIT

# make_cgroup BYTES: servers start in it from here on; sets `maximum`, `cgroup` and `most`, the file
# that tells what it had, or no `cgroup` where none can be made.
make_cgroup() {
  maximum=$1
  local memory root max
  for memory in /sys/fs/cgroup/memory:memory.limit_in_bytes:memory.max_usage_in_bytes \
    /sys/fs/cgroup:memory.max:memory.peak; do
    IFS=: read -r root max most <<<"$memory"
    cgroup=$root/plimsoll_serve_$$
    if mkdir "$cgroup" 2>/dev/null && [ -w "$cgroup/$max" ] && echo "$maximum" >"$cgroup/$max" 2>/dev/null; then
      return
    fi
    rmdir "$cgroup" 2>/dev/null || true
    cgroup=
  done
}

# start [OPTION]...: a server over the folder of models; sets `server` and `port`.
start() {
  : >"$work/output"
  (
    if [ -n "$cgroup" ]; then echo "$BASHPID" >"$cgroup/cgroup.procs"; fi
    exec "$build/examples/serve" "$work/models" --port 0 "$@" >"$work/output" 2>"$work/errors"
  ) &
  server=$!
  for _ in $(seq 600); do
    port=$(sed -n 's|^serving on http://127.0.0.1:||p' "$work/output")
    if [ -n "$port" ]; then return; fi
    if ! kill -0 "$server" 2>/dev/null; then break; fi
    sleep 0.1
  done
  echo "serve_tests: the server did not start" >&2
  cat "$work/errors" >&2
  exit 1
}

model() { # NAME: the program comes from standard input
  mkdir -p "$work/models/$1/1"
  cat >"$work/models/$1/1/model.hlo"
}

if [ "${1:-}" = --soak ]; then
  seconds=${2:-60}
  clients=${3:-200}
  buffers=$((64 << 20))
  side=256
  {
    type="f32[$side,$side]"
    echo "HloModule layers"
    echo "ENTRY main {"
    echo "  x0 = $type parameter(0)"
    echo "  w = $type parameter(1)"
    for i in 1 2 3 4 5 6; do
      echo "  d$i = $type dot(x$((i - 1)), w), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
      echo "  x$i = $type tanh(d$i)"
    done
    last=x6
    for i in 5 4 3 2 1 0; do
      echo "  e$i = $type dot($last, x$i), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
      echo "  g$i = $type tanh(e$i)"
      last=g$i
    done
    echo "  ROOT y = $type negate($last)"
    echo "}"
  } | model layers
  echo '{"queue": 150, "timeout_milliseconds": 20000}' >"$work/models/layers/config.json"
  start
  peak=$("$python" -c 'import sys, urllib.request
text = urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/metrics").read().decode()
print(next(line.split()[-1] for line in text.splitlines() if line.startswith("plimsoll_model_peak_bytes{")))' "$port")
  kill "$server"
  wait "$server" || true
  limit=$((3 * peak))
  # The limit is on tensors; beside them the process has the library, plans and bodies.
  make_cgroup $((limit + buffers + (128 << 20)))
  start --memory-limit "$limit" --host-buffers "$buffers"
  if [ -n "$cgroup" ]; then
    echo "serve_tests: in a cgroup of $maximum bytes, limit $limit bytes, host buffers $buffers bytes"
  else
    echo "serve_tests: without a cgroup, as this machine lets us make none; limit $limit bytes"
  fi
  result=0
  "$build/tests/serve/serve_soak" --port "$port" --process "$server" --seconds "$seconds" --side $side \
    --clients "$clients" || result=$?
  if [ -n "$cgroup" ]; then
    echo "serve_tests: the cgroup had $(cat "$cgroup/$most" 2>/dev/null || echo '?') bytes at most"
  fi
  exit $result
fi

if [ "${1:-}" = --slow ]; then
  seconds=${2:-15}
  for pair in small:4,4 large:1048576; do
    model "${pair%%:*}" <<HLO
HloModule negate
ENTRY main {
  x = f32[${pair#*:}] parameter(0)
  ROOT y = f32[${pair#*:}] negate(x)
}
HLO
  done
  echo '{"queue": 256}' >"$work/models/large/config.json"
  start
  for clients in "" "--half-open 300" "--half-open 2000" "--trickling 300" "--trickling 2000" "--readers 60" \
    "--half-open 2000 --silent 300 --trickling 300 --readers 60"; do
    # shellcheck disable=SC2086
    "$python" tests/serve/slow_clients.py "$port" "$server" --seconds "$seconds" $clients
  done
  exit
fi

if ! "$python" -c 'import tritonclient.http' 2>/dev/null; then
  echo "serve_tests: skipped, as $python can't import tritonclient.http (pip install 'tritonclient[http]')"
  exit 0
fi
model add <<'HLO'
HloModule add
ENTRY main {
  a = f32[2,3] parameter(0)
  b = f32[2,3] parameter(1)
  s = f32[2,3] add(a, b)
  d = f32[2,3] subtract(a, b)
  ROOT r = (f32[2,3], f32[2,3]) tuple(s, d)
}
HLO
echo '{"outputs": ["sum", "difference"]}' >"$work/models/add/config.json"
model negate <<'HLO'
HloModule negate
ENTRY main {
  x = f32[4096,4096] parameter(0)
  ROOT y = f32[4096,4096] negate(x)
}
HLO
model rows <<'HLO'
HloModule rows
ENTRY main {
  x = f32[8,64] parameter(0)
  w = f32[64,32] parameter(1)
  d = f32[8,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT y = f32[8,32] tanh(d)
}
HLO
echo '{"batching": {"rows": 8, "whole": ["w"]}}' >"$work/models/rows/config.json"
start --memory-limit 256MiB
"$python" tests/serve/tritonclient_test.py "127.0.0.1:$port"
