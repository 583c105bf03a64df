/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Scheduling: what is asked for is in force, what is not permitted is refused, and a busy thread breathes. */
#include "unit.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rt.h"

static void policies_have_names(void **state)
{
	assert_string_equal(rt_policy_name(SCHED_OTHER), "other");
	assert_string_equal(rt_policy_name(SCHED_RR), "rr");
	assert_string_equal(rt_policy_name(SCHED_FIFO), "fifo");
	assert_null(rt_policy_name(-1));
	assert_null(rt_policy_name(4711));
}

struct seen {
	struct rt_policy policy;
	int error;
	int cpu;
};

static void *see(void *argument)
{
	struct seen *seen = argument;

	seen->error = rt_policy_read(gettid(), &seen->policy);
	seen->cpu = sched_getcpu();
	return NULL;
}

static void thread_runs_with_its_policy_from_the_start(void **state)
{
	const struct rt_policy policies[] = { { .inherit = true }, { .policy = SCHED_OTHER } };
	const int expected[] = { SCHED_BATCH, SCHED_OTHER };
	const struct sched_param none = { 0 };
	struct seen seen;
	pthread_t thread;

	assert_int_equal(sched_setscheduler(0, SCHED_BATCH, &none), 0); /* as chrt would */
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(rt_thread_create(&thread, &policies[i], RT_CPU_ANY, NULL, see, &seen), 0);
		pthread_join(thread, NULL);
		assert_int_equal(seen.error, 0);
		assert_int_equal(seen.policy.policy, expected[i]);
		assert_int_equal(seen.policy.priority, 0);
		assert_false(rt_policy_is_realtime(&seen.policy));
	}
	assert_int_equal(sched_setscheduler(0, SCHED_OTHER, &none), 0);
}

static void thread_runs_on_its_cpu(void **state)
{
	const struct rt_policy inherit = { .inherit = true };
	struct seen seen;
	pthread_t thread;
	cpu_set_t allowed;
	int cpu = CPU_SETSIZE - 1;

	assert_int_equal(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
	while (!CPU_ISSET((size_t)cpu, &allowed))
		cpu--;
	assert_int_equal(rt_thread_create(&thread, &inherit, cpu, NULL, see, &seen), 0);
	pthread_join(thread, NULL);
	assert_int_equal(seen.cpu, cpu);
}

static void cpu_that_does_not_exist_is_refused(void **state)
{
	const struct rt_policy inherit = { .inherit = true };

	assert_int_equal(rt_try(&inherit, CPU_SETSIZE - 1), -EINVAL);
	assert_int_equal(rt_try(&inherit, CPU_SETSIZE), -EINVAL);
}

static void policy_that_is_not_permitted_is_refused(void **state)
{
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		const struct rt_policy rr = { .policy = SCHED_RR, .priority = 99 };
		const struct rlimit none = { 0, 0 };
		if (setrlimit(RLIMIT_RTPRIO, &none) < 0 || (getuid() == 0 && setuid(65534) < 0))
			_exit(77);
		_exit(rt_try(&rr, RT_CPU_ANY) == -EPERM ? 0 : 1);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip(); /* a user namespace with one user */
	assert_int_equal(WEXITSTATUS(status), 0);
}

static long voluntary_switches(void)
{
	struct rusage usage;

	assert_int_equal(getrusage(RUSAGE_THREAD, &usage), 0);
	return usage.ru_nvcsw;
}

static void spin_ms(struct rt_breath *breath, int fd, long ms)
{
	struct timespec start;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		rt_breathe(breath, fd);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < ms);
}

static void busy_real_time_thread_breathes(void **state)
{
	struct rt_breath breath;

	rt_breath_init(&breath);
	breath.enabled = true; /* as if it were real-time */
	long before = voluntary_switches();
	spin_ms(&breath, -1, 450);
	assert_in_range(breath.breaths, 10, 45); /* one in 10.6 ms, fewer if the machine is busy */
	assert_true(voluntary_switches() - before >= (long)breath.breaths);
}

static void thread_with_work_breathes_later(void **state)
{
	struct rt_breath breath;
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], "", 1), 1); /* can always be read */
	rt_breath_init(&breath);
	breath.enabled = true;
	spin_ms(&breath, ends[0], 450);
	assert_in_range(breath.breaths, 5, 22);
	close(ends[0]);
	close(ends[1]);
}

static void thread_that_sleeps_needs_no_breath(void **state)
{
	const struct timespec pause = { .tv_nsec = 30000000 };
	struct rt_breath breath;

	rt_breath_init(&breath);
	breath.enabled = true;
	for (int i = 0; i < 12; i++) {
		rt_breathe(&breath, -1);
		nanosleep(&pause, NULL);
	}
	assert_int_equal(breath.breaths, 0);
}

static void ordinary_thread_is_left_alone(void **state)
{
	struct rt_breath breath;

	rt_breath_init(&breath);
	assert_false(breath.enabled);
	spin_ms(&breath, -1, 250);
	assert_int_equal(breath.breaths, 0);
}

static void limit_on_busy_time_is_set_and_never_raised(void **state)
{
	struct rlimit limit;

	assert_int_equal(rt_limit_busy_time(), 0);
	assert_int_equal(getrlimit(RLIMIT_RTTIME, &limit), 0);
	assert_int_equal(limit.rlim_cur, 500000);
	limit.rlim_cur = 1000;
	assert_int_equal(setrlimit(RLIMIT_RTTIME, &limit), 0);
	assert_int_equal(rt_limit_busy_time(), 0);
	assert_int_equal(getrlimit(RLIMIT_RTTIME, &limit), 0);
	assert_int_equal(limit.rlim_cur, 1000);
}

static void refusal_names_the_capability(void **state)
{
	const struct rt_policy rr = { .policy = SCHED_RR, .priority = 42 };
	char text[256];

	rt_explain_refusal(&rr, text, sizeof(text));
	assert_non_null(strstr(text, "CAP_SYS_NICE"));
	assert_true(strstr(text, "RT_GROUP_SCHED") || strstr(text, "42"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(policies_have_names),
		cmocka_unit_test(thread_runs_with_its_policy_from_the_start),
		cmocka_unit_test(thread_runs_on_its_cpu),
		cmocka_unit_test(cpu_that_does_not_exist_is_refused),
		cmocka_unit_test(policy_that_is_not_permitted_is_refused),
		cmocka_unit_test(busy_real_time_thread_breathes),
		cmocka_unit_test(thread_with_work_breathes_later),
		cmocka_unit_test(thread_that_sleeps_needs_no_breath),
		cmocka_unit_test(ordinary_thread_is_left_alone),
		cmocka_unit_test(limit_on_busy_time_is_set_and_never_raised),
		cmocka_unit_test(refusal_names_the_capability),
	};
	return cmocka_run_group_tests_name("rt", tests, NULL, NULL);
}
