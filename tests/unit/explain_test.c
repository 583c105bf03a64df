/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Messages of a failed start: each names the object, its own cause, and what helps, and no two are alike. */
#include "unit.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "explain.h"

/* wrap: nq_owner_find */
int __wrap_nq_owner_find(uint16_t queue, struct nq_owner *owner);

static struct nq_owner fake_owner;
static int fake_owner_error;

int __wrap_nq_owner_find(uint16_t queue, struct nq_owner *owner)
{
	assert_int_equal(queue, 3);
	*owner = fake_owner;
	return fake_owner_error;
}

static const char *explain(int error)
{
	static char text[EXPLAIN_BYTES];

	explain_open(3, error, text);
	return text;
}

static void owned_queue_names_its_owner(void **state)
{
	fake_owner = (struct nq_owner){ .pid = 4242, .command = "nfqws" };
	fake_owner_error = 0;
	assert_non_null(strstr(explain(-EBUSY), "queue 3: owned by nfqws (pid 4242)"));
	assert_non_null(strstr(explain(-EBUSY), "--queue"));
}

static void invisible_owner_is_said_to_be_invisible(void **state)
{
	fake_owner = (struct nq_owner){ .pid = 0 };
	fake_owner_error = 0;
	assert_non_null(strstr(explain(-EBUSY), "cannot be seen"));
	fake_owner_error = -ENOENT; /* it ended meanwhile */
	assert_non_null(strstr(explain(-EBUSY), "cannot be seen"));
}

static void each_cause_has_its_own_message(void **state)
{
	static const struct {
		int error;
		const char *says;
	} cases[] = {
		{ -EPERM, "needs CAP_NET_ADMIN" },
		{ -EPROTONOSUPPORT, "no nfnetlink_queue" },
		{ -EOPNOTSUPP, "does not know a flag" },
		{ -EPROTO, "copy mode" },
		{ -ETIMEDOUT, "did not answer" },
		{ -ENOMEM, "out of memory" },
		{ -EMFILE, "ulimit -n" },
		{ -EIO, "Input/output error" },
	};
	enum { COUNT = sizeof(cases) / sizeof(cases[0]) };

	for (size_t i = 0; i < COUNT; i++) {
		assert_non_null(strstr(explain(cases[i].error), "queue 3: "));
		for (size_t j = 0; j < COUNT; j++)
			assert_int_equal(strstr(explain(cases[i].error), cases[j].says) != NULL, i == j);
		assert_null(strchr(explain(cases[i].error), '\n'));
	}
}

static void refused_policy_and_missing_cpu_are_told_apart(void **state)
{
	char text[EXPLAIN_BYTES];
	struct options options = { .sched = { .policy = SCHED_RR, .priority = 99 }, .cpus = { 7 }, .cpu_count = 1 };

	explain_thread(&options, 0, -EPERM, text);
	assert_non_null(strstr(text, "--sched rr:99: not permitted"));
	explain_thread(&options, 0, -EINVAL, text);
	assert_non_null(strstr(text, "CPU 7"));
	explain_thread(&options, 0, -EAGAIN, text);
	assert_non_null(strstr(text, "cannot start its thread"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(owned_queue_names_its_owner),
		cmocka_unit_test(invisible_owner_is_said_to_be_invisible),
		cmocka_unit_test(each_cause_has_its_own_message),
		cmocka_unit_test(refused_policy_and_missing_cpu_are_told_apart),
	};
	return cmocka_run_group_tests_name("explain", tests, NULL, NULL);
}
