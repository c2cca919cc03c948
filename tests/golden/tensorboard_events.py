"""Writes and reads TensorBoard's event files with the `tensorboard` package (2.21.0, protobuf 7.36.2).

    pip install tensorboard
    python tests/golden/tensorboard_events.py            # writes train/report/src/tensorboard.hex
    python tests/golden/tensorboard_events.py DIR        # reads what `gradus pretrain --tensorboard DIR` wrote

The first command writes three framed events: the version, the start of a session, and two scalars. The second reads every file of
DIR as TensorBoard does, checksums included, and compares the losses with the run's metrics.jsonl if that is given as a second
argument.
"""

import io
import json
import sys
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

ROOT = Path(__file__).resolve().parents[2]


def framed(event):
    file = io.BytesIO()
    RecordWriter(file).write(event.SerializeToString())
    return file.getvalue().hex()


def write():
    scalars = [Summary.Value(tag=tag, simple_value=value) for tag, value in [("loss/train", 2.25), ("learning rate", 0.001)]]
    events = [
        Event(wall_time=1.5, file_version="brain.Event:2"),
        Event(wall_time=1.5, step=1, session_log=SessionLog(status=SessionLog.START)),
        Event(wall_time=1.5, step=300, summary=Summary(value=scalars)),
    ]
    text = "\n".join(framed(event) for event in events) + "\n"
    (ROOT / "train/report/src/tensorboard.hex").write_text(text)


def read(folder, metrics):
    found = EventAccumulator(folder, size_guidance={"scalars": 0}).Reload()
    tags = found.Tags()["scalars"]
    assert tags, f"{folder} has no scalars"
    for tag in tags:
        scalars = found.Scalars(tag)
        steps = [scalar.step for scalar in scalars]
        assert steps == sorted(set(steps)), f"{tag}: a step comes twice, or out of order"
        print(f"{tag}: {len(steps)} points, to step {steps[-1]}: {scalars[-1].value:.6g}")
    if metrics:
        records = [json.loads(line) for line in Path(metrics).read_text().splitlines()]
        losses = {record["step"]: record["loss"] for record in records if record["record"] == "step"}
        ours = {scalar.step: scalar.value for scalar in found.Scalars("loss/train")}
        assert ours.keys() == losses.keys(), "other steps than metrics.jsonl"
        assert all(abs(ours[step] - loss) <= 1e-6 * abs(loss) for step, loss in losses.items()), "other losses"
        print(f"the {len(losses)} train losses are those of {metrics}")


if __name__ == "__main__":
    if sys.argv[1:]:
        read(sys.argv[1], sys.argv[2] if sys.argv[2:] else None)
    else:
        write()
