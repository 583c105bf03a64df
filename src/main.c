/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nfq-noop: binds NFQUEUEs and gives every packet back unchanged.
 *
 * Theory of operation
 *
 *   The first thread parses, makes everything, and then only waits for signals, which are blocked everywhere and taken
 *   here one by one; so no signal handler exists. Each queue has a worker (worker.c), which does nothing but serve it.
 *   What can fail is tried before a queue is bound, since from then on packets wait for answers.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "explain.h"
#include "log.h"
#include "options.h"
#include "rt.h"
#include "setup.h"
#include "stats.h"
#include "worker.h"

enum { EXIT_USAGE = 2 };

struct daemon {
	struct options options;
	unsigned int count; /* of workers that are open */
	struct worker *workers;
	FILE *json;
	sigset_t signals;
	int64_t start_ns;
	struct stats stats;
	struct stats last_interval;
};

static double daemon_uptime_s(const struct daemon *daemon)
{
	return (double)(rt_now_ns() - daemon->start_ns) / 1e9;
}

/* Before any thread exists, so that all inherit the mask. */
static void daemon_block_signals(struct daemon *daemon)
{
	static const int signals[] = { SIGTERM, SIGINT, SIGUSR1, SIGXCPU, SIGPIPE, WORKER_SIGNAL_ENDED };
	struct sigaction hangup;

	sigemptyset(&daemon->signals);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaddset(&daemon->signals, signals[i]);
	/* nohup(1) means that it should not end us; a signal that is ignored would still be taken. */
	if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
		sigaddset(&daemon->signals, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &daemon->signals, NULL);
	sigdelset(&daemon->signals, SIGPIPE); /* pending for ever: a write then fails with EPIPE */
}

static int daemon_open_output(struct daemon *daemon)
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
	daemon->json = fopen(daemon->options.json_file, "ae");
	if (daemon->json)
		return 0;
	log_error("--json=%s: cannot be written: %s", daemon->options.json_file, strerror(errno));
	return -errno;
}

static void daemon_ending_signals(sigset_t *signals)
{
	sigemptyset(signals);
	sigaddset(signals, SIGTERM);
	sigaddset(signals, SIGINT);
	sigaddset(signals, SIGHUP);
}

/* Thousands of queues take a while: who has changed his mind need not wait. */
static bool daemon_end_is_asked(void)
{
	sigset_t pending;
	sigset_t ending;

	sigpending(&pending);
	daemon_ending_signals(&ending);
	sigandset(&ending, &ending, &pending);
	return !sigisemptyset(&ending);
}

static int daemon_open_workers(struct daemon *daemon)
{
	unsigned int count = options_queue_count(&daemon->options);
	char text[EXPLAIN_BYTES];

	daemon->workers = calloc(count, sizeof(*daemon->workers));
	if (!daemon->workers)
		return -ENOMEM;
	for (unsigned int i = 0; i < count; i++) {
		struct worker *worker = &daemon->workers[i];
		int error = worker_open(worker, &daemon->options, i);
		if (error) {
			explain_open(worker->number, error, text);
			log_error("%s", text);
			worker_close(worker);
			return error;
		}
		daemon->count++;
		if (i == 0) /* the others get the same */
			setup_tell_size(worker, &daemon->options.config);
		if (daemon_end_is_asked())
			return -ECANCELED;
	}
	return 0;
}

static int daemon_start_workers(struct daemon *daemon)
{
	char text[EXPLAIN_BYTES];

	for (unsigned int i = 0; i < daemon->count; i++) {
		int error = worker_start(&daemon->workers[i]);
		if (error) {
			explain_thread(&daemon->options, i, error, text);
			log_error("%s", text);
			return error;
		}
	}
	return 0;
}

/* Waits until each worker runs, because only then its policy can be read back. */
static void daemon_await_workers(const struct daemon *daemon)
{
	const struct timespec pause = { .tv_nsec = 100000 };

	for (unsigned int i = 0; i < daemon->count; i++)
		while (!worker_tid(&daemon->workers[i]))
			nanosleep(&pause, NULL);
}

static void daemon_announce_ready(struct daemon *daemon)
{
	const struct options *options = &daemon->options;
	char sched[STATS_SCHED_BYTES];
	char queues[32];

	daemon_await_workers(daemon);
	stats_collect(&daemon->stats, daemon->workers, daemon_uptime_s(daemon));
	if (daemon->count > 1)
		snprintf(queues, sizeof(queues), "queues %u to %u", options->config.queue, options->last_queue);
	else
		snprintf(queues, sizeof(queues), "queue %u", options->config.queue);
	log_line("ready: %s, %s, copy %s, burst %u, scheduling %s", queues,
		 options->config.flags & NQ_F_GSO ? "gso" : "no gso", options->copy, options->config.burst,
		 stats_describe_sched(&daemon->stats, sched));
}

static int daemon_write_json(struct daemon *daemon)
{
	if (!daemon->json)
		return 0;
	int error = stats_write_json(&daemon->stats, daemon->json);
	if (error)
		log_error("--json: cannot be written: %s", strerror(-error));
	return error;
}

/* The kernel says that a thread ran for long without sleeping. It must not take the machine. */
static void daemon_demote(void)
{
	int error = rt_demote();

	log_warning("a thread ran for half a second without sleeping: real-time policy given up for SCHED_OTHER%s%s",
		    error ? ": " : "", error ? strerror(-error) : "");
}

/* A worker ends on its own only if its queue failed. */
static int daemon_check_workers(const struct daemon *daemon)
{
	for (unsigned int i = 0; i < daemon->count; i++) {
		const struct worker *worker = &daemon->workers[i];
		if (!worker_has_ended(worker) || !worker->result)
			continue;
		log_error("queue %u: failed: %s", worker->number, strerror(-worker->result));
		return worker->result;
	}
	return 0;
}

static void daemon_log_interval(struct daemon *daemon)
{
	stats_log_rates(&daemon->stats, &daemon->last_interval);
	memcpy(daemon->last_interval.queues, daemon->stats.queues, daemon->count * sizeof(*daemon->stats.queues));
	daemon->last_interval.uptime_s = daemon->stats.uptime_s;
}

/* The next signal, or 0 when it is time for a line of rates. */
static int daemon_await_signal(const struct daemon *daemon)
{
	if (!daemon->options.interval_s)
		return sigwaitinfo(&daemon->signals, NULL);

	double left_s = daemon->last_interval.uptime_s + daemon->options.interval_s - daemon_uptime_s(daemon);
	if (left_s < 0)
		left_s = 0;
	struct timespec timeout = { .tv_sec = (time_t)left_s };
	timeout.tv_nsec = (long)((left_s - (double)timeout.tv_sec) * 1e9);
	int number = sigtimedwait(&daemon->signals, NULL, &timeout);
	return number < 0 && errno == EAGAIN ? 0 : number;
}

/* Until a signal asks for the end (0) or something failed (a negative errno). */
static int daemon_wait(struct daemon *daemon)
{
	int error = 0;

	while (!error) {
		int number = daemon_await_signal(daemon);
		stats_collect(&daemon->stats, daemon->workers, daemon_uptime_s(daemon));
		switch (number) {
		case SIGTERM:
		case SIGINT:
		case SIGHUP:
			return 0;
		case SIGUSR1:
			error = daemon_write_json(daemon);
			break;
		case SIGXCPU:
			daemon_demote();
			break;
		case WORKER_SIGNAL_ENDED:
			error = daemon_check_workers(daemon);
			break;
		case 0:
			daemon_log_interval(daemon);
			break;
		default:
			break; /* interrupted */
		}
	}
	return error;
}

/* For a fifth of a second, which is far more than the packets that wait take. */
static bool daemon_workers_end_soon(const struct daemon *daemon)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	unsigned int ended = 0;

	for (int ms = 0; ms < 200 && ended < daemon->count; ms++) {
		ended = 0;
		for (unsigned int i = 0; i < daemon->count; i++)
			ended += !daemon->workers[i].started || worker_has_ended(&daemon->workers[i]);
		if (ended < daemon->count)
			nanosleep(&pause, NULL);
	}
	return ended == daemon->count;
}

/* A second signal to end ends at once: but not the one that timeout(1) sends right behind the first. */
static void daemon_let_signals_kill(void)
{
	const struct timespec now = { 0 };
	sigset_t signals;

	daemon_ending_signals(&signals);
	while (sigtimedwait(&signals, NULL, &now) > 0)
		; /* the first one, if the start ended before it was taken */
	pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
}

static void daemon_stop_workers(struct daemon *daemon)
{
	for (unsigned int i = 0; i < daemon->count; i++) {
		struct worker *worker = &daemon->workers[i];
		int error = worker->started && !worker_has_ended(worker) ? worker_stop(worker) : 0;
		if (error)
			log_error("queue %u: cannot be stopped in order: %s", worker->number, strerror(-error));
	}
	if (!daemon_workers_end_soon(daemon))
		daemon_let_signals_kill();
	for (unsigned int i = 0; i < daemon->count; i++)
		worker_join(&daemon->workers[i]);
}

static void daemon_close(struct daemon *daemon)
{
	for (unsigned int i = 0; i < daemon->count; i++)
		worker_close(&daemon->workers[i]);
	free(daemon->workers);
	stats_free(&daemon->stats);
	stats_free(&daemon->last_interval);
	if (daemon->json && daemon->json != stdout)
		fclose(daemon->json);
}

static int daemon_report(struct daemon *daemon)
{
	stats_collect(&daemon->stats, daemon->workers, daemon_uptime_s(daemon));
	stats_log_summary(&daemon->stats);
	return daemon_write_json(daemon);
}

/* Everything from the first resource to the last report; 0 or a negative errno that has been explained. */
static int daemon_run(struct daemon *daemon)
{
	int error = stats_init(&daemon->stats, &daemon->options);

	if (!error)
		error = stats_init(&daemon->last_interval, &daemon->options);
	if (!error)
		error = daemon_open_output(daemon);
	if (!error)
		error = setup_try_threads(&daemon->options);
	if (error)
		return error;
	if (rt_limit_busy_time() < 0)
		log_warning("no limit on the time that a real-time thread may run without sleeping: %s",
			    strerror(errno));

	daemon->start_ns = rt_now_ns();
	setup_bound_spin(&daemon->options);
	error = daemon_open_workers(daemon);
	daemon->stats.memory_locked = setup_lock_memory(&daemon->options);
	/* Also after a failure: a queue that is bound may hold packets, which its worker answers before it ends. */
	int start_error = daemon_start_workers(daemon);
	if (!error)
		error = start_error;
	if (!error) {
		daemon_announce_ready(daemon);
		error = daemon_wait(daemon);
	}
	daemon_stop_workers(daemon);
	if (!error)
		error = daemon_check_workers(daemon);
	int report_error = daemon->count == daemon->stats.count ? daemon_report(daemon) : 0;
	if (error == -ECANCELED)
		return 0; /* nothing failed */
	return error ? error : report_error;
}

/* What was printed on stdout must have got there. */
static int main_flush(void)
{
	if (fflush(stdout) == 0)
		return EXIT_SUCCESS;
	log_error("standard output: %s", strerror(errno));
	return EXIT_FAILURE;
}

int main(int argc, char *argv[])
{
	struct daemon daemon = { 0 };
	char error[OPTIONS_ERROR_BYTES];

	switch (options_parse(argc, argv, &daemon.options, error)) {
	case OPTIONS_HELP:
		fputs(options_help, stdout);
		return main_flush();
	case OPTIONS_VERSION:
		puts("nfq-noop " NQ_VERSION);
		return main_flush();
	case OPTIONS_BAD:
		log_error("%s (--help lists the options)", error);
		return EXIT_USAGE;
	case OPTIONS_RUN:
		break;
	}
	log_set_verbose(daemon.options.verbose);
	if (daemon.options.check)
		return check_run(&daemon.options) ? EXIT_FAILURE : main_flush();

	daemon_block_signals(&daemon);
	int result = daemon_run(&daemon);
	daemon_close(&daemon);
	return result ? EXIT_FAILURE : EXIT_SUCCESS;
}
