#!/bin/sh
# Are two builds of the program the same? Bits: every number that OLD computes, NEW computes too. Speed: NEW is as fast.
#
#     tests/peers/same.sh OLD NEW [--bits | --speed] [--pairs N] [--keep DIR] …
#
# The exit status is 0 only if all requested checks pass; --help describes the rest.
exec python3 "$(dirname "$0")/same.py" "$@"
