/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nfq-noop: binds NFQUEUEs and gives every packet back unchanged.
 *
 * Theory of operation
 *
 *   The first thread parses, makes everything (start.c), gives up its privileges (privilege.c), and then only waits for
 *   signals (wait.c), which are blocked everywhere and taken there one by one; so no signal handler exists. Each queue
 *   has a worker (worker.c), which does nothing but serve it.
 *
 *   SIGTERM answers what waits and ends (stop.c). SIGHUP brings the workers to a pause and becomes the program anew,
 *   with the queues' sockets kept (handover.c): what comes meanwhile waits in them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "daemon.h"
#include "log.h"

enum { EXIT_USAGE = 2 };

/* Before any thread exists, so that all inherit the mask. */
static void main_block_signals(struct daemon *daemon)
{
	static const int signals[] = { SIGTERM, SIGINT, SIGUSR1, SIGXCPU, SIGPIPE, WORKER_SIGNAL_ENDED };
	struct sigaction hangup;

	sigemptyset(&daemon->signals);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaddset(&daemon->signals, signals[i]);
	/* nohup(1) means that it should not matter to us; a signal that is ignored would still be taken. */
	if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
		sigaddset(&daemon->signals, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &daemon->signals, NULL);
	sigdelset(&daemon->signals, SIGPIPE); /* pending for ever: a write then fails with EPIPE */
}

/* Where we come from: a link that names the file, and would name it also if it were replaced by then. */
static void main_find_program(struct daemon *daemon)
{
	ssize_t length = readlink("/proc/self/exe", daemon->program, sizeof(daemon->program) - 1);

	if (length < 0)
		length = 0;
	daemon->program[length] = '\0';
}

static void main_close(struct daemon *daemon)
{
	for (unsigned int i = 0; i < daemon->count; i++)
		worker_close(&daemon->workers[i]);
	free(daemon->workers);
	handover_close(&daemon->inherited);
	privilege_filter_free(&daemon->worker_filter);
	watch_free(&daemon->watch);
	stats_free(&daemon->stats);
	stats_free(&daemon->last_interval);
	if (daemon->json && daemon->json != stdout)
		fclose(daemon->json);
}

static int main_report(struct daemon *daemon)
{
	stats_collect(&daemon->stats, daemon->workers, daemon_uptime_s(daemon));
	stats_log_summary(&daemon->stats);
	return daemon_write_json(daemon);
}

/* Everything from the first resource to the last report; 0 or a negative errno that has been explained. */
static int main_run(struct daemon *daemon)
{
	int error = daemon_start(daemon);

	int event = DAEMON_GO_ON;

	while (!error && event != DAEMON_END) {
		event = daemon_wait(daemon);
		if (event == DAEMON_RESTART)
			error = daemon_restart(daemon);
		else if (event < 0)
			error = event;
	}
	daemon_stop(daemon);
	if (!error)
		error = daemon_check_workers(daemon);
	int report_error = 0;
	if (daemon->count && daemon->count == daemon->stats.count)
		report_error = main_report(daemon);
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
	struct daemon daemon = { .argv = argv };
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

	main_block_signals(&daemon);
	main_find_program(&daemon);
	int result = main_run(&daemon);
	main_close(&daemon);
	return result ? EXIT_FAILURE : EXIT_SUCCESS;
}
