"""The loop: what it folds, publishes and saves, in which order, and what it does when something fails."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

import pytest

from ldp_stream.connectors.base import Checkpoint, MessageBatch
from ldp_stream.connectors.service.letters import Letter, pack_letters
from ldp_stream.connectors.service.loop import Service
from ldp_stream.connectors.service.settings import ServiceSettings
from ldp_stream.connectors.service.state import ServiceState, source_position
from ldp_stream.errors import BrokerUnavailable, InvalidInput, InvalidSnapshot
from ldp_stream.server.admission import Reason
from ldp_stream.server.published import estimates_from_json
from tests.connectors.service.parts import Clock, Log, Outlet, Store, Tokens, after, campaign, honest_log
from tests.server.plain_fold import plain_fold


def never() -> bool:
    """Never stop."""
    return False


class Run:
    """One service with stand-ins, from a checkpoint if one is given."""

    def __init__(
        self,
        of: Any,
        messages: list[list[bytes]],
        start: Checkpoint | None = None,
        *,
        stopping: Callable[[], bool] = never,
        step: float = 0.0,
        tokens: Tokens | None = None,
        endless: bool = False,
        **settings: Any,
    ) -> None:
        self.events: list[str] = []
        self.said: list[tuple[str, str, str]] = []
        self.tokens = tokens or Tokens()
        self.outlet = Outlet(self.events)
        self.store = Store(self.tokens, self.events)
        self.feed = Log(messages, endless=endless)
        if start is None:
            self.state = ServiceState(of, self.tokens)
        else:
            self.state = ServiceState.of(start, of, self.tokens)
            self.feed.resume(source_position(start))
        self.service = Service(
            self.state,
            self.feed,
            self.outlet,
            self.store,
            self.tokens,
            ServiceSettings(**settings),
            lambda level, event, text, **_: self.said.append((level, event, text)),
            stopping,
            clock=Clock(step),
        )


def test_the_state_is_the_plain_fold_of_each_partition() -> None:
    """Two partitions, read in pieces, give the states of folding each log message by message."""
    of = campaign(partitions=2)
    messages = honest_log(of, 1200)
    run = Run(of, messages, batch=70)
    assert run.service.run()
    for number, server in enumerate(run.state.servers):
        plain = plain_fold(of, enumerate(messages[number]), run.tokens.horizon, number)
        assert server.snapshot() == plain.server.snapshot()
        assert server.n_reports == 600
    assert run.store.saved[-1].position == {"0": 600, "1": 600}
    assert run.feed.commits[-1] == {"0": 600, "1": 600}


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_run_that_goes_on_is_as_one_that_never_stopped(partitions: int) -> None:
    """Stopped after any number of batches and started from the checkpoint, the end is the same."""
    of = campaign(partitions=partitions)
    messages = honest_log(of, 900)
    whole = Run(of, messages)
    whole.service.run()
    for batches in (2, 5, 9):
        first = Run(of, messages, batch=50, stopping=after(batches))
        assert first.service.run()
        assert 0 < first.state.n_reports < 900
        second = Run(of, messages, first.store.saved[-1], tokens=first.tokens, batch=64)
        second.service.run()
        assert second.store.saved[-1] == whole.store.saved[-1]


def test_every_round_that_a_batch_ends_in_is_published_once() -> None:
    """Parameters go out at the start and after each batch with a new round, the newest one only."""
    of = campaign()
    run = Run(of, honest_log(of, 400), batch=30)
    run.service.run()
    rounds = [message.round for message in run.outlet.sent_parameters]
    assert rounds[0] == 0
    assert rounds == sorted(set(rounds))
    assert run.outlet.sent_parameters[-1] == run.state.servers[0].parameters()
    assert len(rounds) > 10


def test_time_only_sends_the_same_again() -> None:
    """With nothing new the newest parameters and the estimate are sent again in time, and no more often."""
    of = campaign()
    run = Run(of, [[]], endless=True, stopping=after(50), step=1.0, repeat_seconds=20.0)
    run.service.run()
    sent = run.outlet.sent_parameters
    assert len(sent) > 3
    assert len({message.model_dump_json() for message in sent}) == 1
    assert 3 < len(run.outlet.sent_estimates) <= len(sent) + 1
    assert len({json.loads(message)["n_reports"] for message in run.outlet.sent_estimates}) == 1
    assert len(run.store.saved) == 1


def test_the_last_estimate_says_what_the_state_says() -> None:
    """The newest estimate is that of the final state, with counts by reason, at the level asked for."""
    of = campaign()
    messages = honest_log(of, 3000)
    messages[0][100:100] = [b"?", messages[0][5]]
    run = Run(of, messages, level=0.9)
    run.service.run()
    estimates, facts = estimates_from_json(of, run.outlet.sent_estimates[-1])
    (estimate,) = estimates.values()
    assert estimate.as_dict() == run.state.servers[0].estimate(0.9).as_dict()
    assert estimate.n_reports == 3000
    assert facts["rejected"] == {"not a report": 1, "token counted before": 1}
    assert facts["rounds"] == {"0": run.state.servers[0].round}
    assert json.loads(run.outlet.sent_estimates[-1])["time"]


def test_dead_letters_hold_everything_and_are_safe_before_the_checkpoint() -> None:
    """Each bad message becomes a letter with its place and bytes, settled before the save that passes it."""
    of = campaign()
    messages = honest_log(of, 200)
    messages[0][50:50] = [b"\xff\x00", messages[0][3]]
    run = Run(of, messages, batch=20, step=0.001)
    run.service.run()
    letters = run.outlet.sent_letters
    assert [(letter.reason, letter.partition, letter.offset, letter.raw) for letter in letters] == [
        (Reason.NOT_A_REPORT, 0, 50, b"\xff\x00"),
        (Reason.COUNTED_BEFORE, 0, 51, messages[0][3]),
    ]
    assert run.events == ["letters", "settle", "save"]
    checkpoint = run.store.saved[-1]
    assert checkpoint.position == {"0": 202, "0 not a report": 1, "0 token counted before": 1}
    again = ServiceState.of(checkpoint, of, run.tokens)
    assert again.refused == run.state.refused
    assert [event for _, event, _ in run.said] == ["refused", "refused"]


def test_saving_goes_by_time_and_by_tokens() -> None:
    """A checkpoint is made when time is up, and when too many tokens wait for one."""
    of = campaign()
    messages = honest_log(of, 1000)
    by_time = Run(of, messages, batch=10, step=0.1, save_seconds=2.0)
    by_time.service.run()
    assert 5 < len(by_time.store.saved) < 60
    by_tokens = Run(of, messages, batch=10, save_tokens=200)
    by_tokens.service.run()
    assert len(by_tokens.store.saved) == 5


def test_a_save_that_fails_is_tried_again_and_reading_pauses_meanwhile() -> None:
    """While nothing can be saved nothing is read; when it works again nothing is lost."""
    of = campaign()
    run = Run(of, honest_log(of, 600), batch=50, save_tokens=100, step=0.5, retry_seconds=0.5)
    run.store.fault = OSError("disk full")
    tries = []

    def stopping() -> bool:
        tries.append(run.tokens.pending)
        if len(tries) == 12:
            run.store.fault = None
        return False

    run.service._stopping = stopping
    assert run.service.run()
    assert max(tries) <= 149
    assert run.state.n_reports == 600
    assert run.store.saved[-1].position == {"0": 600}
    events = [event for _, event, _ in run.said if event != "progress"]
    assert [event for event, _ in groupby(events)] == ["failing", "works again"]
    assert "disk full" in run.said[0][2]


def test_letters_that_are_not_safe_hold_the_checkpoint_back() -> None:
    """Nothing is saved while dead letters cannot be written, and a stop then says that it was not saved."""
    of = campaign()
    messages = honest_log(of, 100)
    run = Run(of, messages)
    run.outlet.fault = BrokerUnavailable("no broker")
    assert not run.service.run()
    assert run.store.saved == []
    assert run.feed.commits == []
    assert run.state.n_reports == 100
    run.outlet.fault = None
    assert run.service.finish()
    assert run.store.saved[-1].position == {"0": 100}


def test_progress_is_logged_where_no_status_line_is_shown() -> None:
    """Every ``log_seconds`` one line tells reports, refusals, rate and lag."""
    of = campaign()
    run = Run(of, honest_log(of, 300), batch=10, step=0.1, log_seconds=1.0)
    run.service.run()
    lines = [text for _, event, text in run.said if event == "progress"]
    assert len(lines) > 3
    assert "reports, 0 rejected" in lines[0]
    assert "waiting" in lines[0]


def test_counts_that_this_release_does_not_know_are_refused() -> None:
    """A checkpoint with an unknown reason in its position is refused instead of losing the count."""
    of = campaign()
    run = Run(of, honest_log(of, 10))
    run.service.run()
    saved = run.store.saved[-1]
    odd = Checkpoint(saved.campaign, saved.state, {**saved.position, "0 unheard of": 1})
    with pytest.raises(InvalidSnapshot, match="unheard of"):
        ServiceState.of(odd, of, run.tokens)


@pytest.mark.parametrize("wrong", [{"batch": 0}, {"save_seconds": 0}, {"level": 1.0}, {"save_tokens": -1}])
def test_settings_are_checked(wrong: dict[str, Any]) -> None:
    """A size, time or level out of range is refused by name."""
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        ServiceSettings(**wrong)


def test_nothing_is_published_before_the_log_is_caught_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start from an older state sends no older parameters or estimate over what was published."""
    of = campaign()
    messages = honest_log(of, 400)
    monkeypatch.setattr(Log, "caught_up", property(lambda log: log.position["0"] >= 300))
    run = Run(of, messages, batch=50)
    run.service.run()
    assert run.outlet.sent_parameters[0].n >= 250
    assert json.loads(run.outlet.sent_estimates[0])["n_reports"] >= 300


def test_a_feed_that_breaks_leaves_what_was_folded_saved() -> None:
    """An error of the source ends the run, after a save of everything before it."""
    of = campaign()
    run = Run(of, honest_log(of, 300), batch=100)

    class Breaks(Log):
        def batches(self, size: int) -> Iterator[MessageBatch[bytes]]:
            for number, batch in enumerate(super().batches(size)):
                if number == 2:
                    raise BrokerUnavailable("gone for good")
                yield batch

    run.feed.__class__ = Breaks
    with pytest.raises(BrokerUnavailable, match="gone for good"):
        run.service.run()
    assert run.store.saved[-1].position == {"0": 200}


def test_a_partition_that_the_campaign_does_not_have_is_refused() -> None:
    """Messages of a partition that was added to the topic end the run with a clear error."""
    of = campaign()
    state = ServiceState(of, Tokens())
    with pytest.raises(InvalidInput, match="partition = 1: the campaign has 1"):
        state.fold(MessageBatch([b"x"], {}, partition=1, offsets=range(1)))


@pytest.mark.parametrize("size", [0, 10, 190_000, 1_000_000])
def test_letters_of_any_size_are_packed_whole(size: int) -> None:
    """No message is beyond the limit, and the pieces of a letter's bytes come in order."""
    raw = bytes(range(256)) * (size // 256)
    letters = [
        Letter(Reason.NOT_A_REPORT, "d", 3, place, content) for place, content in enumerate([b"a", raw])
    ]
    for most in (4096, 1 << 18):
        packed = list(pack_letters(letters, most))
        assert max(map(len, packed)) <= most
        found: dict[int, bytes] = {}
        for line in b"\n".join(packed).split(b"\n"):
            letter = json.loads(line)
            assert letter.get("part", 1) <= letter.get("parts", 1)
            found[letter["offset"]] = found.get(letter["offset"], b"") + b64decode(letter["raw"])
        assert found == {0: b"a", 1: raw}
