#!/usr/bin/env bash
# What a process waits for on a link of RATE between machines, each a network namespace of this one: needs root, `ip` and `tc`.
#
#   link.sh PRESET SEQUENCES SHARDS STEPS PROCESSES [RATE [DELAY]]       RATE as `tc` takes it: 1gbit; `none`: loopback; DELAY in seconds
#
# Each process has one thread. It prints the line of `examples/link.rs`.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -ge 5 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
preset=$1 sequences=$2 shards=$3 steps=$4 processes=$5 rate=${6:-1gbit} delay=${7:-0.001}

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

if [ "$rate" = none ]; then
    for ((i = 0; i < processes; i++)); do echo "127.0.0.1:$((7300 + i))"; done > "$folder/hosts"
    inside() { shift; "$@"; }
else
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
        tc -n "gradus$i" qdisc add dev eth0 root tbf rate "$rate" burst 128kb latency 100ms
        tc qdisc add dev "gradus-$i" root tbf rate "$rate" burst 128kb latency 100ms
        echo "10.77.0.$((i + 1)):7300"
    done > "$folder/hosts"
    inside() { ip netns exec "gradus$1" "${@:2}"; }
fi
for ((i = processes - 1; i >= 0; i--)); do
    RAYON_NUM_THREADS=1 inside "$i" "$program" "$folder/hosts" "$i" "$preset" "$sequences" "$shards" "$steps" "$delay" &
done
wait
