/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Between "ready" and the end: signals, a look at the queues every second, and lines of rates. */
#include <errno.h>
#include <string.h>

#include "daemon.h"
#include "log.h"
#include "manager.h"
#include "rt.h"

double daemon_uptime_s(const struct daemon *daemon)
{
	return (double)(rt_now_ns() - daemon->start_ns) / 1e9;
}

void daemon_ending_signals(sigset_t *signals)
{
	sigemptyset(signals);
	sigaddset(signals, SIGTERM);
	sigaddset(signals, SIGINT);
}

int daemon_write_json(struct daemon *daemon)
{
	if (!daemon->json)
		return 0;
	int error = stats_write_json(&daemon->stats, daemon->json);
	if (error)
		log_error("--json: cannot be written: %s", strerror(-error));
	return error;
}

/* The kernel says that a thread ran for long without sleeping. It must not take the machine. */
static void wait_demote(void)
{
	int error = rt_demote();

	log_warning("a thread ran for half a second without sleeping: real-time policy given up for SCHED_OTHER%s%s",
		    error ? ": " : "", error ? strerror(-error) : "");
}

int daemon_check_workers(const struct daemon *daemon)
{
	for (unsigned int i = 0; i < daemon->count; i++) {
		const struct worker *worker = &daemon->workers[i];
		if (!worker_has_ended(worker) || !worker->result || worker->result == -ECANCELED)
			continue;
		if (worker->result == -ENODEV)
			log_error("queue %u: failed: another process that holds its socket has unbound it",
				  worker->number);
		else
			log_error("queue %u: failed: %s", worker->number, strerror(-worker->result));
		return worker->result;
	}
	return 0;
}

/* A worker ends on its own only if its queue failed, or if it paused after nobody waited for that any more. */
static int wait_take_ended(struct daemon *daemon)
{
	int error = daemon_check_workers(daemon);

	return error ? error : daemon_resume_workers(daemon);
}

static void wait_log_interval(struct daemon *daemon)
{
	stats_log_rates(&daemon->stats, &daemon->last_interval);
	stats_copy(&daemon->last_interval, &daemon->stats);
}

/* The next signal, or 0 if there is none until then. */
static int wait_for_signal(const struct daemon *daemon, int64_t until_ns)
{
	int64_t left_ns = until_ns - rt_now_ns();

	if (left_ns < 0)
		left_ns = 0;
	struct timespec timeout = { .tv_sec = left_ns / 1000000000, .tv_nsec = left_ns % 1000000000 };
	int number = sigtimedwait(&daemon->signals, NULL, &timeout);
	return number < 0 && errno == EAGAIN ? 0 : number;
}

/* What a signal asks for, or a negative errno. */
static int wait_take_signal(struct daemon *daemon, int number)
{
	switch (number) {
	case SIGTERM:
	case SIGINT:
		return DAEMON_END;
	case SIGHUP:
		return DAEMON_RESTART;
	case SIGUSR1:
		/* A full disk is told, and no reason to let packets down. */
		stats_collect(&daemon->stats, daemon->workers, daemon_uptime_s(daemon));
		daemon_write_json(daemon);
		break;
	case SIGXCPU:
		wait_demote();
		stats_collect(&daemon->stats, daemon->workers, daemon_uptime_s(daemon));
		break;
	case WORKER_SIGNAL_ENDED:
		return wait_take_ended(daemon);
	default:
		break; /* interrupted */
	}
	return DAEMON_GO_ON;
}

/* Once a second: is everything as it should be? The watchdog hears of it only if packets are being answered. */
static int wait_look(struct daemon *daemon)
{
	int error = watch_look(&daemon->watch, daemon->workers);

	if (!error && !daemon->watch.is_stuck)
		manager_tell_alive();
	return error;
}

static int64_t wait_tick_ns(void)
{
	uint64_t watchdog_us = manager_watchdog_us();
	int64_t tick_ns = WATCH_INTERVAL_NS;

	if (watchdog_us && (int64_t)watchdog_us * 500 < tick_ns)
		tick_ns = (int64_t)watchdog_us * 500; /* half of it */
	return tick_ns;
}

int daemon_wait(struct daemon *daemon)
{
	const int64_t interval_ns = (int64_t)daemon->options.interval_s * 1000000000;
	const int64_t tick_ns = wait_tick_ns();
	int64_t tick_at_ns = rt_now_ns() + tick_ns;
	int64_t line_at_ns = daemon->start_ns + (int64_t)(daemon->last_interval.uptime_s * 1e9) + interval_ns;
	int event = DAEMON_GO_ON;

	while (event == DAEMON_GO_ON) {
		bool line_is_next = interval_ns && line_at_ns < tick_at_ns;
		int number = wait_for_signal(daemon, line_is_next ? line_at_ns : tick_at_ns);
		int64_t now_ns = rt_now_ns();
		if (number)
			event = wait_take_signal(daemon, number);
		if (!event && interval_ns && now_ns >= line_at_ns) {
			stats_collect(&daemon->stats, daemon->workers, daemon_uptime_s(daemon));
			wait_log_interval(daemon);
			line_at_ns += interval_ns;
		}
		if (!event && now_ns >= tick_at_ns) {
			event = wait_look(daemon);
			tick_at_ns = now_ns + tick_ns;
		}
	}
	return event;
}
