"""Errors that the tool raises; each message shows the value seen, the limit and what to do."""


class KernelqualError(Exception):
    """Base of every error that the tool raises on purpose."""


class SettingsError(KernelqualError):
    """An option or ini value cannot be used."""


class DeclarationError(KernelqualError):
    """A spec, case, config or builder is declared wrongly."""


class InputError(KernelqualError):
    """A builder asked `seeded` for something that it cannot make, or used a tensor that it did not make."""


class UnsupportedConfigError(KernelqualError):
    """The spec or the launch itself rules a config out, for example a grid that does not follow it."""


class UnprovedLaunchError(KernelqualError):
    """It cannot be shown that the launch carried the forced config."""


class UnmeasurableError(KernelqualError):
    """A launch cannot be timed; the message says why."""


class DryRunError(KernelqualError):
    """It cannot be told without running what production would launch."""


class UnknownProgramError(KernelqualError):
    """It cannot be told whether a launch is the same program as another; the message says why."""


class DocumentError(KernelqualError):
    """A report or journal file cannot be read, or does not say what it must."""


class DeviceProcessError(KernelqualError):
    """The device process ended or stopped answering."""

    def __init__(
        self, cause: str, *, phase: str = "", launches: int = 0, timed_out: bool = False, log: str = ""
    ) -> None:
        """Keep what is known of the end: the phase it was in, the launches it had finished, its last output."""
        super().__init__(cause)
        self.cause = cause
        self.phase = phase
        self.launches = launches
        self.timed_out = timed_out
        self.log = log
