"""What all tests share."""

import signal

from hypothesis import settings

# How long an example takes says more about the machine than about the code.
settings.register_profile("kernelqual", deadline=None)
settings.load_profile("kernelqual")

# A shell that starts jobs in the background lets them ignore Ctrl-C, and so would every pytest that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
