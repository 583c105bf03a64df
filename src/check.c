/* SPDX-License-Identifier: GPL-2.0-or-later */
/* --check: each line is what a start needs, whether it is there, and if not what helps. */
#include "check.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "explain.h"
#include "privilege.h"
#include "rules.h"
#include "worker.h"

__attribute__((format(printf, 2, 0))) static void check_print_line(const char *word, const char *format,
								   va_list arguments)
{
	printf("%-7s", word);
	vprintf(format, arguments);
	putchar('\n');
}

__attribute__((format(printf, 2, 3))) static unsigned int check_print(bool ok, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	check_print_line(ok ? "ok" : "failed", format, arguments);
	va_end(arguments);
	return ok ? 0 : 1;
}

/* What is worth knowing, and no reason not to start. */
__attribute__((format(printf, 1, 2))) static void check_note(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	check_print_line("note", format, arguments);
	va_end(arguments);
}

static unsigned int check_capability(void)
{
	if (rt_has_capability(CAP_NET_ADMIN))
		return check_print(true, "CAP_NET_ADMIN");
	return check_print(false, "CAP_NET_ADMIN: missing: run as root, or give the container the capability");
}

static unsigned int check_queue(uint16_t queue)
{
	char text[EXPLAIN_BYTES];
	struct nq_owner owner;
	int error = nq_owner_find(queue, &owner);

	if (error == -ENOENT)
		return check_print(true, "queue %u: free", queue);
	if (error == -EACCES)
		return check_print(true, "queue %u: only root can see whether it is free", queue);
	explain_open(queue, error ? error : -EBUSY, text);
	return check_print(false, "%s", text);
}

static unsigned int check_queues(const struct options *options)
{
	unsigned int failures = 0;

	for (unsigned int i = 0; i < options_queue_count(options) && !failures; i++)
		failures += check_queue((uint16_t)(options->config.queue + i));
	return failures;
}

static unsigned int check_threads(const struct options *options)
{
	char text[EXPLAIN_BYTES];

	unsigned int index;
	int error = worker_try(options, &index);

	if (!error)
		return check_print(true, "scheduling and CPUs");
	explain_thread(options, index, error, text);
	return check_print(false, "%s", text);
}

/* Two files a queue, and a few of the process. */
static unsigned int check_files(const struct options *options)
{
	unsigned int wanted = 2 * options_queue_count(options) + 8;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= wanted)
		return check_print(true, "open files");
	return check_print(false, "open files: %u are needed, the limit is %llu: raise it by \"ulimit -n\"", wanted,
			   (unsigned long long)limit.rlim_cur);
}

static unsigned int check_json_file(const char *path)
{
	struct stat status;

	/* Opening it would create it. */
	if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
		return check_print(false, "--json=%s: is a directory: name a file in it", path);
	if (access(path, W_OK) == 0)
		return check_print(true, "--json=%s: can be written", path);
	if (errno != ENOENT)
		return check_print(false, "--json=%s: cannot be written: %s", path, strerror(errno));

	char directory[4096];
	snprintf(directory, sizeof(directory), "%s", path);
	char *slash = strrchr(directory, '/');
	if (slash)
		slash[slash == directory] = '\0';
	else
		strcpy(directory, ".");
	if (access(directory, W_OK) == 0)
		return check_print(true, "--json=%s: can be created", path);
	return check_print(false, "--json=%s: cannot be created: %s: %s", path, directory, strerror(errno));
}

/* It would start all the same: only its end would lose packets. */
static void check_rules(const struct options *options)
{
	char line[RULES_LINE_BYTES];

	switch (rules_find(options->config.queue, options->last_queue, line)) {
	case RULES_BYPASS:
		check_print(true, "rules: all have bypass");
		break;
	case RULES_DROP:
		check_note("rule without bypass: when nfq-noop has ended the kernel drops its packets: %s", line);
		break;
	case RULES_NONE:
		check_note("no rule that can be seen from here queues packets for it");
		break;
	}
}

static unsigned int check_user(const struct options *options)
{
	char text[EXPLAIN_BYTES];
	int error = privilege_check_user(options);

	if (!options->user)
		return 0;
	if (!error)
		return check_print(true, "--user %s", options->user);
	explain_user(options->user, error, text);
	return check_print(false, "%s", text);
}

unsigned int check_run(const struct options *options)
{
	unsigned int failures = check_capability();

	failures += check_queues(options);
	failures += check_threads(options);
	failures += check_files(options);
	failures += check_user(options);
	if (options->json_file)
		failures += check_json_file(options->json_file);
	check_rules(options);
	return failures;
}
