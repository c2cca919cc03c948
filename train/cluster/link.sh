#!/usr/bin/env bash
# A step of several processes on a link of RATE between machines, each a network namespace of this one, measured and predicted from the
# same step without such a link. Needs root, `ip` and `tc`.
#
#   link.sh PRESET SEQUENCES SHARDS STEPS PROCESSES [MBIT [DELAY]]       1,000 Mbit/s each way and a delay of 0.001 s where none are given
#
# Each process has one thread and trains on SEQUENCES windows of a step. It prints the two lines of `examples/link.rs`.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -ge 5 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
preset=$1 sequences=$2 shards=$3 steps=$4 processes=$5 mbit=${6:-1000} delay=${7:-0.001}

cargo build --quiet --release -p gradus-cluster --example link
program=$PWD/target/release/examples/link
folder=$(mktemp -d)
end() {
    kill $(jobs -p) 2> /dev/null || true
    for ((i = 0; i < processes; i++)); do ip netns del "gradus$i" 2> /dev/null || true; done
    ip link del gradusbr 2> /dev/null || true
    rm -r "$folder"
}
trap end EXIT

# Runs all processes, each as `inside NUMBER` says.
run() {
    for ((i = processes - 1; i >= 0; i--)); do
        RAYON_NUM_THREADS=1 inside "$i" "$program" "$folder/hosts" "$i" "$preset" "$sequences" "$shards" "$steps" "$@" &
    done
    wait
}

for ((i = 0; i < processes; i++)); do echo "127.0.0.1:$((7300 + i))"; done > "$folder/hosts"
inside() { shift; "$@"; }
run 0 | tee "$folder/base"
base=$(sed 's/.*"step":\([0-9.]*\).*/\1/' "$folder/base")

ip link add gradusbr type bridge
ip link set gradusbr up
for ((i = 0; i < processes; i++)); do
    ip netns add "gradus$i"
    ip link add "gradus-$i" type veth peer name eth0 netns "gradus$i"
    ip link set "gradus-$i" master gradusbr up
    ip -n "gradus$i" addr add "10.77.0.$((i + 1))/24" dev eth0
    ip -n "gradus$i" link set eth0 up
    ip -n "gradus$i" link set lo up
    # What the machine sends, and what it receives.
    tc -n "gradus$i" qdisc add dev eth0 root tbf rate "${mbit}mbit" burst 128kb latency 100ms
    tc qdisc add dev "gradus-$i" root tbf rate "${mbit}mbit" burst 128kb latency 100ms
    echo "10.77.0.$((i + 1)):7300"
done > "$folder/hosts"
inside() { ip netns exec "gradus$1" "${@:2}"; }
run "$delay" "$base" "$((mbit * 125000))"
