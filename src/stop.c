/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The end of workers: for good, or until the program has become itself anew. No packet is lost by either. */
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon.h"
#include "log.h"
#include "manager.h"

/* Packets that pass by overtake those that wait, so that few should wait by then. */
#define STOP_BACKLOG	16u
#define STOP_BACKLOG_MS 100

/* Far more than the packets that wait take. */
#define STOP_WORKERS_MS 200
#define STOP_RESTART_MS 10000

static const struct timespec stop_pause = { .tv_nsec = 1000000 };

static bool stop_worker_runs(const struct worker *worker)
{
	return worker->started && !worker_has_ended(worker);
}

static bool stop_workers_end_within(const struct daemon *daemon, int ms)
{
	unsigned int running = daemon->count;

	for (; running && ms >= 0; ms--) {
		running = 0;
		for (unsigned int i = 0; i < daemon->count; i++)
			running += stop_worker_runs(&daemon->workers[i]);
		if (running)
			nanosleep(&stop_pause, NULL);
	}
	return !running;
}

static bool stop_backlog_is_small(const struct daemon *daemon)
{
	struct nq_status status;

	for (unsigned int i = 0; i < daemon->count; i++)
		if (stop_worker_runs(&daemon->workers[i]) && nq_status_read(daemon->workers[i].queue, &status) == 0 &&
		    status.waiting > STOP_BACKLOG)
			return false;
	return true;
}

static void stop_shrink_backlog(const struct daemon *daemon)
{
	for (int ms = 0; ms < STOP_BACKLOG_MS && !stop_backlog_is_small(daemon); ms++)
		nanosleep(&stop_pause, NULL);
}

/* A second signal to end ends at once: but not the one that timeout(1) sends right behind the first. */
static void stop_let_signals_kill(void)
{
	const struct timespec now = { 0 };
	sigset_t signals;

	daemon_ending_signals(&signals);
	while (sigtimedwait(&signals, NULL, &now) > 0)
		; /* the first one, if the start ended before it was taken */
	pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
}

static void stop_join(struct daemon *daemon)
{
	for (unsigned int i = 0; i < daemon->count; i++)
		worker_join(&daemon->workers[i]);
}

void daemon_stop(struct daemon *daemon)
{
	manager_tell_stop();
	stop_shrink_backlog(daemon);
	for (unsigned int i = 0; i < daemon->count; i++) {
		struct worker *worker = &daemon->workers[i];
		int error = stop_worker_runs(worker) ? worker_stop(worker) : 0;
		if (error)
			log_error("queue %u: cannot be stopped in order: %s", worker->number, strerror(-error));
	}
	if (!stop_workers_end_within(daemon, STOP_WORKERS_MS))
		stop_let_signals_kill();
	stop_join(daemon);
}

/* ---- restart ---- */

static int stop_pause_workers(struct daemon *daemon)
{
	for (unsigned int i = 0; i < daemon->count; i++) {
		struct worker *worker = &daemon->workers[i];
		int error = stop_worker_runs(worker) ? worker_pause(worker) : -ESRCH;
		if (error)
			return error;
	}
	return stop_workers_end_within(daemon, STOP_RESTART_MS) ? 0 : -ETIMEDOUT;
}

int daemon_resume_workers(struct daemon *daemon)
{
	int error = 0;

	for (unsigned int i = 0; i < daemon->count && !error; i++) {
		struct worker *worker = &daemon->workers[i];
		if (!worker_has_ended(worker) || worker->result != -ECANCELED)
			continue;
		error = worker_resume(worker);
		if (error)
			log_error("queue %u: cannot go on: %s", worker->number, strerror(-error));
	}
	return error;
}

/* Returns only if it failed: a negative errno. */
static int stop_become_anew(struct daemon *daemon)
{
	struct handover rest = { .restarts = daemon->stats.restarts, .start_ns = daemon->start_ns, .json = -1 };

	if (daemon->json && daemon->json != stdout)
		rest.json = fileno(daemon->json);
	int file = handover_write(daemon->workers, daemon->count, &rest);
	if (file < 0)
		return file;
	handover_expose(daemon->workers, daemon->count, &rest, file, true);
	execv(daemon->program, daemon->argv);
	int error = -errno;
	handover_expose(daemon->workers, daemon->count, &rest, file, false);
	close(file);
	return error;
}

int daemon_restart(struct daemon *daemon)
{
	manager_tell_restart();
	int error = stop_pause_workers(daemon);
	if (!error) {
		stop_join(daemon);
		error = stop_become_anew(daemon);
		log_error("SIGHUP: cannot start %s anew: %s: the old program goes on", daemon->program,
			  strerror(-error));
	} else {
		log_error("SIGHUP: a queue comes to no pause: %s: the old program goes on", strerror(-error));
	}
	error = daemon_resume_workers(daemon);
	if (!error)
		manager_tell_ready();
	return error;
}
