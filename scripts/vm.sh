#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# vm.sh: runs a command under another kernel, in a virtual machine whose files are this machine's.
#
# Theory of operation
#
#   A kernel is a package of the distribution, downloaded and unpacked into a cache, never installed. Of its modules
#   only those that the command may need are kept. The initramfs is busybox and the modules that mount the root: this
#   machine's root by 9p, read only, with a memory file system over it; and one directory that can be written, at the
#   same path. The command runs there as root; its output and its status come back as files in that directory.
#
#   The machine is emulated unless --kvm is given: /dev/kvm may exist and yet hang with a distribution's kernel.
#   Emulation is single-threaded, since emulated CPUs that really run side by side crash some kernels, and 40 to 60 times
#   slower: what runs inside can show that something works, and how often it happened, but not how fast. There are two
#   CPUs in turn all the same: with one, packets that are decrypted by another thread are delivered one by one, and GRO
#   finds none to merge.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$here/lib.sh"

readonly usage="usage: vm.sh run KERNEL --share DIR [--timeout SECONDS] [--memory MIB] [--cpus N] [--kvm] -- COMMAND...
       vm.sh fetch KERNEL

  KERNEL      6.1, 6.1-rt, 6.12 or 6.12-rt: what Debian 12 has, -rt with PREEMPT_RT
  --share     the only directory that COMMAND can write to outside of memory
  --kvm       with the processor's help: fast, if it works at all

Kernels are kept in NFQ_VM_CACHE, or in ~/.cache/nfq-bench. Exit status: that of COMMAND; 4 cannot run here, 124 COMMAND
did not end in time, 125 the machine itself died."

share='' timeout=300 memory=1024 cpus=2 kvm=no
readonly -A forms=(
	[share]='/?[^[:cntrl:]]+'
	[timeout]='[1-9][0-9]{0,4}'
	[memory]='[1-9][0-9]{2,5}'
	[cpus]='[1-9][0-9]?'
)
readonly cache=${NFQ_VM_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/nfq-bench}
readonly died=125 late=124
action='' kernel='' command=()
work=''

# Modules of the way to the root, in the initramfs; and those that tests and scenarios need, with what these need.
readonly root_modules=(9pnet_virtio 9p overlay virtio_pci)
readonly modules=("${root_modules[@]}" veth wireguard nfnetlink_queue nft_queue nft_ct nft_chain_nat nft_masq nft_compat
	nft_counter nf_tables xt_NFQUEUE xt_conntrack xt_MASQUERADE iptable_filter iptable_nat ip6table_filter ip6table_nat
	ip_tables ip6_tables bridge br_netfilter tcp_bbr sch_netem sch_fq_codel sch_cake nf_conntrack)

# ---- command line ----

options_parse() {
	action=${1:-}
	case $action in
	-h | --help) echo "$usage" && exit 0 ;;
	run | fetch) ;;
	*) die 2 "'$action' is no command: use run or fetch (--help tells more)" ;;
	esac
	kernel=${2:-}
	form_check KERNEL "$kernel" '[1-9][0-9]*\.[0-9]+(-rt)?'
	shift 2
	while [[ ${1:-} == --* && $1 != -- ]]; do
		case $1 in
		--kvm) kvm=yes ;;
		*)
			option_set "${@:1:2}"
			shift
			;;
		esac
		shift
	done
	[[ $action == run ]] || return 0
	[[ ${1:-} == -- && $# -gt 1 ]] || die 2 "say what to run: -- COMMAND..."
	command=("${@:2}")
	[[ -d $share && -w $share ]] || die 2 "--share '$share': not a directory that can be written to"
	share=$(cd "$share" && pwd)
	[[ $share != *[,[:space:]]* ]] ||
		die 2 "--share '$share': its path must be without spaces and commas, which separate the machine's own options"
}

# ---- kernels ----

# Prints the package of the kernel: what its metapackage depends on today.
package_print() {
	local flavour=amd64 version=${kernel%-rt} meta package
	[[ $kernel != *-rt ]] || flavour=rt-amd64
	for meta in "linux-image-$version-$flavour" "linux-image-$flavour"; do
		package=$(apt-cache depends "$meta" 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
		[[ $package != linux-image-"$version".* ]] || { echo "$package" && return; }
	done
	return 1
}

kernel_is_there() {
	[[ -e $cache/$kernel/vmlinuz && -e $cache/$kernel/initramfs ]]
}

# Unpacked under another name and renamed when it is complete: others may do the same at the same time.
kernel_fetch() {
	local package new
	kernel_is_there && return
	tools_check apt-get:apt dpkg-deb:dpkg depmod:kmod busybox:busybox-static
	package=$(package_print) || die 4 "no package of Linux $kernel is known here: Debian 12 has it (apt-get update)"
	mkdir -p "$cache"
	new=$(mktemp -d "$cache/.$kernel.XXXXXX")
	work=$new
	(cd "$new" && apt-get -qq -o APT::Sandbox::User=root download "$package" >&2) || die 4 "cannot download $package"
	dpkg-deb -x "$new"/linux-image-*.deb "$new/all"
	kernel_reduce "$new"
	initramfs_make "$new"
	rm -rf "$new"/linux-image-*.deb "$new/all"
	[[ -e $cache/$kernel ]] || mv -T "$new" "$cache/$kernel" 2>/dev/null || true
	rm -rf "$new"
	work=
}

# The kernel and the modules that are needed.
kernel_reduce() { # DIRECTORY
	local release name file
	release=$(basename "$1"/all/lib/modules/*)
	depmod -b "$1/all" "$release"
	cp "$1/all/boot/vmlinuz-$release" "$1/vmlinuz"
	cp "$1/all/boot/config-$release" "$1/config"
	mkdir -p "$1/root/lib/modules/$release"
	cp "$1/all/lib/modules/$release"/modules.{builtin,builtin.modinfo,order} "$1/root/lib/modules/$release/"
	for name in "${modules[@]}"; do
		module_files_print "$1/all" "$release" "$name"
	done | sort -u | while read -r file; do
		install -D -m 644 "$file" "$1/root/${file#"$1/all/"}"
	done
	depmod -b "$1/root" "$release"
	echo "$release" >"$1/release"
}

# Those it needs first. A kernel that has it built in, or not at all, has none.
module_files_print() { # DIRECTORY RELEASE MODULE
	modprobe -d "$1" -S "$2" --show-depends "$3" 2>/dev/null | sed -n 's/^insmod \([^ ]*\).*/\1/p' || true
}

initramfs_make() { # DIRECTORY
	local release tree=$1/tree name file
	release=$(<"$1/release")
	mkdir -p "$tree"/{bin,modules,proc,sys,dev,root}
	cp "$(type -P busybox)" "$tree/bin/busybox"
	for name in "${root_modules[@]}"; do
		module_files_print "$1/root" "$release" "$name"
	done | awk '!seen[$0]++' | while read -r file; do
		cp "$file" "$tree/modules/"
		basename "$file"
	done >"$tree/modules/order"
	guest_init_print >"$tree/init"
	chmod 755 "$tree/init"
	(cd "$tree" && find . | busybox cpio -o -H newc 2>/dev/null) | gzip -1 >"$1/initramfs"
	rm -rf "$tree"
}

# What the guest does before and after the command. Its own modules come with the second share.
guest_init_print() {
	cat <<-'END'
		#!/bin/busybox sh
		export PATH=/bin
		/bin/busybox --install -s /bin
		mount -t proc proc /proc
		mount -t sysfs sys /sys
		mount -t devtmpfs dev /dev
		while read -r module; do
			case $module in
			*.xz) unxz -c "/modules/$module" >/modules/now.ko ;;
			*) cp "/modules/$module" /modules/now.ko ;;
			esac
			insmod /modules/now.ko
		done </modules/order
		mkdir -p /lower /memory /kernel
		options=trans=virtio,version=9p2000.L,msize=262144
		mount -t 9p -o "ro,cache=loose,$options" root /lower || echo "vm: no root"
		mount -t 9p -o "ro,cache=loose,$options" kernel /kernel || echo "vm: no kernel"
		mount -t tmpfs memory /memory
		mkdir /memory/upper /memory/work
		mount -t overlay -o lowerdir=/lower,upperdir=/memory/upper,workdir=/memory/work overlay /root || echo "vm: no overlay"
		share=$(sed -n 's/.*nfq_share=\([^ ]*\).*/\1/p' /proc/cmdline)
		for place in proc sys dev run tmp var/tmp; do
			mkdir -p "/root/$place"
		done
		mount --move /proc /root/proc
		mount --move /sys /root/sys
		mount --move /dev /root/dev
		mkdir -p /root/dev/pts /root/dev/shm /root/dev/net
		mount -t devpts pts /root/dev/pts
		[ -e /root/dev/net/tun ] || mknod /root/dev/net/tun c 10 200
		ln -sf /proc/self/fd /root/dev/fd
		ln -sf /proc/self/fd/0 /root/dev/stdin
		ln -sf /proc/self/fd/1 /root/dev/stdout
		ln -sf /proc/self/fd/2 /root/dev/stderr
		mount -t tmpfs run /root/run
		mkdir -p /root/lib/modules "/root/$share"
		mount -t tmpfs modules "$(readlink -f /root/lib/modules)"
		cp -r /kernel/lib/modules/* "$(readlink -f /root/lib/modules)"
		mount -t 9p -o "cache=none,$options" share "/root/$share" || echo "vm: no share"
		exec chroot /root /bin/bash "$share/.vm/start"
	END
}

# ---- the machine ----

start_write() {
	mkdir "$share/.vm"
	{
		printf 'export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C\n'
		printf 'ip link set lo up\ncd %q\n' "$PWD"
		env | sed -n '/^NFQ_[A-Z_]*=/p' | while IFS='=' read -r name value; do
			printf 'export %s=%q\n' "$name" "$value"
		done
		printf '%q ' "${command[@]}"
		printf '</dev/null >%q 2>%q\n' "$share/.vm/stdout" "$share/.vm/stderr"
		printf 'echo $? >%q\nsync\necho o >/proc/sysrq-trigger\nsleep 60\n' "$share/.vm/status"
	} >"$share/.vm/start"
}

machine_start() {
	local accelerate=(-accel "tcg,thread=single" -cpu max)
	[[ $kvm == no ]] || accelerate=(-accel kvm -cpu host)
	timeout --foreground "$timeout" qemu-system-x86_64 -nodefaults -no-user-config -display none -no-reboot \
		-machine q35 "${accelerate[@]}" -smp "$cpus" -m "$memory" -serial "file:$share/.vm/console" \
		-kernel "$cache/$kernel/vmlinuz" -initrd "$cache/$kernel/initramfs" \
		-append "console=ttyS0 panic=-1 quiet tsc=unstable nfq_share=$share" \
		-virtfs local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap \
		-virtfs "local,path=$cache/$kernel/root,mount_tag=kernel,security_model=none,readonly=on" \
		-virtfs "local,path=$share,mount_tag=share,security_model=none" </dev/null >&2 &
	machine=$!
}

# Sets status to what the command ended with, or to what became of the machine.
machine_run() {
	local code=0
	rm -rf "$share/.vm"
	start_write
	machine_start
	wait "$machine" || code=$?
	machine=''
	if [[ -s $share/.vm/status ]]; then
		status=$(<"$share/.vm/status")
	else
		status=$died
		((code != 124)) || status=$late
	fi
}

output_show() {
	if [[ -e $share/.vm/stdout ]]; then
		cat "$share/.vm/stdout"
		cat "$share/.vm/stderr" >&2
	fi
	case $status in
	"$late") echo "vm.sh: Linux $kernel: not done after $timeout s" >&2 ;;
	"$died") echo "vm.sh: Linux $kernel: the machine died: $(tail -n 1 "$share/.vm/console" 2>/dev/null)" >&2 ;;
	esac
}

# shellcheck disable=SC2317 # by the trap
clean_up() {
	if [[ ${machine:-} ]]; then
		kill "$machine" 2>/dev/null || true
		wait "$machine" || true
	fi
	[[ ! $work ]] || rm -rf "$work"
	[[ ! $share ]] || rm -rf "$share/.vm"
}

main() {
	local status=0 machine=''
	trap clean_up EXIT
	trap 'exit 130' INT
	trap 'exit 143' HUP TERM
	options_parse "$@"
	tools_check qemu-system-x86_64:qemu-system-x86 busybox:busybox-static depmod:kmod
	[[ $(id -u) == 0 ]] || die 4 "needs root: the guest's root reads all files of this machine"
	kernel_fetch
	[[ $action == run ]] || exit 0
	machine_run
	((status != died)) || machine_run # emulation itself may crash
	output_show
	exit "$status"
}

main "$@"
