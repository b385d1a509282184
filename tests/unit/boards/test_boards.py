"""Board types are data, and wrong data is refused with its place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from attrs import asdict

from lab import boards
from lab.boards import Benchmarks, Sign
from lab.errors import ConfigurationError

MINIMAL = """
name = "x"
title = "X"
soc = "X1"
boot_mode_bits = 2
moments = [{ name = "login", pattern = 'x login: ' }]
evidence = [{ source = "spl", pattern = 'from (\\w+)', media = { MMC1 = "sd" } }]
[prompts]
uboot = '=> '
login = 'x login: '
shell = '# '
[[uarts]]
name = "u"
role = "console"
[media]
sd = { boot_mode = 1, title = "SD" }
"""


@pytest.fixture
def board_file(tmp_path: Path) -> Path:
    path = tmp_path / "x.toml"
    path.write_text(MINIMAL)
    return path


def test_every_shipped_type_loads_and_can_be_timed() -> None:
    for name in boards.names():
        board = boards.load(name)
        assert board.name == name
        required = {m.name for m in board.moments if m.required}
        assert "starting_kernel" in required
        assert {"login", "shell"} <= {m.name for m in board.moments}


AM6 = [
    name for name in boards.names() if boards.load(name).recovery.get("usb") and name != "am654x-evm"
]  # another ROM


@pytest.mark.parametrize("name", AM6)
def test_a_board_boots_by_usb_with_dfu_as_the_only_medium(name: str) -> None:
    """Bits 3 to 6 are the primary boot device, 10 to 12 the backup (U-Boot doc/board/ti/am62x_sk.rst: SW1 11001010, SW2 0)."""
    usb = boards.load(name).recovery["usb"]
    assert usb >> 3 & 0xF == 0xA
    assert usb >> 10 & 0x7 == 0


@pytest.mark.parametrize("name", [name for name in boards.names() if boards.load(name).identity])
def test_the_prompts_of_a_type_are_those_of_its_own_host_name(name: str) -> None:
    board = boards.load(name)
    assert board.identity is not None
    host = board.identity.hostname
    assert re.fullmatch(board.prompts.login, f"{host} login: ")
    assert re.fullmatch(board.prompts.shell, f"root@{host}:~# ")
    assert re.search(next(m.pattern for m in board.moments if m.name == "login"), f"{host} login: ")


def test_the_kernels_word_for_a_medium_is_never_a_partition_id() -> None:
    """TI's images boot with root=PARTUUID=..., the same for every medium."""
    for name in boards.names():
        for evidence in boards.load(name).evidence:
            assert re.search(evidence.pattern, "Kernel command line: root=PARTUUID=076c4a2a-02 rw") is None


def test_the_guides_figures_are_complete_and_in_their_units() -> None:
    board = boards.load("am62xx_sk")
    published = board.releases["11.01"].published
    assert published.boot_s["sd"].mean == 16.24
    assert sum(published.sleep_mw["deep_sleep"].values()) == pytest.approx(24.37, abs=0.03)
    assert sum(published.sleep_mw["mcu_only"].values()) == pytest.approx(142.41, abs=0.03)
    assert published.uboot_kib_s["sd"].read["400000"] == 83591.84


def test_a_part_is_completed_table_by_table_and_an_unknown_part_is_refused(board_file: Path) -> None:
    lp = boards.load("am62xx_lp_sk")
    assert lp.identity is not None
    assert (lp.identity.hostname, lp.identity.chip) == ("am62xx-lp-evm", "AM62X SR1.0")
    assert lp.media["ospi"].boot_mode == 0x003
    assert lp.media["sd"].boot_mode == 0x243
    board_file.write_text('based_on = ["k4"]\n' + MINIMAL)
    with pytest.raises(ConfigurationError, match=r"based_on.*k3"):
        boards.load_file(board_file)


@pytest.mark.parametrize(("medium", "boot_mode"), [("sd", 0x243), ("emmc", 0x04B), ("ospi", 0x073)])
def test_am62_boot_modes_are_those_of_the_u_boot_documentation(medium: str, boot_mode: int) -> None:
    assert boards.load("am62xx_sk").media[medium].boot_mode == boot_mode


def test_switches_are_those_of_buildroots_page_on_the_board() -> None:
    """Its page on the SK-AM62 has SW1[1:8]=11000010, SW2[1:8]=01000000 for SD; SW1 is B0 to B7."""
    board = boards.load("am62xx_sk")
    assert board.switches(board.media["sd"].boot_mode) == "11000010 01000000"
    assert boards.load("am43xx-gpevm").switches(0b101100) == "001101"


def test_a_types_failures_add_to_the_common_ones(board_file: Path) -> None:
    board_file.write_text(MINIMAL + "[failures]\n'my own trouble' = \"own\"\n")
    failures = boards.load_file(board_file).failures
    assert failures["my own trouble"] == Sign("own")
    assert "kernel_panic" in {sign.means for sign in failures.values()}


def test_a_failure_may_say_where_its_text_is_from(board_file: Path) -> None:
    sign = '\'my own trouble\' = { means = "own", reference = "my.c" }\n'
    common = "'Kernel panic - not syncing' = \"mine\"\n"
    board_file.write_text(MINIMAL + f"[failures]\n{sign}{common}[troubles]\n{sign}")
    board = boards.load_file(board_file)
    assert board.failures["my own trouble"] == board.troubles["my own trouble"] == Sign("own", "my.c")
    assert board.failures["Kernel panic - not syncing"] == Sign("mine"), "a word replaces the table of all boards"


def test_a_moment_of_a_flow_has_the_reference_of_its_pattern() -> None:
    board = boards.load("am62xx_sk")
    usual = {moment.name: moment.reference for moment in board.moments}
    assert {moment.name: moment.reference for moment in board.flow("falcon")}.items() <= usual.items()


def test_every_pattern_of_a_type_is_listed_with_its_place() -> None:
    listed = {(pattern.where, pattern.text) for pattern in boards.patterns(boards.load("am62xx_sk"))}
    board = boards.load("am62xx_sk")
    assert ("moments.spl", board.moments[0].pattern) in listed
    assert ("flows.sbl.unlike", board.flows["sbl"].unlike) in listed
    assert ("evidence.rootfs", board.evidence[-1].confirmed_by) in listed
    assert ("prompts.shell", board.prompts.shell) in listed
    assert ("rom", board.rom) in listed
    assert ("low_power.resume_start", "Enabling non-boot CPUs") in listed
    assert {("failures", text) for text in board.failures} | {("troubles", text) for text in board.troubles} <= listed


def test_every_fact_about_a_vendors_board_says_where_it_is_from() -> None:
    for board in filter(lambda board: not board.virtual, map(boards.load, boards.names())):
        assert [link.name for link in board.links if not link.reference] == []
        own = asdict(board.benchmarks).items() - asdict(Benchmarks()).items()
        facts = {f"benchmarks.{key}" for key, _ in own} | {"benchmarks.audio_period_frames", "features"}
        facts |= {"recovery"} if board.recovery else set()
        assert facts - board.references.keys() == set(), board.name


def test_a_quiet_kernel_is_not_called_hung() -> None:
    silence_s = {
        (board.name, version): board.timeouts.hang_silence_s - published.max
        for board in map(boards.load, boards.shipped())
        for version, release in board.releases.items()
        for published in release.published.boot_s.values()
    }
    assert len(silence_s) >= 5
    assert {each: remaining_s for each, remaining_s in silence_s.items() if remaining_s < 5} == {}


def test_a_lab_has_types_of_its_own(board_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOARDLAB_BOARD_TYPES", str(board_file.parent))
    assert boards.load("x").title == "X"
    assert set(boards.names()) - set(boards.shipped()) == {"x"}


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("am62xx_sk.toml", "there is a board type 'am62xx_sk' already"),
        ("y.toml", "name = 'x': a type is called as its file; rename the file x.toml"),
    ],
)
def test_a_type_of_ones_own_is_called_as_its_file_and_as_no_other(
    board_file: Path, monkeypatch: pytest.MonkeyPatch, file: str, says: str
) -> None:
    board_file.rename(board_file.with_name(file))
    monkeypatch.setenv("BOARDLAB_BOARD_TYPES", str(board_file.parent))
    with pytest.raises(ConfigurationError, match=re.escape(says)) as raised:
        boards.load(Path(file).stem)
    assert str(board_file.with_name(file)) in str(raised.value)


def test_a_folder_of_types_that_is_none_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOARDLAB_BOARD_TYPES", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigurationError, match=r"nowhere, .*the variable"):
        boards.names()


def test_an_unknown_type_lists_what_there_is() -> None:
    with pytest.raises(ConfigurationError, match="am62xx_sk"):
        boards.load("beaglebone")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("boot_mode_bits = 2", "boot_mode_bits = 2\ncolour = 1", "colour"),
        ("boot_mode_bits = 2", 'boot_mode_bits = "2"', "boot_mode_bits"),
        ("boot_mode_bits = 2", "boot_mode_bits = 99", "'boot_mode_bits' must be in range(0, 33) (got 99) @ x.toml"),
        ("boot_mode = 1", "boot_mode = 9", "needs more than 2 straps"),
        ("[media]", "[recovery]\nuart = 9\n[media]", "recovery.uart = 0x9"),
        ("[media]", "[recovery]\nserial = 1\n[media]", "a way is uart or usb"),
        ('MMC1 = "sd"', 'MMC1 = "tape"', "'tape', which is not under media"),
        (r"from (\w+)", r"from \w+", "exactly one group"),
        ("boot_mode_bits = 2", 'boot_mode_bits = 2\nsleep = ["nap"]', "'nap'"),
        ("boot_mode_bits = 2", 'boot_mode_bits = 2\nfeatures = ["gpu"]', "'gpu'; the features are: audio, glmark2"),
        ("[media]", '[benchmarks]\ninterface = "eth7"\n[media]', "'eth7', which is not under links"),
        ("[media]", "[benchmarks]\naudio_period_frames = 0\n[media]", "audio_period_frames"),
        (
            "[media]",
            '[benchmarks]\ntcp_windw = "x"\n[media]',
            "no key 'tcp_windw' here; is 'tcp_window' meant? @ x.toml.benchmarks",
        ),
        (
            "[media]",
            "[benchmarks]\ncolour = 1\n[media]",
            "no key 'colour' here; there are: interface, audio_period_frames",
        ),
        (
            "[media]",
            '[[links]]\nname = "can0"\ntitle = "CAN"\n[media]',
            "this key is missing; add it @ x.toml.links[0].mbit_s",
        ),
        ("boot_mode_bits = 2", 'boot_mode_bits = 2\nreferences = { romm = "x" }', "'romm'; it may name: rom"),
        ("boot_mode_bits = 2", "boot_mode_bits = 2\nfailures = { x = 1 }", "expected"),
        ("boot_mode_bits = 2", 'boot_mode_bits = 2\nfailures = { x = { meens = "y" } }', "meens"),
        ("[media]", '[[rails]]\nname = "a"\nvolts = "1"\n[media]', "expected a number"),
        ("[media]", '[identity]\nhostname = "x"\n[media]', "model"),
        (
            "[media]",
            '[releases.r]\nuboot = "1"\nkernel = "1"\ndistribution = "1"\n'
            "published.boot_s = { tape = { mean = 1.0, min = 1.0, max = 1.0 } }\n[media]",
            "'tape', which is not under media",
        ),
        (
            "[media]",
            '[releases.r]\nuboot = "1"\nkernel = "1"\ndistribution = "1"\n'
            "published.boot_s = { sd = { mean = 3.0, min = 1.0, max = 2.0 } }\n[media]",
            "min <= mean <= max",
        ),
        (
            "[media]",
            '[releases.r]\nuboot = "1"\nkernel = "1"\ndistribution = "1"\nassumed = ["kernels"]\n[media]',
            "assumed names kernels; there are: bl31",
        ),
        ("pattern = 'x login: '", "pattern = '('", "regular expression"),
        ('name = "x"', "name = ", "not TOML"),
    ],
)
def test_wrong_data_is_refused_with_its_place(board_file: Path, old: str, new: str, says: str) -> None:
    board_file.write_text(MINIMAL.replace(old, new, 1))
    with pytest.raises(ConfigurationError) as raised:
        boards.load_file(board_file)
    assert says in str(raised.value)
    assert str(board_file) in str(raised.value)


def test_a_type_changes_a_shipped_one_by_names_and_takes_texts_out(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'name = "mine"\nbased_on = ["am62xx_sk"]\n[moments.login]\npattern = "mine login: "\n[moments.camera]\npattern = "camera"\n'
        "[failures]\n'Authentication failed' = \"\"\n'fell over' = \"fallen\"\n"
    )
    mine, shipped = boards.load_file(path), boards.load("am62xx_sk")
    login = next(moment for moment in mine.moments if moment.name == "login")
    assert (login.pattern, login.line_start, login.stage) == ("mine login: ", True, "User space")
    assert [moment.name for moment in mine.moments] == [*(moment.name for moment in shipped.moments), "camera"]
    assert mine.failures.keys() - shipped.failures.keys() == {"fell over"}
    assert shipped.failures.keys() - mine.failures.keys() == {"Authentication failed"}
    assert mine.rails == shipped.rails


def test_a_board_without_straps_says_nothing_of_them(board_file: Path) -> None:
    board_file.write_text(MINIMAL.replace("boot_mode_bits = 2\n", "").replace("boot_mode = 1, ", ""))
    board = boards.load_file(board_file)
    assert (board.boot_mode_bits, board.media_straps, board.media["sd"].boot_mode) == (0, [], 0)


def test_what_is_assumed_of_a_type_is_listed_with_its_place_whoever_says_so() -> None:
    assumed = boards.assumptions(boards.load("am62lxx_evm"))
    assert {
        *("media.ospi.boot_mode", "identity.cpu_mhz", "releases.12.00.sysfw", "low_power.modes.rtc_io_ddr.rails_on"),
        *("features", "flows"),
    } <= set(assumed)
    assert "links.can0" in boards.assumptions(boards.load("am62xx_sk"))
    assert "media.sd.boot_mode" not in assumed


def test_an_assumed_place_that_is_not_there_is_refused(board_file: Path) -> None:
    board_file.write_text(MINIMAL.replace("[prompts]", 'assumed = ["media.sd.boot_mode"]\n[prompts]', 1))
    assert boards.assumptions(boards.load_file(board_file))[-1] == "prompts.uboot"
    board_file.write_text(MINIMAL.replace("[prompts]", 'assumed = ["media.nand"]\n[prompts]', 1))
    with pytest.raises(ConfigurationError, match=r"'media\.nand'.*no 'nand'"):
        boards.load_file(board_file)


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        ('title = "S"\nstate = "mem"', "a suspend has a variant"),
        ('title = "S"\nstate = "mem"\nvariant = "deep"\nwoken_by = ["moon"]', "names 'moon'; the sources are: rtc"),
        (
            'title = "S"\nstate = "mem"\nvariant = "deep"\nwoken_by = ["can"]',
            "'can', which is not under low_power.wakes",
        ),
        ('title = "S"\nstate = "mem"\nvariant = "deep"\nrails_on = ["vdd"]', "'vdd', which is not under rails"),
        ('title = "S"\nstate = "mem"\nvariant = "deep"\nlatency_ms = [1.0]', "expected the way in and the way back"),
    ],
)
def test_a_mode_that_names_what_is_not_there_is_refused(board_file: Path, mode: str, says: str) -> None:
    board_file.write_text(
        MINIMAL.replace("[prompts]", 'sleep = ["io_ddr"]\n[prompts]', 1) + f"[low_power.modes.io_ddr]\n{mode}\n"
    )
    with pytest.raises(ConfigurationError, match=re.escape(says)):
        boards.load_file(board_file)
