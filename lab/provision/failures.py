"""What can go wrong while a release is put on a board: one class for each failure class, under the error tree of lab.errors."""

from __future__ import annotations

from lab.errors import BoardStableError, BoardTransientError, ConfigurationError, LabStableError, LabTransientError


class MediaWriteFailedError(BoardTransientError):
    """The board or the writer said that a write went wrong."""

    failure = "media_write_failed"


class MediaVerifyFailedError(BoardTransientError):
    """What was read back is not what was written."""

    failure = "media_verify_failed"


class MediaWriteProtectedError(BoardStableError):
    """The medium takes no writes."""

    failure = "media_write_protected"


class MediaBadBlockError(BoardStableError):
    """The medium has a block that cannot be written or erased, where the release needs it."""

    failure = "media_bad_block"


class MediaMissingError(BoardStableError):
    """The board or the host does not see the medium."""

    failure = "media_missing"


class ExtCsdNotSetError(BoardStableError):
    """The eMMC answers that it boots otherwise than it was told."""

    failure = "extcsd_not_set"


class TftpTimeoutError(LabTransientError):
    """The board asked for a file over the network and got none of it, or not all."""

    failure = "tftp_timeout"


class WriteStalledError(LabTransientError):
    """A write made no progress for longer than its way allows, and was ended."""

    failure = "write_stalled"


class ImageUnreachableError(LabTransientError):
    """A file of the release could not be fetched."""

    failure = "image_unreachable"


class MultiplexerFailedError(LabTransientError):
    """The SD multiplexer is not where it was set to."""

    failure = "multiplexer_failed"


class RecoveryFailedError(BoardTransientError):
    """A board without software did not take what was sent to its ROM or to the stage after it."""

    failure = "recovery_failed"


class ImageDamagedError(LabStableError):
    """A file of the release has not the digest that the release states, or cannot be unpacked."""

    failure = "image_damaged"


class ReleaseMismatchError(LabTransientError):
    """The board was provisioned, and what boots is not the release; a line that was damaged may look so, too."""

    failure = "release_mismatch"


class ImageTooLargeError(ConfigurationError):
    """The content does not fit where it shall go; nothing was written."""

    failure = "image_too_large"


class WrongImageForBoardError(ConfigurationError):
    """The release is for another board type or security state; nothing was written."""

    failure = "wrong_image_for_board"


class TargetRefusedError(ConfigurationError):
    """The target is mounted, in use, the host's own, or not the environment's; nothing was written."""

    failure = "target_refused"
