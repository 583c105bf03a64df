# SPDX-License-Identifier: GPL-2.0-or-later
"""(to be replaced)"""

from .iperf3 import Traffic


def udp_parse(text: str, source: str) -> Traffic:
    raise NotImplementedError
