#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/ptxas_table.sh [CAPABILITY]...: assembles the GPU kernels of the test suites (75, 80 and 90
# unless said otherwise) and prints, per program and compute capability, how many there are, the
# registers and shared memory of the largest, and what spills; then, where cuobjdump is found, the
# instructions per byte of loops that move memory, and those of the loops of products. docs/gpu.md has
# the tables. Needs ptxas (CUDA) on the path or in PTXAS, and build/release/tests/gpu_ptx.
set -euo pipefail
cd "$(dirname "$0")/.."
ptxas=${PTXAS:-ptxas}
if ! command -v "$ptxas" > /dev/null; then
  echo "no ptxas: nothing is assembled (it comes with CUDA; PTXAS says where it is)" >&2
  exit 0
fi
capabilities=("$@")
[ $# -gt 0 ] || capabilities=(75 80 90)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
build/release/tests/gpu_ptx "$folder" "${capabilities[@]}"
export ptxas folder
assemble() {
  local name=${1%.ptx}
  local arch=${name##*.}
  if ! "$ptxas" -v -arch="$arch" -o "$folder/$name.cubin" "$folder/$1" 2> "$folder/$name.log"; then
    echo "$name: $(head -3 "$folder/$name.log")" >> "$folder/failed"
  fi
}
export -f assemble
ls "$folder" | grep '\.ptx$' | xargs -P "$(nproc)" -I{} bash -c 'assemble {}'
# What ptxas says of an entry: its name, its spills, its registers and shared memory.
for log in "$folder"/*.log; do
  name=$(basename "${log%.log}")
  awk -v name="${name%.*}" -v arch="${name##*.}" '
    /Compiling entry function/ { entry = $0; gsub(/.*function .|. for .*/, "", entry) }
    /bytes spill stores/ { split($0, part, ","); spills = part[2] + part[3] }
    /: Used [0-9]+ registers/ {
      registers = $0; sub(/.*Used /, "", registers); shared = 0
      if (match($0, /[0-9]+ bytes smem/)) shared = substr($0, RSTART, RLENGTH)
      if (entry != "") print arch, name, entry, registers + 0, shared + 0, spills + 0
      entry = ""; spills = 0
    }' "$log"
done > "$folder/entries"
echo "| program | sm | entries | registers: median, most | shared, most bytes | entries that spill |"
echo "|---|---|---|---|---|---|"
sort -k1,1 -k2,2 "$folder/entries" | awk '
  { program = $2; sub(/__.*/, "", program); if (program ~ /^bandwidth_/) next
    if (program ~ /^moves_/) program = "bandwidth cases"
    if (program ~ /^product_/) program = "products"
    if (program ~ /^op_/) program = "op cases" }
  { key = program " | " substr($1, 4); n[key]++; all[key] = all[key] " " $4
    if ($4 > most[key]) most[key] = $4; if ($5 > shared[key]) shared[key] = $5; if ($6 > 0) spill[key]++ }
  END { for (key in n) {
    count = split(substr(all[key], 2), values, " ")
    for (i = 2; i <= count; ++i) { v = values[i] + 0
      for (j = i - 1; j > 0 && values[j] + 0 > v; --j) values[j + 1] = values[j]
      values[j + 1] = v }
    printf "| %s | %d | %d, %d | %d | %d |\n", key, count, values[int((count + 1) / 2)], most[key],
      shared[key], spill[key] } }' | sort -V
awk '$6 > 0 { printf "spills: %s %s %s: %d registers, %d bytes\n", $1, $2, $3, $4, $6 }' "$folder/entries"
# Instructions per byte that a thread reads and writes, beside those of a copy.
if command -v cuobjdump > /dev/null; then
  echo
  echo "| loop | sm | instructions | bytes | instructions per byte | of a copy's |"
  echo "|---|---|---|---|---|---|"
  for cubin in "$folder"/bandwidth_copy__*.cubin "$folder"/bandwidth_[!c]*.cubin; do
    name=$(basename "${cubin%.cubin}")
    name=${name#bandwidth_}
    cuobjdump -sass "$cubin" | awk -v name="${name%%__*}" -v arch="${name##*sm_}" '
      # An instruction ends with a semicolon; what stands behind the last EXIT is padding.
      /^ *\/\*[0-9a-f]+\*\/ .*;/ { n++ }
      /EXIT/ { count = n }
      /(LDG|STG)\./ { bytes += /\.128/ ? 16 : /\.64/ ? 8 : /\.[US]16/ ? 2 : /\.[US]8/ ? 1 : 4 }
      END { print name, arch, count, bytes }'
  done | awk '{ rate = $3 / $4; if ($1 == "copy") copy[$2] = rate
    printf "| %s | %s | %d | %d | %.2f | %.1f |\n", $1, $2, $3, $4, rate, rate / copy[$2] }'
  # The loop of a product that has the most multiply-adds.
  echo
  echo "| product | sm | instructions of the loop | multiply-adds | of all |"
  echo "|---|---|---|---|---|"
  for cubin in "$folder"/product_*.cubin; do
    name=$(basename "${cubin%.cubin}")
    name=${name#product_}
    cuobjdump -sass "$cubin" | awk -v name="${name%%__*}" -v arch="${name##*sm_}" '
      function number(hex,  i, n) {
        n = 0
        for (i = 1; i <= length(hex); ++i) n = 16 * n + index("0123456789abcdef", substr(hex, i, 1)) - 1
        return n
      }
      /Function :/ { n = 0 }
      /^ *\/\*[0-9a-f]+\*\/ .*;/ {
        line = $0; sub(/^ *\/\*/, "", line)
        at = number(substr(line, 1, index(line, "*") - 1))
        ++n; place[at] = n; sums[n] = sums[n - 1] + (line ~ / (FFMA|FFMA2|DFMA|HMMA)[. ]/)
        if (match(line, /BRA(\.[A-Z]+)* (!?U?P[0-9]+, )?0x[0-9a-f]+/)) {
          target = substr(line, RSTART, RLENGTH); sub(/.*0x/, "", target); to = number(target)
          if (to < at && sums[n] - sums[place[to] - 1] > most) {
            most = sums[n] - sums[place[to] - 1]; all = n - place[to] + 1
          }
        }
      }
      END { if (all > 0) printf "| %s | %s | %d | %d | %.0f %% |\n", name, arch, all, most, 100 * most / all }'
  done | sort -t'|' -k3,3n -k2,2
else
  echo "no cuobjdump: counts of instructions are left out" >&2
fi
if [ -s "$folder/failed" ]; then
  cat "$folder/failed" >&2
  exit 1
fi
