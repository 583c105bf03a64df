/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command line. Each option has one function that reads its value or says what is wrong with it. */
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONS_HEADERS_BYTES 128u

/* Without GSO a packet is a segment, of which an aggregate makes 45; eight TCP connections had 8000 on the way. */
#define OPTIONS_MAXLEN_SEGMENTS 65536u

const char options_help[] =
	"Usage: nfq-noop [OPTION]...\n"
	"Bind NFQUEUEs and give every packet back unchanged.\n"
	"\n"
	"Queue\n"
	"  -q, --queue FIRST[:LAST]  queues to bind, one thread each (0)\n"
	"      --no-gso              have the kernel segment packets before they are queued\n"
	"      --copy full|headers|meta|BYTES\n"
	"                            payload given to user space; headers = 128 (full)\n"
	"      --maxlen N            packets that the kernel may hold per queue\n"
	"                            (1024; 65536 with --no-gso; what fits into --rcvbuf)\n"
	"      --rcvbuf BYTES        socket buffer (sized from maxlen and copy)\n"
	"      --burst N             most packets a receive, 1 to 1024 (32)\n"
	"      --fail-open           when overloaded, let packets pass instead of dropping them\n"
	"\n"
	"Scheduling\n"
	"      --sched inherit|other|rr:PRIO|fifo:PRIO\n"
	"                            policy of the threads; inherit keeps what chrt set (inherit)\n"
	"      --cpu LIST            pin thread i to the i-th CPU of LIST, such as 0,2-3\n"
	"      --spin USEC           keep asking for packets that long before sleeping (0)\n"
	"      --delay USEC          hold each packet that long: a control for measurements (0)\n"
	"\n"
	"Safety\n"
	"      --user NAME           become NAME once started\n"
	"      --sandbox on|off|kill refuse system calls that are not needed, allow them, or\n"
	"                            end at the first (on)\n"
	"      --adopt               go on with queues that the service manager has kept\n"
	"\n"
	"Output\n"
	"      --interval SECONDS    print a line of rates that often\n"
	"      --json[=FILE]         at the end and on SIGUSR1 write a JSON object, one a line\n"
	"      --latency             measure how long packets stay, for --json\n"
	"      --trace               print each packet\n"
	"      --check               test what can be tested without binding, and exit\n"
	"  -v, --verbose             say more\n"
	"  -V, --version             print the version and exit\n"
	"  -h, --help                print this and exit\n"
	"\n"
	"Prints \"ready\" on stderr once every queue is bound and configured. SIGTERM and\n"
	"SIGINT end it after every packet that waits has been answered; SIGHUP starts it\n"
	"again, from its file, with the same options and without losing a packet.\n"
	"Exit status: 0 ended by a signal, 1 failed, 2 wrong usage.\n";

enum option_id {
	OPTION_NO_GSO = 256,
	OPTION_COPY,
	OPTION_MAXLEN,
	OPTION_RCVBUF,
	OPTION_BURST,
	OPTION_FAIL_OPEN,
	OPTION_SCHED,
	OPTION_CPU,
	OPTION_SPIN,
	OPTION_DELAY,
	OPTION_USER,
	OPTION_SANDBOX,
	OPTION_ADOPT,
	OPTION_INTERVAL,
	OPTION_JSON,
	OPTION_LATENCY,
	OPTION_TRACE,
	OPTION_CHECK,
};

static const struct option options_long[] = {
	{ "queue", required_argument, NULL, 'q' },
	{ "no-gso", no_argument, NULL, OPTION_NO_GSO },
	{ "copy", required_argument, NULL, OPTION_COPY },
	{ "maxlen", required_argument, NULL, OPTION_MAXLEN },
	{ "rcvbuf", required_argument, NULL, OPTION_RCVBUF },
	{ "burst", required_argument, NULL, OPTION_BURST },
	{ "fail-open", no_argument, NULL, OPTION_FAIL_OPEN },
	{ "sched", required_argument, NULL, OPTION_SCHED },
	{ "cpu", required_argument, NULL, OPTION_CPU },
	{ "spin", required_argument, NULL, OPTION_SPIN },
	{ "delay", required_argument, NULL, OPTION_DELAY },
	{ "user", required_argument, NULL, OPTION_USER },
	{ "sandbox", required_argument, NULL, OPTION_SANDBOX },
	{ "adopt", no_argument, NULL, OPTION_ADOPT },
	{ "interval", required_argument, NULL, OPTION_INTERVAL },
	{ "json", optional_argument, NULL, OPTION_JSON },
	{ "latency", no_argument, NULL, OPTION_LATENCY },
	{ "trace", no_argument, NULL, OPTION_TRACE },
	{ "check", no_argument, NULL, OPTION_CHECK },
	{ "verbose", no_argument, NULL, 'v' },
	{ "version", no_argument, NULL, 'V' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

/* Writes the message and returns false, so that a reader can end with it. */
__attribute__((format(printf, 2, 3))) static bool options_refuse(char *error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(error, OPTIONS_ERROR_BYTES, format, arguments);
	va_end(arguments);
	return false;
}

/* Reads a decimal number at *text and moves *text behind it. Signs, spaces and what does not fit are refused. */
static bool options_scan_number(const char **text, uint64_t max, uint64_t *value)
{
	char *end;

	if (!isdigit((unsigned char)**text))
		return false;
	errno = 0;
	*value = strtoull(*text, &end, 10);
	*text = end;
	return errno == 0 && *value <= max;
}

static bool options_read_u32(const char *name, const char *text, uint32_t min, uint32_t max, uint32_t *value,
			     char *error)
{
	const char *rest = text;
	uint64_t number;

	if (!options_scan_number(&rest, max, &number) || *rest || number < min)
		return options_refuse(error, "--%s %s: must be a number from %u to %u", name, text, min, max);
	*value = (uint32_t)number;
	return true;
}

static bool options_read_queue(const char *text, struct options *options, char *error)
{
	const char *rest = text;
	uint64_t first;
	uint64_t last;

	if (!options_scan_number(&rest, UINT32_MAX, &first))
		return options_refuse(error, "--queue %s: must be a number, or FIRST:LAST", text);
	last = first;
	if (*rest == ':') {
		rest++;
		if (!options_scan_number(&rest, UINT32_MAX, &last))
			return options_refuse(error, "--queue %s: must be a number, or FIRST:LAST", text);
	}
	if (*rest)
		return options_refuse(error, "--queue %s: must be a number, or FIRST:LAST", text);
	if (first > UINT16_MAX || last > UINT16_MAX)
		return options_refuse(error, "--queue %s: queue numbers end at 65535", text);
	if (last < first)
		return options_refuse(error, "--queue %s: the last queue is lower than the first", text);
	options->config.queue = (uint16_t)first;
	options->last_queue = (uint16_t)last;
	return true;
}

static bool options_read_copy(const char *text, struct options *options, char *error)
{
	const char *rest = text;
	uint64_t bytes;

	options->copy = text;
	if (strcmp(text, "full") == 0)
		options->config.copy_bytes = NQ_COPY_FULL;
	else if (strcmp(text, "headers") == 0)
		options->config.copy_bytes = OPTIONS_HEADERS_BYTES;
	else if (strcmp(text, "meta") == 0)
		options->config.copy_bytes = NQ_COPY_META;
	else if (options_scan_number(&rest, NQ_COPY_FULL, &bytes) && !*rest && bytes > 0)
		options->config.copy_bytes = (uint32_t)bytes;
	else
		return options_refuse(error, "--copy %s: must be full, headers, meta, or bytes from 1 to %u", text,
				      NQ_COPY_FULL);
	return true;
}

static bool options_read_priority(const char *text, int policy, struct options *options, char *error)
{
	const char *rest = text;
	int min = sched_get_priority_min(policy);
	int max = sched_get_priority_max(policy);
	uint64_t priority;

	if (!options_scan_number(&rest, (uint64_t)max, &priority) || *rest || priority < (uint64_t)min)
		return options_refuse(error, "--sched: priority \"%s\" must be a number from %d to %d", text, min, max);
	options->sched = (struct rt_policy){ .policy = policy, .priority = (int)priority };
	return true;
}

static bool options_read_sched(const char *text, struct options *options, char *error)
{
	if (strncmp(text, "rr:", 3) == 0)
		return options_read_priority(text + 3, SCHED_RR, options, error);
	if (strncmp(text, "fifo:", 5) == 0)
		return options_read_priority(text + 5, SCHED_FIFO, options, error);
	if (strcmp(text, "other") == 0)
		options->sched = (struct rt_policy){ .policy = SCHED_OTHER };
	else if (strcmp(text, "inherit") == 0)
		options->sched = (struct rt_policy){ .inherit = true };
	else
		return options_refuse(error, "--sched %s: must be inherit, other, rr:PRIO or fifo:PRIO", text);
	return true;
}

static bool options_read_cpus(const char *text, struct options *options, char *error)
{
	const char *rest = text;
	uint64_t first;
	uint64_t last;

	options->cpu_count = 0;
	do {
		if (!options_scan_number(&rest, CPU_SETSIZE - 1, &first))
			return options_refuse(error, "--cpu %s: must be CPU numbers, such as 0 or 0,2-3", text);
		last = first;
		if (*rest == '-') {
			rest++;
			if (!options_scan_number(&rest, CPU_SETSIZE - 1, &last) || last < first)
				return options_refuse(error, "--cpu %s: a range must be LOW-HIGH", text);
		}
		for (; first <= last; first++) {
			if (options->cpu_count == OPTIONS_CPUS_MAX)
				return options_refuse(error, "--cpu: at most %d CPUs", OPTIONS_CPUS_MAX);
			options->cpus[options->cpu_count++] = (int)first;
		}
	} while (*rest++ == ',');
	if (rest[-1])
		return options_refuse(error, "--cpu %s: must be CPU numbers, such as 0 or 0,2-3", text);
	return true;
}

static bool options_read_user(const char *text, struct options *options, char *error)
{
	if (!*text)
		return options_refuse(error, "--user: needs the name of a user");
	options->user = text;
	return true;
}

static bool options_read_sandbox(const char *text, struct options *options, char *error)
{
	static const char *const words[] = {
		[OPTIONS_SANDBOX_ON] = "on", [OPTIONS_SANDBOX_OFF] = "off", [OPTIONS_SANDBOX_KILL] = "kill"
	};

	for (unsigned int i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(text, words[i]) == 0) {
			options->sandbox = (enum options_sandbox)i;
			return true;
		}
	return options_refuse(error, "--sandbox %s: must be on, off or kill", text);
}

static bool options_read_json(const char *file, struct options *options, char *error)
{
	if (file && !*file)
		return options_refuse(error, "--json=: needs a file name; plain --json writes to stdout");
	options->json = true;
	options->json_file = file;
	return true;
}

static bool options_read_numeric(int id, const char *text, struct options *options, char *error)
{
	switch (id) {
	case OPTION_MAXLEN:
		return options_read_u32("maxlen", text, 1, UINT32_MAX, &options->config.maxlen, error);
	case OPTION_RCVBUF:
		return options_read_u32("rcvbuf", text, 1, INT32_MAX / 2, &options->config.rcvbuf_bytes, error);
	case OPTION_BURST:
		return options_read_u32("burst", text, 1, NQ_BURST_MAX, &options->config.burst, error);
	case OPTION_SPIN:
		return options_read_u32("spin", text, 0, NQ_SPIN_US_MAX, &options->config.spin_us, error);
	case OPTION_DELAY:
		return options_read_u32("delay", text, 0, OPTIONS_DELAY_US_MAX, &options->delay_us, error);
	default:
		return options_read_u32("interval", text, 1, 86400, &options->interval_s, error);
	}
}

/* Those without a value. */
static bool options_read_switch(int id, struct options *options)
{
	switch (id) {
	case OPTION_NO_GSO:
		options->config.flags &= ~(uint32_t)NQ_F_GSO;
		return true;
	case OPTION_FAIL_OPEN:
		options->config.flags |= NQ_F_FAIL_OPEN;
		return true;
	case OPTION_ADOPT:
		options->adopt = true;
		return true;
	case OPTION_LATENCY:
		options->latency = true;
		return true;
	case OPTION_TRACE:
		options->trace = true;
		return true;
	case OPTION_CHECK:
		options->check = true;
		return true;
	case 'v':
		options->verbose = true;
		return true;
	default:
		return false;
	}
}

static bool options_read(int id, const char *value, struct options *options, char *error)
{
	switch (id) {
	case 'q':
		return options_read_queue(value, options, error);
	case OPTION_COPY:
		return options_read_copy(value, options, error);
	case OPTION_SCHED:
		return options_read_sched(value, options, error);
	case OPTION_CPU:
		return options_read_cpus(value, options, error);
	case OPTION_USER:
		return options_read_user(value, options, error);
	case OPTION_SANDBOX:
		return options_read_sandbox(value, options, error);
	case OPTION_JSON:
		return options_read_json(value, options, error);
	default:
		return options_read_switch(id, options) || options_read_numeric(id, value, options, error);
	}
}

/* getopt's own complaints, in our words. */
static bool options_refuse_word(int id, const char *word, char *error)
{
	if (id == ':')
		return options_refuse(error, "%s: needs a value", word);
	if (optopt > 0 && optopt < 256)
		return options_refuse(error, "-%c: no such option", optopt);
	if (optopt)
		return options_refuse(error, "%s: takes no value", word);
	return options_refuse(error, "%s: no such option, or short for more than one", word);
}

static void options_set_defaults(struct options *options)
{
	*options = (struct options){ .copy = "full", .sched.inherit = true };
	nq_config_init(&options->config, 0);
}

enum options_result options_parse(int argc, char *argv[], struct options *options, char error[OPTIONS_ERROR_BYTES])
{
	int id;

	options_set_defaults(options);
	opterr = 0;
	optind = 0; /* glibc: begin anew */
	while ((id = getopt_long(argc, argv, ":q:vVh", options_long, NULL)) != -1) {
		if (id == 'h')
			return OPTIONS_HELP;
		if (id == 'V')
			return OPTIONS_VERSION;
		if (id == '?' || id == ':')
			return options_refuse_word(id, argv[optind - 1], error), OPTIONS_BAD;
		if (!options_read(id, optarg, options, error))
			return OPTIONS_BAD;
	}
	if (optind < argc)
		return options_refuse(error, "%s: takes no arguments beside options", argv[optind]), OPTIONS_BAD;
	/* By size means: the library's default, or what fits into the buffer that is asked for. */
	if (options->config.maxlen == NQ_MAXLEN_BY_SIZE && !options->config.rcvbuf_bytes &&
	    !(options->config.flags & NQ_F_GSO))
		options->config.maxlen = OPTIONS_MAXLEN_SEGMENTS;
	return OPTIONS_RUN;
}

unsigned int options_queue_count(const struct options *options)
{
	return (unsigned int)(options->last_queue - options->config.queue) + 1;
}

int options_cpu(const struct options *options, unsigned int worker)
{
	return options->cpu_count ? options->cpus[worker % options->cpu_count] : RT_CPU_ANY;
}
