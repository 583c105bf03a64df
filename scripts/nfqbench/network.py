# SPDX-License-Identifier: GPL-2.0-or-later
"""The network that a row is measured in: what netns.sh is asked to build. Each key may stand in the scenario and, over
it, in a row."""

from collections.abc import Iterator
from dataclasses import dataclass, fields

TOPOLOGIES = ("router", "pair", "bridge", "lo")
HOOKS = {"router": ("forward",), "bridge": ("forward",), "pair": ("output", "input"), "lo": ("output",)}
FAMILIES = (4, 6)
SWITCHES = ("", "on", "off")
CONNTRACK = ("off", "on", "nat")
TUNNELS = ("", "wireguard")
MTU_LEAST, MTU_MOST = 1280, 65535
MTU = 1500


@dataclass(frozen=True)
class Network:
    topology: str
    hook: str = ""  # empty = the topology's first
    family: int = 4  # the version of IP
    mtu: int = MTU
    tso: str = ""  # of all links; empty = as the kernel has it
    gro: str = ""  # of all links, or of the tunnel if there is one
    gso_max: int = 0  # bytes of the greatest aggregate; 0 = as the kernel has it
    conntrack: str = "off"
    tunnel: str = ""

    @property
    def directions(self) -> int:
        """How often a ping and its reply together pass the queue."""
        return 1 if self.topology == "pair" else 2

    @property
    def hook_used(self) -> str:
        return self.hook or HOOKS[self.topology][0]

    def options(self) -> dict[str, str]:
        """Of cell.sh, without those that change nothing."""
        told = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        changed = {name: value for name, (value, usual) in told.items() if value != usual}
        return {name.replace("_", "-"): str(value) for name, value in changed.items()}


KEYS = tuple(field.name for field in fields(Network))


def network_check(network: Network) -> Iterator[str]:
    if network.topology not in TOPOLOGIES:
        yield f"topology \"{network.topology}\": {' or '.join(TOPOLOGIES)}"
        return
    problems = {
        f"hook \"{network.hook}\": {' or '.join(HOOKS[network.topology])} in topology {network.topology}":
            network.hook and network.hook not in HOOKS[network.topology],
        f"family {network.family}: 4 or 6": network.family not in FAMILIES,
        f"mtu {network.mtu}: {MTU_LEAST} to {MTU_MOST}": not MTU_LEAST <= network.mtu <= MTU_MOST,
        f"tso \"{network.tso}\": on or off": network.tso not in SWITCHES,
        f"gro \"{network.gro}\": on or off": network.gro not in SWITCHES,
        f"conntrack \"{network.conntrack}\": {' or '.join(CONNTRACK)}": network.conntrack not in CONNTRACK,
        f"tunnel \"{network.tunnel}\": wireguard": network.tunnel not in TUNNELS,
        f"conntrack nat: in topology {network.topology} nobody routes":
            network.conntrack == "nat" and network.topology != "router",
        f"tunnel: there is none in topology {network.topology}": network.tunnel and network.topology != "router",
    }  # fmt: skip
    yield from (problem for problem, found in problems.items() if found)
