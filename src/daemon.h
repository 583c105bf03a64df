/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The daemon: what the first thread has, and the phases that it goes through. */
#ifndef DAEMON_H
#define DAEMON_H

#include <limits.h>
#include <signal.h>
#include <stdio.h>

#include "handover.h"
#include "options.h"
#include "privilege.h"
#include "stats.h"
#include "watch.h"
#include "worker.h"

struct daemon {
	struct options options;
	char **argv;
	char program[PATH_MAX]; /* the file that we come from, which may be a newer one by now */
	struct handover inherited;
	unsigned int count; /* of workers that are open */
	struct worker *workers;
	struct privilege_filter worker_filter;
	FILE *json;
	sigset_t signals;
	int64_t start_ns;
	struct stats stats;
	struct stats last_interval;
	struct watch watch;
};

/* start.c: from the first resource to "ready". 0 or a negative errno that has been explained; -ECANCELED = a signal to
 * end came first. What was made is left to daemon_stop() and daemon_close(), also after a failure. */
int daemon_start(struct daemon *daemon);

enum daemon_event { DAEMON_GO_ON, DAEMON_END, DAEMON_RESTART };

/* wait.c: until a signal asks for the end or a restart, or something failed: then a negative errno. */
int daemon_wait(struct daemon *daemon);

/* Did a worker fail? Its negative errno, which has been told. */
int daemon_check_workers(const struct daemon *daemon);

/* One JSON object, if that was asked for. 0 or a negative errno that has been explained. */
int daemon_write_json(struct daemon *daemon);

/* The signals that ask for the end. */
void daemon_ending_signals(sigset_t *signals);

double daemon_uptime_s(const struct daemon *daemon);

/* stop.c */

/* Answers what waits, and ends the workers. Queues stay bound and readable until daemon_close(). */
void daemon_stop(struct daemon *daemon);

/* Becomes the program anew, with all queues kept. Returns only if that failed, which has been told: 0 if all goes on, or a
 * negative errno if that failed too. */
int daemon_restart(struct daemon *daemon);

/* Has workers go on that have come to a pause; others will when they do. 0 or a negative errno that has been told. */
int daemon_resume_workers(struct daemon *daemon);

#endif
