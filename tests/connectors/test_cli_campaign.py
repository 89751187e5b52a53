"""``ldp-stream campaign``: what check says, and what new writes."""

from __future__ import annotations

import io
import tomllib
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ldp_stream import Campaign
from ldp_stream.connectors.commands.campaign_text import Bounds, Draft, toml_text
from ldp_stream.connectors.commands.proposals import rounded_outward
from ldp_stream.scale import INTERCEPT
from tests.connectors.cli_support import CAMPAIGN, OPEN_CAMPAIGN, TARGET, Shell, write_rows


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    """A folder with a campaign and rows."""
    shell = Shell(tmp_path, capsys)
    shell.write("trips.toml", CAMPAIGN)
    write_rows(tmp_path / "rows.csv", 500)
    return shell


def test_check_says_what_the_campaign_means(shell: Shell) -> None:
    """The summary has digest, bounds, blocks and categories, epsilon, and which values are defaults."""
    path = shell.write("wide.toml", 'channel = { kind = "cqx", q = 3, s = 2 }\n' + CAMPAIGN)
    run = shell("campaign", "check", path)
    assert (run.code, run.err) == (0, "")
    campaign = Campaign.load(path)
    for text in (campaign.digest, "median", "epsilon = 4", "3 blocks, 6 or 9 categories", "54.6 times"):
        assert text in run.out
    rows = [line.split() for line in run.out.splitlines()]
    assert ["log_miles", "-2.4", "3.5", "0.55"] in rows
    assert ["rush", "0", "1", "0"] in rows
    defaults = next(line for line in run.out.splitlines() if line.startswith("  defaults"))
    assert "radius = 3;" in defaults
    assert "channel" not in defaults


def test_check_of_a_campaign_that_gives_everything(shell: Shell) -> None:
    """A file that says everything is said to leave nothing to defaults."""
    text = Campaign.load(shell.folder / "trips.toml").canonical
    run = shell("campaign", "check", shell.write("all.json", text))
    assert run.code == 0
    assert "none, everything is given" in run.out


def test_check_of_a_campaign_with_newest_parameters(shell: Shell) -> None:
    """A campaign whose rounds are single reports is said to be one."""
    path = shell.write("live.toml", "rounds = { stability = 0 }\n" + CAMPAIGN)
    assert "every report is made at the newest parameters" in shell("campaign", "check", path).out


def test_check_of_a_campaign_without_privacy(shell: Shell) -> None:
    """The reference channel is sound but labelled."""
    run = shell("campaign", "check", shell.write("open.toml", OPEN_CAMPAIGN))
    assert run.code == 0
    assert "NOT PRIVATE" in run.out.splitlines()[0]


@pytest.mark.parametrize(
    ("section", "text"),
    [
        ('kind = "laplace"', "laplace, noise on all 3 coefficients, sensitivity of the aware support"),
        (
            'kind = "face_exponential", q = 3',
            "face_exponential, grids of q = 3 points, 18 categories; BIASED",
        ),
        ('kind = "piecewise", k = 2', "piecewise, 2 of the 3 coefficients in a report"),
        ('kind = "hybrid"', "hybrid, 1 of the 3 coefficients in a report"),
        ('kind = "privunit_g"', "privunit_g, a normal vector of 3 values in a report"),
    ],
)
def test_check_names_the_channel(shell: Shell, section: str, text: str) -> None:
    """Each comparison channel is named with what it sends."""
    path = shell.write("other.toml", f"channel = {{ {section} }}\n" + CAMPAIGN)
    run = shell("campaign", "check", path)
    assert (run.code, run.err) == (0, "")
    assert text in run.out


def test_check_names_every_bad_field_in_one_line(shell: Shell) -> None:
    """Nonsense gives one line with the file and each bad field."""
    text = CAMPAIGN.replace("tau = 0.5", "tau = 2").replace("lower = 0,", "lower = 3,")
    run = shell("campaign", "check", shell.write("bad.toml", text))
    assert (run.code, run.out, run.err.count("\n")) == (2, "", 1)
    for text in ("bad.toml", "tau = 2", "features.rush"):
        assert text in run.err


def test_new_from_a_file_proposes_bounds_that_hold_it(shell: Shell) -> None:
    """The draft is a sound campaign, its rounded bounds hold every value, and it says that they leak."""
    path = shell.folder / "draft.toml"
    run = shell("campaign", "new", "--from-csv", shell.folder / "rows.csv", *TARGET, "--out", path)
    assert (run.code, run.out) == (0, "")
    assert "leak" in run.err
    assert "left out: the column 'zone' holds text" in run.err
    assert "leak" in path.read_text(encoding="utf-8")
    campaign = Campaign.load(path)
    assert campaign.name == "rows"
    lines = (shell.folder / "rows.csv").read_text(encoding="utf-8").splitlines()[1:]
    for column, bounds in ((0, campaign.features["log_miles"]), (3, campaign.target)):
        values = [float(line.split(",")[column]) for line in lines]
        assert bounds.lower <= min(values)
        assert max(values) <= bounds.upper
        assert bounds.upper - bounds.lower <= 1.3 * (max(values) - min(values))
    rush = campaign.features["rush"]
    assert (rush.lower, rush.upper, rush.centre) == (0, 1, 0)
    assert shell("campaign", "check", path).code == 0


def test_new_escapes_names_and_takes_options(shell: Shell) -> None:
    """Odd column names and options go into the text on standard output, which reads back as given."""
    rows = shell.write("odd.csv", '"a ""b"" # é","[x]\t",y,intercept,same\n1,0,5,1,1\n2,1,9,2,1\n')
    options = ("--name", "odd", "--tau", 0.9, "--epsilon", 2)
    run = shell("campaign", "new", "--from-csv", rows, "--target", "y", *options)
    assert run.code == 0
    campaign = Campaign.model_validate(tomllib.loads(run.out))
    assert (campaign.name, campaign.tau, campaign.epsilon) == ("odd", 0.9, 2.0)
    assert set(campaign.features) == {'a "b" # é', "[x]"}
    assert "'same' has one value only" in run.err
    assert "'intercept' is no name" in run.err


def test_new_asks(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a file it asks, on standard error and again where needed, and writes what was said."""
    answers = ["a name", "trips", "", "2", "0", "60"]
    answers += ["trip miles", "x", "0", "-1", "30", "", "rush", "0", "1", "0", ""]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(answers) + "\n"))
    run = shell("campaign", "new")
    assert run.code == 0
    assert tomllib.loads(run.out) == {
        "kind": "quantile",
        "name": "trips",
        "tau": 0.5,
        "epsilon": 2.0,
        "target": {"lower": 0, "upper": 60},
        "features": {"trip miles": {"lower": 0, "upper": 30}, "rush": {"lower": 0, "upper": 1, "centre": 0}},
    }
    for complaint in ("'a name': must be", "'x': must be a finite number", "-1: must be above 0"):
        assert complaint in run.err


def test_new_writes_nothing_when_the_answers_end(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers that end too early give code 2 and no file."""
    monkeypatch.setattr("sys.stdin", io.StringIO("trips\n"))
    run = shell("campaign", "new", "--out", shell.folder / "new.toml")
    assert (run.code, run.out) == (2, "")
    assert not (shell.folder / "new.toml").exists()


def test_new_replaces_a_file_only_when_told(shell: Shell) -> None:
    """--force replaces the file; without it, it stays as it is."""
    path = shell.folder / "trips.toml"
    arguments = ("campaign", "new", "--from-csv", shell.folder / "rows.csv", *TARGET, "--out", path)
    assert shell(*arguments).code == 2
    assert path.read_text(encoding="utf-8") == CAMPAIGN
    assert shell(*arguments, "--force").code == 0
    assert path.read_text(encoding="utf-8") != CAMPAIGN


names = st.text(st.characters(exclude_categories=("Cs",)), min_size=1).filter(lambda name: name != INTERCEPT)
bounds = st.tuples(
    st.floats(-1e12, 1e12, allow_subnormal=False), st.floats(1e-6, 1e12, allow_subnormal=False)
).filter(lambda pair: pair[0] < pair[0] + pair[1])


@example({'\x7f\x00"\\': (0.0, 1.0)}, "\x7f\r\n")
@given(
    st.dictionaries(names, bounds, min_size=1, max_size=4), st.text(st.characters(exclude_categories=("Cs",)))
)
def test_any_name_survives_the_toml_text(features: dict[str, tuple[float, float]], comment: str) -> None:
    """Whatever the names, numbers and comments, the text reads back as the same campaign."""
    given_bounds = {name: Bounds(low, low + width) for name, (low, width) in features.items()}
    text = toml_text(Draft("x", 0.25, 1.5, Bounds(0, 1), given_bounds, (comment,)))
    campaign = Campaign.model_validate(tomllib.loads(text))
    assert {name: (f.lower, f.upper) for name, f in campaign.features.items()} == {
        name: (bound.lower, bound.upper) for name, bound in given_bounds.items()
    }


@given(st.floats(-1e9, 1e9, allow_subnormal=False), st.floats(1e-9, 1e9, allow_subnormal=False))
def test_rounding_is_outward_and_close(lower: float, width: float) -> None:
    """Rounded bounds hold the given ones and are wider by at most a fifth of the range on each side."""
    upper = lower + width
    if lower == upper:
        return
    low, high = rounded_outward(lower, upper)
    assert low <= lower
    assert upper <= high
    slack = 0.1 * (upper - lower) + 1e-12 * max(abs(lower), abs(upper))
    assert lower - low <= slack
    assert high - upper <= slack
