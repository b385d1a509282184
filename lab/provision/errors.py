"""Errors of provisioning, one class for each failure class."""

from __future__ import annotations

from lab.errors import BoardStableError, BoardTransientError, ConfigurationError, LabStableError, LabTransientError


class MediaWriteFailedError(BoardTransientError):
    """The board or the writer said that a write went wrong."""

    failure = "media_write_failed"


class MediaVerifyFailedError(BoardTransientError):
    """The medium does not read back as written."""

    failure = "media_verify_failed"


class MediaWriteProtectedError(BoardStableError):
    """The medium takes no writes."""

    failure = "media_write_protected"


class MediaBadBlockError(BoardStableError):
    """A block that the release needs cannot be written or erased."""

    failure = "media_bad_block"


class MediaMissingError(BoardStableError):
    """The board or the host does not see the medium."""

    failure = "media_missing"


class ExtCsdNotSetError(BoardStableError):
    """The eMMC answers that it boots otherwise than it was told."""

    failure = "extcsd_not_set"


class TftpTimeoutError(LabTransientError):
    """A file that the board requested over TFTP did not arrive completely."""

    failure = "tftp_timeout"


class WriteStalledError(LabTransientError):
    """A write stalled longer than its writer allows, and was ended."""

    failure = "write_stalled"


class ImageUnreachableError(LabTransientError):
    """A file of the release could not be fetched."""

    failure = "image_unreachable"


class MultiplexerFailedError(LabTransientError):
    """The SD multiplexer is not where it was set to."""

    failure = "multiplexer_failed"


class RecoveryFailedError(BoardTransientError):
    """A board without software rejected a recovery stage.

    Its ROM or the stage after it did not accept the file.
    """

    failure = "recovery_failed"


class ImageDamagedError(LabStableError):
    """A release file has a wrong digest or cannot be unpacked."""

    failure = "image_damaged"


class ReleaseMismatchError(LabTransientError):
    """The board was provisioned, but boots something else than the release.

    A line that was damaged on the console looks the same.
    """

    failure = "release_mismatch"


class ImageTooLargeError(ConfigurationError):
    """The content does not fit where it shall go; nothing was written."""

    failure = "image_too_large"


class WrongImageForBoardError(ConfigurationError):
    """The release is for another board type or security state.

    Nothing was written.
    """

    failure = "wrong_image_for_board"


class TargetRefusedError(ConfigurationError):
    """The target is in use or not the environment's; nothing was written.

    It may be mounted, or a disk of the host itself.
    """

    failure = "target_refused"
