# SPDX-License-Identifier: GPL-2.0-or-later
"""What is told of a machine, of which some are made up here; and what must never be told."""

import gzip
import json
import os
import pwd
import re
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from helper import FolderTest
from nfqbench.cgroup import cgroup_read
from nfqbench.host import Host
from nfqbench.kernelconfig import command_line_read, kernel_describe
from nfqbench.machine import machine_describe, machine_extended, machine_label, tools_describe
from nfqbench.record import Json

CPU = "sys/devices/system/cpu"


class MadeUp(Host):
    """The files of a folder, and the answers of programs; other programs are not there."""

    def __init__(self, root: Path, answers: Mapping[str, str]) -> None:
        super().__init__(root)
        self.answers = answers

    def said(self, command: Sequence[str]) -> str | None:
        return next((text for start, text in self.answers.items() if " ".join(command).startswith(start)), None)


def lscpu(**fields: str) -> str:
    entries = [{"field": f"{name.replace('_', ' ')}:", "data": data} for name, data in fields.items()]
    return json.dumps({"lscpu": [{"field": "Vendor ID:", "data": "any", "children": entries}]})


class MachineTest(FolderTest):
    def host(self, files: Mapping[str, str], answers: Mapping[str, str] | None = None) -> Host:
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return MadeUp(self.folder, answers or {})

    def part(self, machine: Json, *keys: str) -> object:
        value: object = machine
        for key in keys:
            assert isinstance(value, dict)
            value = value[key]
        return value

    def told(self, machine: Json, expected: Mapping[str, object]) -> None:
        """`expected` names parts by paths such as "kernel hz"."""
        self.assertEqual({path: self.part(machine, *path.split()) for path in expected}, expected)


def cpus(count: int, files: Mapping[str, str]) -> dict[str, str]:
    """The same files for each CPU; "{cpu}" is its number."""
    made = {f"{CPU}/cpu{cpu}/{name}": text for cpu in range(count) for name, text in files.items()}
    return {name: text.replace("{cpu}", name.removeprefix(f"{CPU}/cpu").split("/")[0]) for name, text in made.items()}


class Machines(MachineTest):
    def test_an_amd_desktop(self) -> None:
        files = cpus(4, {
            "cpufreq/scaling_driver": "acpi-cpufreq\n",
            "cpufreq/scaling_governor": "schedutil\n",
            "cpufreq/cpuinfo_min_freq": "2200000\n",
            "cpufreq/cpuinfo_max_freq": "4850195\n",
            "topology/physical_package_id": "0\n",
            "cpuidle/state0/name": "POLL\n", "cpuidle/state0/latency": "0\n", "cpuidle/state0/disable": "0\n",
            "cpuidle/state1/name": "C1\n", "cpuidle/state1/latency": "1\n", "cpuidle/state1/disable": "0\n",
            "cpuidle/state2/name": "C2\n", "cpuidle/state2/latency": "400\n", "cpuidle/state2/disable": "1\n",
        })  # fmt: skip
        for cpu in range(4):
            files[f"{CPU}/cpu{cpu}/topology/thread_siblings_list"] = f"{cpu % 2},{cpu % 2 + 2}\n"
        files.update({
            f"{CPU}/online": "0-3\n", f"{CPU}/smt/control": "on\n", f"{CPU}/cpufreq/boost": "1\n",
            f"{CPU}/cpuidle/current_driver": "acpi_idle\n", f"{CPU}/cpuidle/current_governor_ro": "menu\n",
            f"{CPU}/cpu0/cache/index0/level": "1\n", f"{CPU}/cpu0/cache/index0/type": "Data\n",
            f"{CPU}/cpu0/cache/index0/size": "32K\n", f"{CPU}/cpu0/cache/index3/level": "3\n",
            f"{CPU}/cpu0/cache/index3/type": "Unified\n", f"{CPU}/cpu0/cache/index3/size": "32768K\n",
            "sys/devices/system/node/node0/cpulist": "0-3\n",
            f"{CPU}/vulnerabilities/retbleed": "Mitigation: untrained return thunk\n",
            f"{CPU}/vulnerabilities/meltdown": "Not affected\n",
            "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        })  # fmt: skip
        known = lscpu(Vendor_ID="AuthenticAMD", Model_name="AMD Ryzen 7 5800X 8-Core Processor", Flags="fpu svm")
        machine = machine_describe(self.host(files, {"lscpu": known, "systemd-detect-virt": "none\n"}))
        self.told(machine, {
            "cpu": "AMD Ryzen 7 5800X 8-Core Processor", "cpu_vendor": "AuthenticAMD",
            "topology cores": 2, "topology sockets": 1, "topology numa_nodes": 1, "topology smt": "on",
            "topology caches": ["L1 Data 32K", "L3 Unified 32768K"], "virtualization": "none", "container": "none",
            "governor": "schedutil", "frequency governors": ["schedutil"], "frequency boost": True,
            "frequency lowest_khz": 2200000, "frequency highest_khz": 4850195, "frequency status": None,
            "idle driver": "acpi_idle", "idle governor": "menu",
            "idle states": ["POLL 0 us", "C1 1 us", "C2 400 us disabled"],
            "thermal_throttles": None, "mitigations": {"retbleed": "Mitigation: untrained return thunk"},
            "transparent_hugepages": "madvise",
        })  # fmt: skip
        self.assertRegex(machine_label({**machine, "cpus": 16}), "^amd-ryzen-7-5800x-x16$")

    def test_an_intel_laptop_with_intel_pstate(self) -> None:
        files = cpus(2, {
            "cpufreq/scaling_driver": "intel_pstate\n",
            "cpufreq/energy_performance_preference": "balance_power\n",
            "cpufreq/scaling_max_freq": "4200000\n",
            "thermal_throttle/core_throttle_count": "3\n",
            "thermal_throttle/package_throttle_count": "40\n",
            "cpuidle/state8/name": "C10\n", "cpuidle/state8/latency": "890\n", "cpuidle/state8/disable": "0\n",
        })  # fmt: skip
        files.update({
            f"{CPU}/cpu0/cpufreq/scaling_governor": "powersave\n",
            f"{CPU}/cpu1/cpufreq/scaling_governor": "performance\n",
            f"{CPU}/intel_pstate/no_turbo": "1\n", f"{CPU}/intel_pstate/status": "active\n",
            f"{CPU}/cpufreq/boost": "1\n", "proc/cmdline": "root=/dev/sda1 intel_idle.max_cstate=1 idle=poll quiet\n",
        })  # fmt: skip
        known = lscpu(Vendor_ID="GenuineIntel", Model_name="Intel(R) Core(TM) i7-8650U CPU @ 1.90GHz", Flags="fpu vmx")
        machine = machine_describe(self.host(files, {"lscpu": known}))
        self.told(machine, {
            "governor": "powersave", "frequency governors": ["performance", "powersave"], "frequency boost": False,
            "frequency driver": "intel_pstate", "frequency status": "active", "frequency ceiling_khz": 4200000,
            "frequency preferences": ["balance_power"], "idle states": ["C10 890 us"], "thermal_throttles": 86,
            "kernel command_line": {"intel_idle.max_cstate": "1", "idle": "poll"}, "virtualization": None,
        })  # fmt: skip
        self.assertEqual(machine_label({**machine, "cpus": 8}), "intel-core-i7-8650u-x8")

    def test_an_arm_board(self) -> None:
        files = cpus(4, {
            "cpufreq/scaling_governor": "ondemand\n", "topology/thread_siblings_list": "{cpu}\n",
            "topology/physical_package_id": "0\n", "cpu_capacity": "1024\n",
        })  # fmt: skip
        files[f"{CPU}/cpu3/cpu_capacity"] = "446\n"
        known = lscpu(Vendor_ID="ARM", Model_name="Cortex-A72")
        machine = machine_describe(self.host(files, {"lscpu": known}))
        self.told(machine, {
            "cpu": "Cortex-A72", "cpu_vendor": "ARM", "topology cores": 4, "topology smt": None,
            "topology capacities": ["1024", "446"], "topology caches": None, "idle states": None,
            "frequency boost": None,
        })  # fmt: skip
        self.assertEqual(machine_label({**machine, "cpus": 4}), "arm-cortex-a72-x4")

    def test_a_virtual_machine_without_cpuidle(self) -> None:
        files = {f"{CPU}/cpuidle/current_driver": "none\n", f"{CPU}/cpuidle/current_governor": "haltpoll\n"}
        known = lscpu(Model_name="AMD EPYC", Flags="fpu hypervisor", Hypervisor_vendor="KVM")
        machine = machine_describe(self.host(files, {"lscpu": known, "systemd-detect-virt": "kvm\n"}))
        self.told(machine, {
            "virtualization": "kvm", "hypervisor": "KVM", "virtualized": True, "governor": None,
            "frequency governors": None, "frequency highest_khz": None, "idle driver": "none", "idle states": None,
        })  # fmt: skip

    def test_a_machine_that_tells_nothing(self) -> None:
        machine = machine_describe(self.host({}))
        self.assertEqual(machine["cpu"], machine["architecture"])
        self.told(machine, {
            "cpu_vendor": None, "virtualization": None, "virtualized": None, "distribution": None, "clocksource": None,
            "mitigations": {}, "kernel hz": None, "kernel rt_group_sched": None, "kernel command_line": None,
            "kernel preemption": None, "cgroup limited": None, "namespace_sysctls": None,
        })  # fmt: skip
        self.assertEqual(set(json.loads(json.dumps(machine["sysctls"])).values()), {None})

    def test_without_lscpu_the_kernel_is_asked(self) -> None:
        host = self.host({"proc/cpuinfo": "system type\t: MediaTek\ncpu model\t\t: MIPS 1004Kc V2.15\n"})
        self.assertEqual(machine_describe(host)["cpu"], "MIPS 1004Kc V2.15")

    def test_what_new_namespaces_are_given(self) -> None:
        said = "net.ipv4.tcp_sack = 1\nnet.ipv4.tcp_rmem = 4096\t131072\t6291456\nkernel.hostname = eve\n"
        told = machine_describe(self.host({}, {"unshare --net sysctl": said}))["namespace_sysctls"]
        assert isinstance(told, dict)
        known = {name: value for name, value in told.items() if value is not None}
        self.assertEqual(known, {"net.ipv4.tcp_sack": "1", "net.ipv4.tcp_rmem": "4096 131072 6291456"})
        self.assertIn("net.ipv4.tcp_ecn", told)


class Kernel(MachineTest):
    def kernel(self, config: str, **files: str) -> Json:
        (self.folder / "proc").mkdir(exist_ok=True)
        (self.folder / "proc/config.gz").write_bytes(gzip.compress(config.encode()))
        return kernel_describe(self.host({name.replace("__", "/"): text for name, text in files.items()}))

    def test_the_preemption_in_force(self) -> None:
        dynamic = "CONFIG_PREEMPT_DYNAMIC=y\nCONFIG_PREEMPT_VOLUNTARY=y\n# CONFIG_PREEMPT is not set\n"
        self.assertEqual(self.kernel(dynamic)["preemption"], "built as PREEMPT_VOLUNTARY")
        self.assertEqual(self.kernel(dynamic, proc__cmdline="quiet preempt=full\n")["preemption"], "full")
        told = self.kernel(dynamic, sys__kernel__debug__sched__preempt="none voluntary (lazy) full\n")
        self.assertEqual((told["preemption"], told["preempt_dynamic"]), ("lazy", True))

    def test_an_order_that_the_kernel_cannot_follow_is_not_believed(self) -> None:
        told = self.kernel("CONFIG_PREEMPT_NONE=y\n", proc__cmdline="preempt=full\n")
        self.assertEqual((told["preemption"], told["preempt_dynamic"]), ("built as PREEMPT_NONE", False))

    def test_real_time_ticks_and_groups(self) -> None:
        config = "CONFIG_HZ=1000\nCONFIG_NO_HZ_FULL=y\nCONFIG_RT_GROUP_SCHED=y\nCONFIG_PREEMPT_RT=y\n"
        told = self.kernel(config, sys__devices__system__cpu__nohz_full="(null)\n")
        self.assertEqual(told["hz"], 1000)
        self.assertEqual([told[key] for key in ("no_hz_full", "rt_group_sched", "preempt_rt")], [True] * 3)
        self.assertEqual(told["tickless_cpus"], "")
        self.assertEqual(told["isolated_cpus"], None)

    def test_a_real_time_kernel_names_itself(self) -> None:
        host = self.host({"proc/sys/kernel/version": "#1 SMP PREEMPT_RT Debian 6.1.90-1\n"})
        self.assertEqual(kernel_describe(host)["preempt_rt"], True)

    def test_a_broken_configuration_is_no_configuration(self) -> None:
        (self.folder / "proc").mkdir()
        (self.folder / "proc/config.gz").write_bytes(gzip.compress(b"CONFIG_HZ=100\n" * 99)[:30])
        self.assertEqual(kernel_describe(self.host({}))["hz"], None)

    def test_the_configuration_that_the_distribution_installs(self) -> None:
        files = {"proc/sys/kernel/osrelease": "5.10.0-9-amd64\n", "boot/config-5.10.0-9-amd64": "CONFIG_HZ=300\n"}
        told = kernel_describe(self.host(files))
        self.assertEqual((told["release"], told["hz"]), ("5.10.0-9-amd64", 300))

    def test_of_the_command_line_only_what_is_known(self) -> None:
        line = (
            "BOOT_IMAGE=/vmlinuz-6.1 root=UUID=0c1e-11 ip=192.0.2.7 isolcpus=2-3 hugepagesz=2M hugepagesz=1G nosmt "
            "idle=/home/eve resume=/dev/vg-eve/swap -- mitigations=off"
        )
        expected = {"isolcpus": "2-3", "hugepagesz": "2M 1G", "nosmt": "set", "idle": "(not shown)"}
        self.assertEqual(command_line_read(self.host({"proc/cmdline": line + "\n"})), expected)


class Cgroups(MachineTest):
    V2 = {
        "proc/self/mounts": "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n",
        "proc/self/cgroup": "0::/user.slice/session-1.scope\n",
        "sys/fs/cgroup/user.slice/session-1.scope/cpu.stat": "usage_usec 5\nnr_periods 10\nnr_throttled 4\n",
    }
    V1 = {
        "proc/self/mounts": "none /x tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu,cpuacct 0 0\n",
        "proc/self/cgroup": "3:cpuset:/\n2:cpu,cpuacct:/docker/1\n0::/\n",
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "150000\n",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/cpu/cpu.rt_runtime_us": "0\n",
    }

    def test_version_2_the_narrowest_limit_of_all_above_counts(self) -> None:
        above = {
            "sys/fs/cgroup/user.slice/cpu.max": "50000 100000\n",
            "sys/fs/cgroup/user.slice/session-1.scope/cpu.max": "200000 100000\n",
        }
        found = cgroup_read(self.host({**self.V2, **above}))
        self.assertEqual((found.version, found.limited, found.cpus_limit, found.throttled_periods), (2, True, 0.5, 4))

    def test_version_2_without_a_limit(self) -> None:
        found = cgroup_read(self.host({**self.V2, "sys/fs/cgroup/user.slice/cpu.max": "max 100000\n"}))
        self.assertEqual((found.limited, found.cpus_limit, found.rt_runtime_us), (False, None, None))

    def test_version_1_in_a_container_that_hides_its_own_path(self) -> None:
        found = cgroup_read(self.host(self.V1))
        self.assertEqual((found.version, found.limited, found.cpus_limit, found.rt_runtime_us), (1, True, 1.5, 0))

    def test_version_1_says_minus_one_for_no_limit(self) -> None:
        found = cgroup_read(self.host({**self.V1, "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n"}))
        self.assertEqual((found.limited, found.cpus_limit), (False, None))

    def test_what_is_mounted_but_cannot_be_seen_is_unknown(self) -> None:
        files = {name: text for name, text in self.V1.items() if name.startswith("proc/")}
        self.assertEqual(cgroup_read(self.host(files)).limited, None)

    def test_a_path_that_leads_out_is_not_followed(self) -> None:
        files = {**self.V2, "proc/self/cgroup": "0::/../other\n", "sys/fs/other/cpu.max": "1000 100000\n"}
        self.assertEqual(cgroup_read(self.host(files)).cpus_limit, None)


class Label(MachineTest):
    def label(self, cpu: object, vendor: object = None, number: object = 4) -> str:
        return machine_label({"cpu": cpu, "cpu_vendor": vendor, "cpus": number})

    def test_processors(self) -> None:
        for cpu, label in {
            "AMD EPYC": "amd-epyc-x4",
            "AMD GX-412TC SOC": "amd-gx-412tc-soc-x4",
            "Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz": "intel-xeon-platinum-8259cl-x4",
            "11th Gen Intel(R) Core(TM) i7-1165G7 @ 2.80GHz": "11th-gen-intel-core-i7-1165g7-x4",
            "AMD Ryzen 5 PRO 4650U with Radeon Graphics": "amd-ryzen-5-pro-4650u-x4",
        }.items():
            self.assertEqual(self.label(cpu), label)

    def test_a_name_in_any_case(self) -> None:
        for cpu in ("", None, "@ 3 GHz", "\u7dda\u8def", "../../etc", "a" * 99, "\x1b[31m", "CPU"):
            for number in (4, None, "x/y", 10**9):
                label = self.label(cpu, number=number)
                self.assertRegex(label, r"^[a-z0-9][a-z0-9.-]{0,39}$")
                self.assertNotIn("..", label)


class Identity(MachineTest):
    SECRETS = {
        "proc/sys/kernel/hostname": "evesbox", "proc/cmdline": "root=UUID=0c1e-secret ip=203.0.113.9 eve=1 idle=poll",
        "sys/class/dmi/id/product_serial": "SN12345", "sys/class/dmi/id/product_uuid": "uuid-secret",
        "sys/class/dmi/id/sys_vendor": "EveWorks", "sys/class/dmi/id/bios_version": "1.99",
        "sys/class/net/wlp3s0/address": "02:00:5e:11:22:33", "sys/class/net/wlp3s0/device/uevent": "DRIVER=iwlwifi\n",
        "sys/class/net/lo/address": "00:00:00:00:00:00",
        "proc/self/cgroup": "0::/user.slice/user-eve.slice\n",
        "proc/self/mounts": "cgroup2 /home/eve/cg cgroup2 rw 0 0\n",
        "home/eve/cg/cpu.max": "max 100000\n",
    }  # fmt: skip
    ADDRESSES = '[{"ifname": "wlp3s0", "addr_info": [{"family": "inet", "local": "198.51.100.4"}, {}]}]'

    def test_nothing_of_anybody_is_described(self) -> None:
        text = json.dumps(machine_describe(self.host(self.SECRETS, {"ip": self.ADDRESSES})))
        for secret in ("eve", "secret", "203.0", "SN12345", "EveWorks", "02:00", "wlp3s0", "198.51", "/home", "root="):
            self.assertNotIn(secret, text)
        self.assertIn('"idle": "poll"', text)

    def test_it_is_told_if_it_is_asked_for(self) -> None:
        extended = machine_extended(self.host(self.SECRETS, {"ip": self.ADDRESSES}))
        self.assertEqual(extended["host"], "evesbox")
        self.assertEqual(extended["command_line"], self.SECRETS["proc/cmdline"])
        self.assertEqual(self.part(extended, "dmi", "sys_vendor"), "EveWorks")
        self.assertEqual(self.part(extended, "dmi", "board_name"), None)
        wireless = {"name": "wlp3s0", "driver": "iwlwifi", "mac": "02:00:5e:11:22:33", "addresses": ["198.51.100.4"]}
        self.assertEqual(extended["interfaces"], [wireless])

    def test_serial_numbers_are_not_even_told_then(self) -> None:
        text = json.dumps(machine_extended(self.host(self.SECRETS)))
        self.assertNotIn("SN12345", text)
        self.assertNotIn("uuid-secret", text)

    def test_this_machine(self) -> None:
        """Short names may be a part of other words by chance."""
        text = json.dumps([machine_describe(), tools_describe()])
        words = set(re.findall(r"[\w.:-]+", text))
        host = Host()
        names = {socket.gethostname(), socket.gethostname().partition(".")[0]} - {"localhost", "none"}
        if os.geteuid() != 0:
            names.add(pwd.getpwuid(os.getuid()).pw_name)
        self.assertEqual(names & words, set())
        secrets: list[str | None] = list(re.findall(r"[0-9a-f:.]+", json.dumps(machine_extended()["interfaces"])))
        serials = ("product_serial", "board_serial", "chassis_serial", "product_uuid")
        secrets += [host.line(f"/sys/class/dmi/id/{name}") for name in serials]
        secrets += [host.line("/etc/machine-id"), *re.findall(r"UUID=\S+", host.line("/proc/cmdline") or "")]
        for secret in [secret for secret in secrets if secret and len(secret) > 6]:
            self.assertNotIn(secret, text)
        self.assertNotRegex(text, r"root=|/home/|/root/|UUID")
        self.assertNotRegex(text, r"\b([0-9a-f]{2}:){5}[0-9a-f]{2}\b")

    def test_what_older_readers_rely_on(self) -> None:
        machine = machine_describe()
        self.assertIsInstance(machine["cpu"], str)
        self.assertIsInstance(machine["cpus"], int)
        self.assertIsInstance(self.part(machine, "kernel", "release"), str)
        self.assertEqual(self.part(machine, "kernel", "release"), os.uname().release)
