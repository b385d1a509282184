"""All faults by name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from lab.errors import ConfigurationError
from virtual.sim.faults import (
    adapter,
    ailing,
    booting,
    dying,
    line,
    lookalike,
    manners,
    rails,
    restarting,
    session,
    sleeping,
    software,
    supply,
)
from virtual.sim.faults.base import Fault

_KINDS: tuple[type[Fault], ...] = (
    supply.NoPower,
    supply.StuckRelay,
    supply.SlowDischarge,
    supply.LateRelay,
    supply.PduError,
    supply.PduTimeout,
    supply.PduRefused,
    supply.PduLies,
    booting.HangSpl,
    booting.HangUboot,
    booting.HangKernel,
    booting.HangBeforeLogin,
    dying.KernelPanic,
    dying.Oops,
    dying.OopsAfterPrompt,
    dying.ExternalAbort,
    dying.ArmAbort,
    dying.SError,
    dying.SoftLockup,
    booting.WatchdogReset,
    restarting.WatchdogUnreadable,
    restarting.CountdownReset,
    restarting.WarmRestart,
    restarting.WarmRestartUnreadable,
    restarting.Kexec,
    restarting.ClockRestarted,
    booting.UbootAbort,
    booting.WrongMedium,
    software.RootElsewhere,
    software.StockEnvironment,
    software.OtherSoftware,
    booting.RomOverUart,
    booting.NoBootDevice,
    booting.CorruptedMedium,
    ailing.MmcErrors,
    ailing.UbiErrors,
    ailing.RootReadOnly,
    ailing.FsckRepairs,
    ailing.UnitFailed,
    booting.MediumFallback,
    booting.KeyNoise,
    booting.AutobootMissed,
    lookalike.EnvironmentEchoed,
    lookalike.TerminalQuery,
    lookalike.PromptInLog,
    lookalike.PromptInIssue,
    lookalike.PromptWithText,
    lookalike.PromptWithKernelText,
    lookalike.PrintkCaller,
    lookalike.PrintkDated,
    manners.SecondPrompt,
    manners.NoticeAfterPrompt,
    manners.QuietKernel,
    manners.AutobootKeyed,
    manners.SilentBl31,
    manners.TeeTalks,
    manners.SplRebuilt,
    manners.ClockRates,
    manners.ExtlinuxBoot,
    manners.NoCardPresent,
    manners.ErratumI2331,
    manners.ResumeWithSpl,
    line.LinesLost,
    line.Dropped,
    line.Duplicated,
    line.Garbled,
    line.WrongBaud,
    line.NulStorm,
    line.Flood,
    line.SilentConsole,
    line.PromptInterleaved,
    line.PromptSplit,
    line.InputLost,
    adapter.AdapterLost,
    adapter.AdapterRenumbered,
    session.LoginRefused,
    session.ShellSlow,
    session.ClockJump,
    session.ClockStopped,
    sleeping.SuspendRefused,
    sleeping.EarlyWake,
    sleeping.HungResume,
    sleeping.ModeRefused,
    rails.SensorNack,
    rails.SensorStuck,
    rails.WrongShunt,
    rails.SwappedRails,
    rails.SensorReset,
)
FAULTS: Mapping[str, type[Fault]] = {kind.name: kind for kind in _KINDS}


def find(name: str) -> type[Fault]:
    """The fault of that name.

    Raises:
        ConfigurationError: there is none.
    """
    if name not in FAULTS:
        close = difflib.get_close_matches(name, FAULTS, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise ConfigurationError(f"no fault {name!r}{hint}; there are: {', '.join(FAULTS)}")
    return FAULTS[name]
