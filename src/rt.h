/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Scheduling: ask for a policy and a CPU, read back what is in force, and never hold a CPU for ever. */
#ifndef RT_H
#define RT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define RT_CPU_ANY (-1)

struct rt_policy {
	bool inherit; /* keep what the thread has: what chrt set */
	int policy;   /* SCHED_* */
	int priority; /* 0 unless SCHED_RR or SCHED_FIFO */
};

/* "other", "rr", "fifo", "batch", "idle", "deadline"; NULL for any other. */
const char *rt_policy_name(int policy);

/* What the kernel has in force for this thread now. 0 or a negative errno. */
int rt_policy_read(pid_t tid, struct rt_policy *policy);

static inline bool rt_policy_is_realtime(const struct rt_policy *policy)
{
	return policy->priority > 0;
}

/* A stack for rt_thread_create(), with a page below it that ends who grows beyond it; NULL if there is no memory. Made
 * before memory is locked, it is locked with the rest. */
void *rt_stack_make(void);
void rt_stack_free(void *stack);

/*
 * Creates a thread that runs from its first instruction with `policy` and on `cpu`, on this stack or, with NULL, on one
 * of its own. Returns 0 or a negative errno: -EPERM = the policy is not permitted (rt_explain_refusal() says why),
 * -EINVAL = there is no such CPU for us.
 */
int rt_thread_create(pthread_t *thread, const struct rt_policy *policy, int cpu, void *stack, void *(*run)(void *),
		     void *argument);

/* The same with a thread that ends at once: finds out before anything depends on it. */
int rt_try(const struct rt_policy *policy, int cpu);

/* Has the calling thread take this policy, so that threads that it makes may have it without a privilege. */
int rt_policy_take(const struct rt_policy *policy);

/* Is this capability, CAP_*, effective for us? */
bool rt_has_capability(int capability);

/* One clause on why a real-time policy was refused and what helps, for a message. */
void rt_explain_refusal(const struct rt_policy *policy, char *text, size_t size);

/* To be called by a real-time thread when it begins: threads and processes that it makes do not inherit the policy, and
 * its stack is there before it is needed. */
void rt_thread_settle(void);

/*
 * Keeps all memory that the process has, and without a limit (ulimit -l) also what it will have, in place: no page fault
 * later. 0 or a negative errno; -E2BIG = it is more than a quarter of the machine's, which others need.
 */
int rt_lock_memory(void);

/* Has the kernel send SIGXCPU to the process when a real-time thread ran for half a second without sleeping. */
int rt_limit_busy_time(void);

/* Gives up the real-time policy of every thread of the process for SCHED_OTHER. 0 or a negative errno. */
int rt_demote(void);

/* CLOCK_MONOTONIC. */
int64_t rt_now_ns(void);

/* The longest that a real-time thread may spin: less than the time between two breaths. */
#define RT_SPIN_US_MAX 5000u

/*
 * A real-time thread that always finds more work never sleeps, and starves what else must run on its CPU. Of each second
 * the kernel leaves 50 ms to the others, all at once if need be. Called once a burst, rt_breathe() gives them as much in
 * small portions: it notices by the thread's switches that it did not sleep for 10 ms, and sleeps for 0.6 ms or until
 * `fd` can be read. If that never lets it sleep, it does so regardless after 20 ms, for 1.2 ms.
 */
struct rt_breath {
	bool enabled;
	int64_t slept_ns; /* as far as is known */
	long voluntary_switches;
	uint64_t breaths;
};

void rt_breath_init(struct rt_breath *breath);
void rt_breathe(struct rt_breath *breath, int fd);

#endif
