/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The surroundings of the workers. */
#include "setup.h"

#include <errno.h>
#include <string.h>

#include "explain.h"
#include "log.h"
#include "privilege.h"
#include "rt.h"

int setup_try_threads(const struct options *options)
{
	unsigned int index;
	int error = worker_try(options, &index);

	if (error) {
		char text[EXPLAIN_BYTES];
		explain_thread(options, index, error, text);
		log_error("%s", text);
	}
	return error;
}

int setup_check_user(const struct options *options)
{
	int error = privilege_check_user(options);

	if (error) {
		char text[EXPLAIN_BYTES];
		explain_user(options->user, error, text);
		log_error("%s", text);
	}
	return error;
}

/* Will the workers run under a real-time policy? */
static bool setup_is_realtime(const struct options *options)
{
	struct rt_policy policy = options->sched;

	if (policy.inherit && rt_policy_read(0, &policy) < 0)
		return false;
	return rt_policy_is_realtime(&policy);
}

void setup_bound_spin(struct options *options)
{
	uint32_t *spin_us = &options->config.spin_us;

	if (*spin_us <= RT_SPIN_US_MAX || !setup_is_realtime(options))
		return;
	log_warning(
		"--spin %u: lowered to %u: a real-time thread that spins for longer would lose its CPU for 50 ms "
		"of each second",
		*spin_us, RT_SPIN_US_MAX);
	*spin_us = RT_SPIN_US_MAX;
}

bool setup_lock_memory(const struct options *options)
{
	int error = rt_lock_memory();
	const char *why = error == -E2BIG ? "it is more than a quarter of the machine's" : strerror(-error);

	if (!error)
		return true;
	if (setup_is_realtime(options))
		log_warning(
			"memory cannot be locked, so that page faults may hold packets up: %s; raise \"ulimit -l\", "
			"or use a smaller --copy or --burst",
			why);
	else
		log_detail("memory is not locked: %s", why);
	return false;
}

void setup_tell_size(const struct worker *worker, const struct nq_config *config)
{
	uint32_t asked = config->maxlen ? config->maxlen : NQ_MAXLEN_DEFAULT;
	uint32_t maxlen = nq_maxlen_granted(worker->queue);
	uint32_t wanted = config->rcvbuf_bytes ? config->rcvbuf_bytes : nq_rcvbuf_bytes(asked, config->copy_bytes);
	uint32_t least = nq_rcvbuf_bytes(1, config->copy_bytes);
	uint32_t needed = wanted > least ? wanted : least;
	uint32_t granted = nq_rcvbuf_granted(worker->queue) / 2;

	if (granted < needed)
		log_warning(
			"queue %u: socket buffer of %u bytes, %u are needed: it holds %u of the largest kind, "
			"and --maxlen is %u; raise net.core.rmem_max, or use a smaller --copy",
			worker->number, granted, needed,
			granted < least ? 0 : nq_maxlen_fitting(granted, config->copy_bytes), maxlen);
	else
		log_detail("queue %u: maxlen %u, socket buffer of %u bytes", worker->number, maxlen, granted);
}
