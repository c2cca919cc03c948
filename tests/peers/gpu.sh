#!/bin/sh
# Gradus on a GPU beside PyTorch: products, training steps, memory, generation, and the cost of a step op by op, as Markdown.
#
#     tests/peers/gpu.sh GRADUS [--torch-python P] [--device gpu:NAME] [--out DIR] [--minutes 8]
#
# Goes on where it stopped; the exit status is 0 once everything is measured, and 3 while something is left. --help tells the rest.
exec python3 "$(dirname "$0")/gpu.py" "$@"
