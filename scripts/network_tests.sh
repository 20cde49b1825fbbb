#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Participants on two hosts, which are network namespaces of this one: `network_tests.sh [PRESET]`. As root. Sums over a
# clean network, one with delay and loss (`scripts/lossy_link.py`), and one that is cut; and a program whose results must
# be those of one process.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/${1:-release}
cmake --build "$build" --target collectives_process plimsoll_command >/dev/null
process=$PWD/$build/tests/collectives_process
plimsoll=$PWD/$build/bin/plimsoll
name=plimsoll$$
folder=$(mktemp -d)

link=
clean_up() {
  [ -z "$link" ] || kill "$link" 2>/dev/null || true
  for host in 1 2; do
    ip netns pids "$name-$host" 2>/dev/null | xargs -r kill -9 2>/dev/null || true
    ip netns del "$name-$host" 2>/dev/null || true
  done
  rm -rf "$folder"
}
trap clean_up EXIT

if [ "$(id -u)" -ne 0 ] || ! ip netns add "$name-1" 2>/dev/null; then
  echo "network_tests: skipped: network namespaces can't be made here (needs root)"
  exit 0
fi
ip netns add "$name-2"
ip link add "v$$-1" netns "$name-1" type veth peer name "v$$-2" netns "$name-2"
for host in 1 2; do
  ip -n "$name-$host" address add "10.77.0.$host/24" dev "v$$-$host"
  ip -n "$name-$host" link set "v$$-$host" up
  ip -n "$name-$host" link set lo up
done

port=29500
first=10.77.0.1
# on RANK COMMAND...: as a participant of four, two on each host.
on() {
  local rank=$1
  shift
  env RANK="$rank" WORLD_SIZE=4 MASTER_ADDR="$first" MASTER_PORT="$port" PLIMSOLL_COMMUNICATOR=gloo \
    ip netns exec "$name-$((rank / 2 + 1))" "$@" >"$folder/$rank" 2>&1
}
# sums NUMBERS ROUNDS: all four end well.
sums() {
  port=$((port + 1))
  local pids=()
  for rank in 0 1 2 3; do
    on "$rank" "$process" sum "$1" "$2" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid"; done
  if [ "$(grep -lx done "$folder"/[0-3] | wc -l)" -ne 4 ]; then
    cat "$folder"/[0-3]
    return 1
  fi
}

export PLIMSOLL_COLLECTIVE_TIMEOUT=60
sums 16 1000
sums 1000000 20
echo "network_tests: sums between hosts: good"

if [ -c /dev/net/tun ] && command -v python3 >/dev/null; then
  python3 scripts/lossy_link.py "$name-1" "t$$-1" "$name-2" "t$$-2" 2 1 1 >"$folder/link" &
  link=$!
  until grep -q ready "$folder/link" 2>/dev/null; do
    kill -0 "$link"
    sleep 0.05
  done
  for host in 1 2; do
    ip -n "$name-$host" address add "10.78.0.$host/24" dev "t$$-$host"
    ip -n "$name-$host" link set "t$$-$host" up
  done
  first=10.78.0.1
  sums 16 100
  sums 1000000 5
  first=10.77.0.1
  echo "network_tests: delay of 2 ms and loss of 1 %: good"
else
  echo "network_tests: delay and loss: skipped, there is no /dev/net/tun or no python3"
fi

cat >"$folder/step.hlo" <<'HLO'
HloModule step, replica_count=4
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[500,300] parameter(0)
  s = f32[500,300] all-reduce(x), to_apply=add
  ROOT t = f32[500,300] tanh(s)
}
HLO
port=$((port + 1))
pids=()
for rank in 0 1 2 3; do
  on "$rank" "$plimsoll" run "$folder/step.hlo" --seed 5 --output-dir "$folder/hosts" &
  pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid"; done
"$plimsoll" run "$folder/step.hlo" --seed 5 --output-dir "$folder/here" >/dev/null
for rank in 0 1 2 3; do cmp "$folder/hosts/t@$rank.npy" "$folder/here/t@$rank.npy"; done
echo "network_tests: a program on two hosts has the bits of one process"

port=$((port + 1))
pids=()
for rank in 0 1 2 3; do
  PLIMSOLL_COLLECTIVE_TIMEOUT=3 on "$rank" "$process" sum 100000 1000000000 &
  pids+=($!)
done
until [ "$(grep -lx runs "$folder"/[0-3] | wc -l)" -eq 4 ]; do sleep 0.1; done
ip -n "$name-1" link set "v$$-1" down
for pid in "${pids[@]}"; do wait "$pid" || true; done
for rank in 0 1 2 3; do
  if ! grep -Eq 'participant .*sum.*participant|participant .* sum' "$folder/$rank"; then
    cat "$folder/$rank"
    exit 1
  fi
done
sort -u "$folder"/[0-3] | grep participant
echo "network_tests: a network that is cut ends all participants with errors"
