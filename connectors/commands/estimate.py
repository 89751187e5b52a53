"""``ldp-stream estimate``: what a checkpoint has learnt, or what a service has published."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .kafka_choice import KafkaConfig, KafkaOption, KafkaServers, WaitSeconds, read_settings
from .options import JsonOutput, PlotFile

if TYPE_CHECKING:
    from ...inference.ellipsoid import Ellipsoid
    from ...server.estimate import Estimate
    from ...server.estimates import Estimates
    from ..kafka_options import KafkaSettings

__all__ = ["check_answer", "estimate", "give_answer"]


def estimate(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="CHECKPOINT_OR_CAMPAIGN",
            help="A checkpoint; with --kafka a campaign (TOML or JSON).",
            show_default=False,
        ),
    ],
    level: Annotated[
        float | None,
        typer.Option(
            metavar="P", help="Coverage of the intervals, between 0 and 1; 0.95, or what was published."
        ),
    ] = None,
    simultaneous: Annotated[
        bool, typer.Option("--simultaneous", help="Give intervals that cover all coefficients at once.")
    ] = False,
    ellipsoid: Annotated[
        bool, typer.Option("--ellipsoid", help="Also give the joint confidence set of all coefficients.")
    ] = False,
    as_json: JsonOutput = False,
    plot: PlotFile = None,
    kafka: KafkaServers = None,
    kafka_option: KafkaOption = None,
    kafka_config: KafkaConfig = None,
    wait_seconds: WaitSeconds = 10.0,
) -> None:
    """Show coefficients with confidence intervals, in the user's units.

    Of a checkpoint, which holds its campaign, so that the file is not needed; or
    with --kafka the newest estimate that a service has published.

    Examples
    --------
    ldp-stream estimate state.ckpt
    ldp-stream estimate state.ckpt --level 0.9 --json
    ldp-stream estimate state.ckpt --simultaneous
    ldp-stream estimate state.ckpt --ellipsoid --json
    ldp-stream estimate state.ckpt --plot coefficients.png
    ldp-stream estimate trips.toml --kafka localhost:9092 --json
    """
    from ...errors import InvalidInput
    from .stored import read_checkpoint

    check_answer(level, plot)
    if kafka is None:
        if kafka_option or kafka_config:
            raise InvalidInput("--kafka-option, --kafka-config: need --kafka")
        answers = read_checkpoint(source).server.estimates(0.95 if level is None else level)
    else:
        answers = _published(source, level, read_settings(kafka, kafka_option, kafka_config, wait_seconds))
    give_answer(answers, as_json, plot, simultaneous=simultaneous, ellipsoid=ellipsoid)


def _published(path: Path, level: float | None, settings: KafkaSettings) -> Estimates:
    """Return the newest estimate that a service has published."""
    from ...errors import InvalidInput
    from ...server.published import estimates_from_json
    from ..kafka_newest import newest
    from ..kafka_topics import Topics
    from ..service.kafka_places import ESTIMATE_KEY
    from .console import counted, note
    from .stored import load_campaign

    campaign = load_campaign(path)
    topic = Topics.of(campaign).estimates
    found = newest(settings, topic, say=note).get(ESTIMATE_KEY)
    if found is None:
        raise InvalidInput(f"topic {topic!r} holds no estimate: has 'ldp-stream serve' run?")
    answers, facts = estimates_from_json(campaign, found[1], level)
    rejected = sum(facts.get("rejected", {}).values())
    note(f"published {facts.get('time', 'at an unknown time')}; {counted(rejected, 'message')} rejected")
    return answers


def _ellipsoid(answer: Estimate) -> Ellipsoid | str:
    """Return the joint confidence set of all coefficients, or why there is none."""
    from ...errors import NoConfidenceSet

    try:
        return answer.ellipsoid()
    except NoConfidenceSet as reason:
        return str(reason)


def check_answer(level: float | None, plot: Path | None) -> None:
    """Refuse a level or a plot that could not be given, before the work is done."""
    from ..._validate import probability

    if level is not None:
        probability(level=level)
    if plot is not None:
        from .plots import check_plot

        check_plot(plot)


def give_answer(
    answers: Estimates,
    as_json: bool,
    plot: Path | None,
    *,
    simultaneous: bool = False,
    ellipsoid: bool = False,
) -> None:
    """Print the estimates as tables or as JSON, with joint sets and a drawing if asked."""
    campaign = next(iter(answers.values())).campaign
    if as_json:
        import json

        from .console import warn_if_not_private

        warn_if_not_private(campaign)
        content = answers.as_dict()
        for entry, answer in zip(content.get("levels", [content]), answers.values(), strict=True):
            if simultaneous:
                joint = answer.simultaneous()
                entry["simultaneous"] = {name: interval.as_dict() for name, interval in joint.items()}
            if ellipsoid:
                found = _ellipsoid(answer)
                entry["ellipsoid"] = {"reason": found} if isinstance(found, str) else found.as_dict()
        typer.echo(json.dumps(content, indent=2))
    else:
        for answer in answers.values():
            _print(answer, simultaneous, ellipsoid)
    if plot is not None:
        from .console import note
        from .plots import draw_estimates

        draw_estimates(answers, plot)
        note(f"the plot is in {plot}")


def _print(answer: Estimate, simultaneous: bool, ellipsoid: bool) -> None:
    """Print one quantile level's table, and a line about its ellipsoid if asked."""
    from .console import plain, results
    from .tables import print_estimate

    print_estimate(answer, simultaneous=simultaneous)
    if ellipsoid:
        found = _ellipsoid(answer)
        line = (
            f"No ellipsoid: {found}."
            if isinstance(found, str)
            else f"{100 * answer.level:.6g}% ellipsoid of all coefficients: volume {found.volume:.4g}; "
            "--json has its matrix."
        )
        results().print(plain(line), soft_wrap=True)
