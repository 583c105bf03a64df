/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The start: from the first resource to "ready".
 *
 * What can fail is tried before a queue is bound, since from then on packets wait for answers. Privileges go once
 * everything is there, and before the threads that read packets are made, which so never have more.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon.h"
#include "explain.h"
#include "log.h"
#include "manager.h"
#include "rt.h"
#include "rules.h"
#include "setup.h"

static int start_open_output(struct daemon *daemon)
{
	if (!daemon->options.json)
		return 0;
	if (!daemon->options.json_file) {
		if (fcntl(STDOUT_FILENO, F_GETFD) < 0) {
			log_error("--json: standard output is closed: name a file");
			return -EBADF;
		}
		daemon->json = stdout;
		return 0;
	}
	/* After a restart we may be somebody who can no longer open it. */
	if (daemon->inherited.json >= 0)
		daemon->json = fdopen(daemon->inherited.json, "ae");
	else
		daemon->json = fopen(daemon->options.json_file, "ae");
	if (daemon->json)
		return 0;
	log_error("--json=%s: cannot be written: %s", daemon->options.json_file, strerror(errno));
	return -errno;
}

/* Thousands of queues take a while: who has changed his mind need not wait. */
static bool start_end_is_asked(void)
{
	sigset_t pending;
	sigset_t ending;

	sigpending(&pending);
	daemon_ending_signals(&ending);
	sigandset(&ending, &ending, &pending);
	return !sigisemptyset(&ending);
}

static int start_open_worker(struct daemon *daemon, unsigned int index)
{
	struct worker *worker = &daemon->workers[index];
	uint16_t number = (uint16_t)(daemon->options.config.queue + index);
	struct handover_queue *left = handover_find(&daemon->inherited, number);

	if (left && left->queue.socket >= 0) {
		int error = worker_open(worker, &daemon->options, index, &left->queue);
		if (!error) {
			left->queue.socket = left->queue.status = -1; /* the worker's from now on */
			handover_tell_changes(left, worker->queue, &worker->config);
			log_detail("queue %u: taken over", number);
			return 0;
		}
		log_warning("queue %u: what was left to us cannot be taken over: %s: it is bound anew", number,
			    strerror(-error));
		worker_close(worker);
		handover_drop(left);
	}
	int error = worker_open(worker, &daemon->options, index, NULL);
	if (error) {
		char text[EXPLAIN_BYTES];
		explain_open(number, error, text);
		log_error("%s", text);
		worker_close(worker);
	}
	return error;
}

static int start_open_workers(struct daemon *daemon)
{
	unsigned int count = options_queue_count(&daemon->options);

	daemon->workers = calloc(count, sizeof(*daemon->workers));
	if (!daemon->workers)
		return -ENOMEM;
	for (unsigned int i = 0; i < count; i++) {
		int error = start_open_worker(daemon, i);
		if (error)
			return error;
		daemon->count++;
		if (i == 0) /* the others get the same */
			setup_tell_size(&daemon->workers[i], &daemon->options.config);
		if (start_end_is_asked())
			return -ECANCELED;
	}
	return 0;
}

static int start_workers(struct daemon *daemon)
{
	char text[EXPLAIN_BYTES];

	for (unsigned int i = 0; i < daemon->count; i++) {
		int error = worker_start(&daemon->workers[i], &daemon->worker_filter);
		if (error) {
			explain_thread(&daemon->options, i, error, text);
			log_error("%s", text);
			return error;
		}
	}
	return 0;
}

/* Waits until each worker runs, because only then its policy can be read back. */
static void start_await_workers(const struct daemon *daemon)
{
	const struct timespec pause = { .tv_nsec = 100000 };

	for (unsigned int i = 0; i < daemon->count; i++)
		while (!worker_tid(&daemon->workers[i]))
			nanosleep(&pause, NULL);
}

/* The service manager keeps the sockets, so that a crash leaves packets waiting and not lost. */
static void start_keep(const struct daemon *daemon)
{
	char name[32];

	if (!manager_is_there())
		return;
	for (unsigned int i = 0; i < daemon->count; i++) {
		snprintf(name, sizeof(name), MANAGER_NAME_QUEUE "%u", daemon->workers[i].number);
		manager_keep(nq_socket(daemon->workers[i].queue), name);
	}
	int state = handover_write(daemon->workers, daemon->count, &daemon->inherited);
	if (state < 0)
		return;
	manager_keep(state, MANAGER_NAME_STATE);
	close(state);
}

static void start_announce(struct daemon *daemon)
{
	const struct options *options = &daemon->options;
	char sched[STATS_SCHED_BYTES];
	char queues[32];

	start_await_workers(daemon);
	stats_collect(&daemon->stats, daemon->workers, daemon_uptime_s(daemon));
	stats_copy(&daemon->last_interval, &daemon->stats); /* after a restart it is not all new */
	if (daemon->count > 1)
		snprintf(queues, sizeof(queues), "queues %u to %u", options->config.queue, options->last_queue);
	else
		snprintf(queues, sizeof(queues), "queue %u", options->config.queue);
	log_line("ready: %s, %s, copy %s, burst %u, scheduling %s", queues,
		 options->config.flags & NQ_F_GSO ? "gso" : "no gso", options->copy, options->config.burst,
		 stats_describe_sched(&daemon->stats, sched));
	manager_tell_ready();
}

/* What each thread may ask the kernel for from now on. */
static int start_filter(struct daemon *daemon)
{
	const int *const calls[] = { worker_calls, worker_processor(&daemon->options)->calls };
	const int *const own_calls[] = { privilege_main_calls };
	enum options_sandbox sandbox = daemon->options.sandbox;
	struct privilege_filter own = { 0 };

	int error = privilege_filter_make(&daemon->worker_filter, sandbox, calls, 2);
	/* After a restart the first one's is still there, and one more each time would add up. */
	if (!error && !privilege_is_filtered()) {
		error = privilege_filter_make(&own, sandbox, own_calls, 1);
		if (!error)
			error = privilege_filter_enter(&own);
		privilege_filter_free(&own);
	}
	if (error)
		log_error("--sandbox: cannot be put up: %s: --sandbox off does without", strerror(-error));
	return error;
}

static int start_confine(struct daemon *daemon)
{
	int error = privilege_drop(&daemon->options);

	return error ? error : start_filter(daemon);
}

/* Before a queue is bound. */
static int start_try(struct daemon *daemon)
{
	int error = stats_init(&daemon->stats, &daemon->options);

	if (!error)
		error = stats_init(&daemon->last_interval, &daemon->options);
	if (!error)
		error = watch_init(&daemon->watch, options_queue_count(&daemon->options));
	if (!error)
		error = handover_receive(&daemon->inherited, daemon->options.adopt);
	if (!error)
		error = start_open_output(daemon);
	if (!error)
		error = setup_try_threads(&daemon->options);
	if (!error)
		error = setup_check_user(&daemon->options);
	return error;
}

/* A stop without loss needs a rule that lets packets pass while nobody has bound the queue. */
static enum rules_finding start_check_rules(const struct daemon *daemon, char rule[RULES_LINE_BYTES])
{
	if (daemon->inherited.is_restart)
		return RULES_NONE; /* they were checked before */
	return rules_find(daemon->options.config.queue, daemon->options.last_queue, rule);
}

int daemon_start(struct daemon *daemon)
{
	char rule[RULES_LINE_BYTES];
	int error = start_try(daemon);

	if (error)
		return error;
	if (rt_limit_busy_time() < 0)
		log_warning("no limit on the time that a real-time thread may run without sleeping: %s",
			    strerror(errno));
	daemon->start_ns = daemon->inherited.is_restart ? daemon->inherited.start_ns : rt_now_ns();
	daemon->inherited.start_ns = daemon->start_ns;
	daemon->stats.restarts = daemon->inherited.restarts;
	setup_bound_spin(&daemon->options);
	enum rules_finding finding = start_check_rules(daemon, rule);

	error = start_open_workers(daemon);
	if (!error && finding == RULES_DROP)
		log_warning("a rule without bypass: once this program has ended the kernel drops its packets: %s",
			    rule);
	privilege_keep_limits(&daemon->options);
	daemon->stats.memory_locked = setup_lock_memory(&daemon->options);
	int confine_error = start_confine(daemon);
	if (!error)
		error = confine_error;
	if (!error)
		start_keep(daemon);
	/* Also after a failure: a queue that is bound may hold packets, which its worker answers before it ends. */
	int start_error = start_workers(daemon);
	if (!error)
		error = start_error;
	if (error)
		return error;
	start_announce(daemon);
	handover_close(&daemon->inherited);
	return 0;
}
