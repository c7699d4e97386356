"""``python -m benchmarks NAME``: run one benchmark, print its table, keep its samples."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from benchmarks import commits, conversation, growth, imports, opening, recoveries, tree, turn, viewers
from benchmarks.report import Options, Report, as_text

Measure: TypeAlias = Callable[[Options], Report]

BENCHMARKS: Final[dict[str, tuple[Measure, str]]] = {
    "commits": (commits.measure, "commits per second by number of concurrent agents, beside the floor"),
    "conversation": (
        conversation.measure,
        "bytes of a turn early and late in a long conversation through a small window",
    ),
    "growth": (growth.measure, "how large stores become that stream, beside the same without streaming"),
    "imports": (imports.measure, "what importing pi_actors costs beyond its libraries"),
    "opening": (opening.measure, "opening a long session beside a short one, and what idle agents cost"),
    "recoveries": (
        recoveries.measure,
        "from opening to every agent answered after kill -9, beside the floor",
    ),
    "tree": (tree.measure, "commits of an agent with many finished actors below it, beside one with none"),
    "turn": (turn.measure, "fsyncs and bytes of one steady turn"),
    "viewers": (viewers.measure, "what 200 viewers over the network, ten of them stuck, cost the writer"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; 1 where a criterion is not met, else 0.

    A quick run judges nothing: its numbers are no measurements.
    """
    parsed = _parser().parse_args(arguments)
    measure, _ = BENCHMARKS[parsed.benchmark]
    report = measure(Options(quick=parsed.quick, profile=parsed.profile, folder=parsed.folder))
    print(as_text(report))
    if parsed.json is not None:
        parsed.json.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    met = parsed.quick or all(criterion.met for criterion in report.criteria)
    return 0 if met else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = parser.add_subparsers(dest="benchmark", required=True, metavar="NAME")
    for name, (_, summary) in BENCHMARKS.items():
        options = names.add_parser(name, help=summary, description=summary)
        options.add_argument("--quick", action="store_true", help="a smoke run: few samples, no measurement")
        options.add_argument("--profile", action="store_true", help="also show where the time goes")
        options.add_argument(
            "--folder", type=Path, help="where the stores are made (default: temporary files)"
        )
        options.add_argument("--json", type=Path, metavar="FILE", help="write every sample there")
    return parser


if __name__ == "__main__":
    sys.exit(main())
