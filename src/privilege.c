/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Least privilege.
 *
 * Theory of operation
 *
 *   The kernel asks for CAP_NET_ADMIN at every verdict, so that is what must stay, and all that stays: in the bounding
 *   set, so that no program that we become can have more, and in the ambient set, so that the next one has as much
 *   whatever user it is. Two limits take the place of the capabilities for real-time scheduling and locked memory;
 *   who may not raise them, as root in a container, has its first thread keep the policy.
 *
 *   Who takes packets apart is what an attacker can reach: a worker's list of system calls is short. It stands in
 *   worker.c, and what a processor needs beside it in the processor's file. The first thread reads nothing from the
 *   network, but must be able to become the program anew, whose start runs under the same filter.
 *
 *   A sanitizer's runtime calls what it likes: programs that have one run without filters.
 */
#include "privilege.h"

#include <errno.h>
#include <grp.h>
#include <linux/seccomp.h>
#include <pwd.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "log.h"
#include "sanitize.h"

const int privilege_main_calls[] = {
	/* signals, clocks, sleeping */
	SCMP_SYS(rt_sigtimedwait), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigreturn),
	SCMP_SYS(rt_sigpending), SCMP_SYS(clock_gettime), SCMP_SYS(clock_nanosleep), SCMP_SYS(nanosleep),
	SCMP_SYS(restart_syscall), SCMP_SYS(sigaltstack),
	/* messages, JSON, /proc */
	SCMP_SYS(write), SCMP_SYS(writev), SCMP_SYS(read), SCMP_SYS(pread64), SCMP_SYS(openat), SCMP_SYS(close),
	SCMP_SYS(fstat), SCMP_SYS(newfstatat), SCMP_SYS(lseek), SCMP_SYS(getdents64), SCMP_SYS(readlink),
	SCMP_SYS(readlinkat), SCMP_SYS(fcntl), SCMP_SYS(ioctl),
	/* memory */
	SCMP_SYS(mmap), SCMP_SYS(munmap), SCMP_SYS(mprotect), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(brk),
	SCMP_SYS(mlockall), SCMP_SYS(memfd_create),
	/* threads and their scheduling */
	SCMP_SYS(clone), SCMP_SYS(clone3), SCMP_SYS(futex), SCMP_SYS(set_robust_list), SCMP_SYS(set_tid_address),
	SCMP_SYS(rseq), SCMP_SYS(gettid), SCMP_SYS(getpid), SCMP_SYS(kill), SCMP_SYS(tgkill), SCMP_SYS(exit),
	SCMP_SYS(exit_group), SCMP_SYS(sched_getscheduler), SCMP_SYS(sched_setscheduler), SCMP_SYS(sched_getparam),
	SCMP_SYS(sched_setaffinity), SCMP_SYS(sched_getaffinity), SCMP_SYS(sched_get_priority_min),
	SCMP_SYS(sched_get_priority_max), SCMP_SYS(getrusage), SCMP_SYS(prlimit64), SCMP_SYS(getrlimit),
	SCMP_SYS(setrlimit), SCMP_SYS(sysinfo),
	/* queues, and the service manager */
	SCMP_SYS(socket), SCMP_SYS(bind), SCMP_SYS(connect), SCMP_SYS(getsockname), SCMP_SYS(getsockopt),
	SCMP_SYS(setsockopt), SCMP_SYS(sendto), SCMP_SYS(sendmsg), SCMP_SYS(recvfrom), SCMP_SYS(recvmsg),
	SCMP_SYS(recvmmsg), SCMP_SYS(poll), SCMP_SYS(ppoll),
	/* to become the program anew, and its start */
	SCMP_SYS(execve), SCMP_SYS(arch_prctl), SCMP_SYS(access), SCMP_SYS(faccessat), SCMP_SYS(faccessat2),
	SCMP_SYS(getrandom), SCMP_SYS(prctl), SCMP_SYS(seccomp), SCMP_SYS(capget), SCMP_SYS(capset), SCMP_SYS(getuid),
	SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getegid), SCMP_SYS(getppid), SCMP_SYS(uname), SCMP_SYS(umask),
	SCMP_SYS(dup), PRIVILEGE_END
};

/* ---- capabilities and user ---- */

static const struct passwd *privilege_find_user(const char *name)
{
	errno = 0;
	return getpwnam(name);
}

int privilege_check_user(const struct options *options)
{
	if (!options->user || privilege_find_user(options->user))
		return 0;
	return errno ? -errno : -ENOENT;
}

static bool privilege_raise_limit(__rlimit_resource_t resource, rlim_t value)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit) < 0)
		return false;
	if (limit.rlim_cur >= value)
		return true;
	limit.rlim_cur = value;
	if (limit.rlim_max < value)
		limit.rlim_max = value;
	return setrlimit(resource, &limit) == 0;
}

void privilege_keep_limits(const struct options *options)
{
	struct rt_policy policy = options->sched;

	privilege_raise_limit(RLIMIT_MEMLOCK, RLIM_INFINITY);
	if (policy.inherit && rt_policy_read(0, &policy) < 0)
		return;
	/* Without a limit of its own a thread may have what the one that makes it has. */
	if (rt_policy_is_realtime(&policy) && !privilege_raise_limit(RLIMIT_RTPRIO, (rlim_t)policy.priority))
		rt_policy_take(&policy);
}

static void privilege_bound(void)
{
	/* Without CAP_SETPCAP the set stays as it is: who has started us has chosen it. */
	for (cap_value_t capability = 0; capability < cap_max_bits(); capability++)
		if (capability != CAP_NET_ADMIN)
			prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
}

static int privilege_become(const char *name)
{
	const struct passwd *user = privilege_find_user(name);

	if (!user)
		return errno ? -errno : -ENOENT;
	if (user->pw_uid == geteuid() && user->pw_gid == getegid())
		return 0; /* as after a restart */
	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || initgroups(name, user->pw_gid) < 0 ||
	    setresgid(user->pw_gid, user->pw_gid, user->pw_gid) < 0 ||
	    setresuid(user->pw_uid, user->pw_uid, user->pw_uid) < 0)
		return -errno;
	return 0;
}

/* Of CAP_NET_ADMIN only what we have: the limits of a container are not ours to extend. */
static int privilege_keep_one(void)
{
	const cap_value_t one[] = { CAP_NET_ADMIN };
	cap_flag_value_t permitted = CAP_CLEAR;
	cap_t had = cap_get_proc();
	cap_t caps = cap_init();
	int error = 0;

	if (!had || !caps) {
		error = -ENOMEM;
	} else {
		cap_get_flag(had, CAP_NET_ADMIN, CAP_PERMITTED, &permitted);
		cap_set_flag(caps, CAP_PERMITTED, 1, one, permitted);
		cap_set_flag(caps, CAP_EFFECTIVE, 1, one, permitted);
		cap_set_flag(caps, CAP_INHERITABLE, 1, one, permitted);
		error = cap_set_proc(caps) < 0 ? -errno : 0;
	}
	cap_free(had);
	cap_free(caps);
	if (!error && permitted == CAP_SET)
		prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_ADMIN, 0, 0);
	return error;
}

int privilege_drop(const struct options *options)
{
	privilege_bound();
	int error = options->user ? privilege_become(options->user) : 0;
	if (error) {
		log_error("--user %s: cannot be become: %s: start as root, or leave --user out", options->user,
			  strerror(-error));
		return error;
	}
	error = privilege_keep_one();
	if (!error && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		error = -errno;
	if (error)
		log_error("privileges cannot be given up: %s", strerror(-error));
	return error;
}

/* ---- system calls ---- */

static int privilege_allow(scmp_filter_ctx context, const int *const lists[], size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (const int *call = lists[i]; call && *call != PRIVILEGE_END; call++) {
			int error = seccomp_rule_add(context, SCMP_ACT_ALLOW, *call, 0);
			/* Calls that this machine does not have are negative, and cannot be made either. */
			if (error && error != -EDOM && error != -EEXIST)
				return error;
		}
	return 0;
}

/* libseccomp writes the program to a file only. */
static int privilege_export(scmp_filter_ctx context, struct privilege_filter *filter)
{
	int file = memfd_create("seccomp", MFD_CLOEXEC);
	int error = file < 0 ? -errno : seccomp_export_bpf(context, file);
	off_t bytes = error ? -1 : lseek(file, 0, SEEK_END);
	void *program = bytes > 0 ? malloc((size_t)bytes) : NULL;

	if (!error && (!program || pread(file, program, (size_t)bytes, 0) != bytes))
		error = -ENOMEM;
	if (file >= 0)
		close(file);
	if (error) {
		free(program);
		return error;
	}
	filter->program = (struct sock_fprog){
		.len = (unsigned short)((size_t)bytes / sizeof(struct sock_filter)),
		.filter = program,
	};
	return 0;
}

int privilege_filter_make(struct privilege_filter *filter, enum options_sandbox sandbox, const int *const lists[],
			  size_t count)
{
	*filter = (struct privilege_filter){ 0 };
	if (sandbox == OPTIONS_SANDBOX_OFF || SANITIZED)
		return 0;
	scmp_filter_ctx context =
		seccomp_init(sandbox == OPTIONS_SANDBOX_KILL ? SCMP_ACT_KILL_PROCESS : SCMP_ACT_ERRNO(EPERM));
	if (!context)
		return -ENOMEM;
	int error = privilege_allow(context, lists, count);
	if (!error)
		error = privilege_export(context, filter);
	seccomp_release(context);
	return error;
}

int privilege_filter_enter(const struct privilege_filter *filter)
{
	if (!filter->program.filter)
		return 0;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter->program, 0, 0) < 0 ? -errno : 0;
}

bool privilege_is_filtered(void)
{
	return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == SECCOMP_MODE_FILTER;
}

void privilege_filter_free(struct privilege_filter *filter)
{
	free(filter->program.filter);
	*filter = (struct privilege_filter){ 0 };
}
