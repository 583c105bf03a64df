/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Scheduling.
 *
 * Theory of operation
 *
 *   A thread gets its policy and its CPU as attributes of its creation, so that it never runs with others; what is then
 *   in force is read from the kernel, never remembered.
 *
 *   Three bounds keep a real-time thread from taking the machine: rt_breathe() makes a busy one sleep a little;
 *   RLIMIT_RTTIME catches one that is stuck where it cannot breathe, and costs it the policy; and the kernel's own
 *   throttling stands behind both.
 */
#include "rt.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/resource.h>
#include <time.h>

#define RT_BUSY_LIMIT_US      500000
#define RT_BREATH_INTERVAL_NS 100000000
#define RT_BREATH_NS	      1000000

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

static int rt_attributes_fill(pthread_attr_t *attributes, const struct rt_policy *policy, int cpu)
{
	struct sched_param param = { .sched_priority = policy->priority };
	cpu_set_t cpus;
	int error = 0;

	if (!policy->inherit) {
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

int rt_thread_create(pthread_t *thread, const struct rt_policy *policy, int cpu, void *(*run)(void *), void *argument)
{
	pthread_attr_t attributes;
	int error = pthread_attr_init(&attributes);

	if (error)
		return -error;
	error = rt_attributes_fill(&attributes, policy, cpu);
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
	int error = rt_thread_create(&thread, policy, cpu, rt_try_run, NULL);

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

int rt_demote(void)
{
	const struct sched_param param = { .sched_priority = 0 };
	DIR *tasks = opendir("/proc/self/task");
	int error = 0;

	if (!tasks)
		return -errno;
	for (struct dirent *entry; (entry = readdir(tasks));) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
		/* ESRCH: it has ended meanwhile */
		if (tid > 0 && sched_setscheduler(tid, SCHED_OTHER, &param) < 0 && errno != ESRCH)
			error = -errno;
	}
	closedir(tasks);
	return error;
}

static int64_t rt_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void rt_breath_init(struct rt_breath *breath)
{
	struct rt_policy policy = { 0 };

	*breath = (struct rt_breath){ .checked_ns = rt_now_ns() };
	breath->enabled = rt_policy_read(0, &policy) == 0 && rt_policy_is_realtime(&policy);
}

void rt_breathe(struct rt_breath *breath)
{
	struct timespec pause = { .tv_nsec = RT_BREATH_NS };
	struct rusage usage;

	if (!breath->enabled)
		return;
	int64_t now_ns = rt_now_ns();
	if (now_ns - breath->checked_ns < RT_BREATH_INTERVAL_NS)
		return;
	breath->checked_ns = now_ns;
	getrusage(RUSAGE_THREAD, &usage);
	if (usage.ru_nvcsw == breath->voluntary_switches) {
		nanosleep(&pause, NULL);
		breath->breaths++;
		usage.ru_nvcsw++;
	}
	breath->voluntary_switches = usage.ru_nvcsw;
}
