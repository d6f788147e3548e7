"""`responses-gateway replay`: runs recordings again without a network, and tells the first difference."""

import sys
from pathlib import Path

import click

from gateway.commands.options import EXIT_USAGE
from gateway.server.recording_lines import NotARecording, read_lines
from gateway.server.replaying import replay

EXIT_DIFFERS = 1


@click.command("replay")
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILE…",
    type=click.Path(path_type=Path, dir_okay=False),
)
def replay_files(files: tuple[Path, ...]) -> None:
    """Run recordings again, and print the first difference of each.

    A recording is what `serve --record DIR` writes, one file a turn: see docs/recordings.md. It is run
    through this gateway's own state machine with the recorded bytes, ids and clock. Nothing is sent
    anywhere.

    \b
    Exit code 0: everything is as it was recorded
              1: something differs
              2: a file is no recording
    """
    codes = [_replay_file(file) for file in files]
    sys.exit(max(codes))


def _replay_file(file: Path) -> int:
    try:
        lines = read_lines(file.read_bytes())
        difference = replay(lines)
    except OSError as error:
        click.echo(f"{file}: cannot be read: {error.strerror or error}.", err=True)
        return EXIT_USAGE
    except NotARecording as error:
        click.echo(f"{file}: no recording that can be run: {error}.", err=True)
        return EXIT_USAGE
    if difference is not None:
        click.echo(f"{file}: {difference}")
        return EXIT_DIFFERS
    events = sum(len(line["events"]) for line in lines if line["kind"] == "sent")
    is_cut = any(line["kind"] == "cut" for line in lines)
    click.echo(
        f"{file}: no difference ({events} events{', then the recording ends' if is_cut else ''})"
    )
    return 0
