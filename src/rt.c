/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Scheduling.
 *
 * Theory of operation
 *
 *   A thread gets its policy and its CPU as attributes of its creation, so that it never runs with others; what is then
 *   in force is read from the kernel, never remembered.
 *
 *   Memory is locked once everything has been made, and threads have small stacks, because locked memory is memory
 *   that is there.
 *
 *   Three bounds keep a real-time thread from taking the machine: rt_breathe() makes a busy one sleep a little;
 *   RLIMIT_RTTIME catches one that is stuck where it cannot breathe, and costs it the policy; and the kernel's own
 *   throttling stands behind both.
 */
#include "rt.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "sanitize.h"

#define RT_BUSY_LIMIT_US      500000
#define RT_BREATH_INTERVAL_NS 10000000L
#define RT_BREATH_NS	      600000L
#define RT_GUARD_BYTES	      4096ul
#define RT_STACK_USED_BYTES   (32ul * 1024)

/* Of a thread; the default of 8 MiB would be locked as a whole. */
#define RT_STACK_BYTES (SANITIZED ? 2048ul * 1024 : 256ul * 1024)

static const char *const rt_policy_names[] = {
	[SCHED_OTHER] = "other", [SCHED_FIFO] = "fifo", [SCHED_RR] = "rr",
	[SCHED_BATCH] = "batch", [SCHED_IDLE] = "idle", [6] = "deadline", /* SCHED_DEADLINE */
};

const char *rt_policy_name(int policy)
{
	if (policy < 0 || (size_t)policy >= sizeof(rt_policy_names) / sizeof(rt_policy_names[0]))
		return NULL;
	return rt_policy_names[policy];
}

int rt_policy_read(pid_t tid, struct rt_policy *policy)
{
	struct sched_param param;
	int in_force = sched_getscheduler(tid);

	if (in_force < 0 || sched_getparam(tid, &param) < 0)
		return -errno;
	*policy = (struct rt_policy){ .policy = in_force & ~SCHED_RESET_ON_FORK, .priority = param.sched_priority };
	return 0;
}

int rt_policy_take(const struct rt_policy *policy)
{
	const struct sched_param param = { .sched_priority = policy->priority };

	return sched_setscheduler(0, policy->policy, &param) < 0 ? -errno : 0;
}

void *rt_stack_make(void)
{
	char *memory = mmap(NULL, RT_GUARD_BYTES + RT_STACK_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	if (mprotect(memory, RT_GUARD_BYTES, PROT_NONE) == 0)
		return memory + RT_GUARD_BYTES;
	munmap(memory, RT_GUARD_BYTES + RT_STACK_BYTES);
	return NULL;
}

void rt_stack_free(void *stack)
{
	if (stack)
		munmap((char *)stack - RT_GUARD_BYTES, RT_GUARD_BYTES + RT_STACK_BYTES);
}

static int rt_attributes_fill(pthread_attr_t *attributes, const struct rt_policy *policy, int cpu, void *stack)
{
	struct sched_param param = { .sched_priority = policy->priority };
	cpu_set_t cpus;
	int error = stack ? pthread_attr_setstack(attributes, stack, RT_STACK_BYTES) :
			    pthread_attr_setstacksize(attributes, RT_STACK_BYTES);

	if (!error && !policy->inherit) {
		error = pthread_attr_setinheritsched(attributes, PTHREAD_EXPLICIT_SCHED);
		if (!error)
			error = pthread_attr_setschedpolicy(attributes, policy->policy);
		if (!error)
			error = pthread_attr_setschedparam(attributes, &param);
	}
	if (!error && cpu != RT_CPU_ANY) {
		if (cpu >= CPU_SETSIZE)
			return EINVAL;
		CPU_ZERO(&cpus);
		CPU_SET((size_t)cpu, &cpus);
		error = pthread_attr_setaffinity_np(attributes, sizeof(cpus), &cpus);
	}
	return error;
}

int rt_thread_create(pthread_t *thread, const struct rt_policy *policy, int cpu, void *stack, void *(*run)(void *),
		     void *argument)
{
	pthread_attr_t attributes;
	int error = pthread_attr_init(&attributes);

	if (error)
		return -error;
	error = rt_attributes_fill(&attributes, policy, cpu, stack);
	if (!error)
		error = pthread_create(thread, &attributes, run, argument);
	pthread_attr_destroy(&attributes);
	return -error;
}

static void *rt_try_run(void *argument)
{
	return argument;
}

int rt_try(const struct rt_policy *policy, int cpu)
{
	pthread_t thread = 0;
	int error = rt_thread_create(&thread, policy, cpu, NULL, rt_try_run, NULL);

	return error ? error : -pthread_join(thread, NULL);
}

bool rt_has_capability(int capability)
{
	cap_flag_value_t value = CAP_CLEAR;
	cap_t caps = cap_get_proc();

	if (caps) {
		cap_get_flag(caps, capability, CAP_EFFECTIVE, &value);
		cap_free(caps);
	}
	return value == CAP_SET;
}

void rt_explain_refusal(const struct rt_policy *policy, char *text, size_t size)
{
	if (rt_has_capability(CAP_SYS_NICE))
		snprintf(
			text, size,
			"CAP_SYS_NICE is there, so this control group has no real-time budget (RT_GROUP_SCHED) or this "
			"is a user namespace: raise cpu.rt_runtime_us of the group, or start from the root group");
	else
		snprintf(text, size, "needs CAP_SYS_NICE, or a limit of at least %d from \"ulimit -r\"",
			 policy->priority);
}

/* The compiler must not know that the stack is written in vain. */
static __attribute__((noinline)) void rt_touch_stack(void)
{
	volatile char stack[RT_STACK_USED_BYTES];

	for (size_t i = 0; i < sizeof(stack); i += 4096 / 2)
		stack[i] = 0;
}

void rt_thread_settle(void)
{
	struct sched_param param;
	int policy = sched_getscheduler(0);

	rt_touch_stack();
	/* A refusal would be no harm: nothing here makes threads. */
	if (policy > 0 && sched_getparam(0, &param) == 0 && param.sched_priority > 0)
		sched_setscheduler(0, policy | SCHED_RESET_ON_FORK, &param);
}

/* Of the whole address space, in pages; 0 if unknown. */
static long rt_size_pages(void)
{
	long pages = 0;
	FILE *file = fopen("/proc/self/statm", "re");

	if (!file)
		return 0;
	if (fscanf(file, "%ld", &pages) != 1)
		pages = 0;
	fclose(file);
	return pages;
}

int rt_lock_memory(void)
{
	/* With a limit, what is allocated later would count against it, and fail: the capability may be given up. */
	struct rlimit limit = { 0 };
	bool unlimited = getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY;
	int flags = MCL_CURRENT | (unlimited ? MCL_FUTURE : 0);

	if (rt_size_pages() > sysconf(_SC_PHYS_PAGES) / 4)
		return -E2BIG;
	return mlockall(flags) < 0 ? -errno : 0;
}

int rt_limit_busy_time(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_RTTIME, &limit) < 0)
		return -errno;
	if (limit.rlim_cur <= RT_BUSY_LIMIT_US)
		return 0; /* someone was stricter */
	limit.rlim_cur = RT_BUSY_LIMIT_US;
	return setrlimit(RLIMIT_RTTIME, &limit) < 0 ? -errno : 0;
}

static int rt_demote_thread(pid_t tid)
{
	const struct sched_param param = { .sched_priority = 0 };
	int policy = sched_getscheduler(tid);

	/* Only a privileged process could take the flag away again. */
	if (policy >= 0 && sched_setscheduler(tid, SCHED_OTHER | (policy & SCHED_RESET_ON_FORK), &param) >= 0)
		return 0;
	return errno == ESRCH ? 0 : -errno; /* it has ended meanwhile */
}

int rt_demote(void)
{
	DIR *tasks = opendir("/proc/self/task");
	int error = 0;

	if (!tasks)
		return -errno;
	for (struct dirent *entry; (entry = readdir(tasks));) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
		int failed = tid > 0 ? rt_demote_thread(tid) : 0;
		error = failed ? failed : error;
	}
	closedir(tasks);
	return error;
}

int64_t rt_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void rt_breath_init(struct rt_breath *breath)
{
	struct rt_policy policy = { 0 };

	*breath = (struct rt_breath){ .slept_ns = rt_now_ns() };
	breath->enabled = rt_policy_read(0, &policy) == 0 && rt_policy_is_realtime(&policy);
}

static bool rt_has_slept(struct rt_breath *breath)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	if (usage.ru_nvcsw == breath->voluntary_switches)
		return false;
	breath->voluntary_switches = usage.ru_nvcsw;
	breath->slept_ns = rt_now_ns();
	return true;
}

void rt_breathe(struct rt_breath *breath, int fd)
{
	const struct timespec pause = { .tv_nsec = RT_BREATH_NS };
	const struct timespec long_pause = { .tv_nsec = 2 * RT_BREATH_NS };
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };

	if (!breath->enabled)
		return;
	int64_t awake_ns = rt_now_ns() - breath->slept_ns;
	if (awake_ns < RT_BREATH_INTERVAL_NS || rt_has_slept(breath))
		return;
	if (awake_ns < 2 * RT_BREATH_INTERVAL_NS)
		ppoll(&pollfd, 1, &pause, NULL);
	else
		nanosleep(&long_pause, NULL);
	breath->breaths += rt_has_slept(breath);
}
